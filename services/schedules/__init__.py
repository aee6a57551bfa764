"""Schedules: their windows are planned ahead, begin and end by themselves, and can be looked at before they do."""
