"""Calendars as windows that schedules can have.

`ics` parses a file in a separate process with limited memory and time (`reader`), because the libraries that expand
rules may take very long for a malicious file. What can be rejected from the text alone is rejected before
(`prevalidation`). `time_zones` finds the IANA zones of the names that files use. `holidays` uses a package that
computes public holidays.

Both return a `ParsedCalendar`: windows in the terms of schedules, and the skipped events with the reason.
"""
