"""Recurrences, time zones, and the windows of schedules. Pure: no clock is read, and the time zone data are pinned."""
