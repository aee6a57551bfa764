"""Recurrences, time zones, and the windows of schedules."""
