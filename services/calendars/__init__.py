"""Calendars that programs subscribe to: freezes and windows as events.

`services/identity/calendar_feeds.py` has the feeds.
"""
