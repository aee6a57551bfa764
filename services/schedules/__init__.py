"""Schedules: save and validate them, plan their windows, start the freezes of due windows, import calendars.

Each window starts at most one freeze, on time or late, and what was done by hand is never undone (I7). Overlaps are
rejected when a schedule is saved, and raise an alert when they arise later. `calendar_feed.py` renders windows and
freezes for programs that subscribe to a feed (`services/identity/calendar_feeds.py`).
"""
