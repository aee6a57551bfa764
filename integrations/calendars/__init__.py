"""Calendars as windows that schedules can have.

`ics` reads a file in a separate process with limited memory and time (`reader`), because the libraries that expand
rules may take very long for a malicious file. What can be rejected from only the text is rejected before
(`prevalidation`). In the process `parsing` takes the file apart, `time_zones` finds the IANA zones of the names that it
uses, and `events` turns the events of one UID into windows: `spans` reads their start and end, `event_zones` their
local times, `rules` and `day_before` their recurrence.

`holidays` uses a package that computes public holidays. Both return a `ParsedCalendar` (`content`): windows in the
terms of schedules, and the skipped events with the reason.

`feed` writes the calendars to which programs subscribe.
"""
