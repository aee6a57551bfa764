"""Calendars as windows that schedules can have.

`ics` parses a file in a separate process with limited memory and time (`reader`), because the libraries that expand
rules may take very long for a malicious file, and because icalendar keeps the time zones that a file defines for the
rest of its process, so that one organisation's file would change how another's is parsed. What can be rejected from the
text alone is rejected before (`prevalidation`). `holidays` uses a package that computes public holidays.

Both return a `ParsedCalendar`: windows in the terms of schedules, and the skipped events with the reason.
"""
