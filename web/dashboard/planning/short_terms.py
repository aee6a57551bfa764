"""When a freeze takes place, as the short form says it: from … to …, and how often again.

Its fields are local times of one zone. A freeze that begins later or repeats is a schedule of the API.
"""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from rules.errors import Detail
from web.dashboard.planning.words import describe_days, describe_window
from web.instants import instant_in_zone, read_instant

REPEATS = {"never": "Never", "weekly": "Every week", "monthly": "Every month", "yearly": "Every year"}
"""How often a freeze is repeated, and the words for it."""
QUICK_ENDS = {"4h": "4 h", "tomorrow": "Tomorrow 8:00", "monday": "Monday 8:00"}
"""Ends that a button fills in, counted from the start."""
MAX_NAME = 100
_MORNING = 8
_MONDAY = 0

Given = Mapping[str, str]
"""The fields of the form."""


def is_planned(given: Given) -> bool:
    """True if the freeze does not simply begin now."""
    return bool(given["starts_at"]) or repeats(given)


def repeats(given: Given) -> bool:
    """True if the freeze is repeated."""
    return given["repeats"] in REPEATS and given["repeats"] != "never"


def with_quick_end(given: Given, name: str, now: datetime) -> dict[str, str]:
    """Return the fields with the end that a button names, counted from the start, or from now."""
    start = _local(given["starts_at"]) or instant_in_zone(now, given["zone"]).replace(tzinfo=None)
    if name == "4h":
        end = start + timedelta(hours=4)
    else:
        days = 1 if name == "tomorrow" else (_MONDAY - start.weekday() - 1) % 7 + 1
        end = start.replace(hour=_MORNING, minute=0) + timedelta(days=days)
    return {**given, "ends_at": end.isoformat(timespec="minutes")}


def problems_of_times(given: Given, now: datetime) -> list[Detail]:
    """Return what is wrong with the start, the end and the zone."""
    problems = []
    for name, label in (("starts_at", "The start"), ("ends_at", "The end")):
        if given[name] and not _is_instant(given[name], given["zone"]):
            problems.append(Detail(f"/{name}", f"{label} must be a date and a time of day."))
        elif not given[name] and is_planned(given):
            problems.append(Detail(f"/{name}", f"Say when it {'begins' if name == 'starts_at' else 'ends'}."))
    start, end = _local(given["starts_at"]), _local(given["ends_at"])
    if problems or start is None:
        return problems
    if end is not None and end <= start:
        return [Detail("/ends_at", "The end must be after the start.")]
    if not repeats(given) and start <= instant_in_zone(now, given["zone"]).replace(tzinfo=None):
        return [Detail("/starts_at", "The start has passed. Leave it empty to start now.")]
    return []


def terms_of(given: Given) -> dict[str, Any]:
    """Return time zone, recurrence and window of the schedule, of fields without a problem."""
    start, end = datetime.fromisoformat(given["starts_at"]), datetime.fromisoformat(given["ends_at"])
    recurrence: dict[str, Any] = {"frequency": "once", "startDate": start.date().isoformat()}
    if repeats(given):
        recurrence["frequency"] = given["repeats"]
        if given["until"]:
            recurrence["until"] = given["until"]
    days = (end.date() - start.date()).days
    window = {"startTime": f"{start:%H:%M}", "endTime": f"{end:%H:%M}", "days": days}
    return {"timezone": given["zone"] or "UTC", "recurrence": recurrence, "window": window}


def describe(terms: Mapping[str, Any]) -> str:
    """Return the terms in words."""
    return f"{describe_days(terms['recurrence'])}, {describe_window(terms['window'])} ({terms['timezone']})"


def start_of_day(text: str) -> str:
    """Return the field of a date, which may have a time of day; empty if it is none."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None).isoformat(timespec="minutes")
    except ValueError:
        return ""


def _is_instant(text: str, zone: str) -> bool:
    try:
        read_instant(text, zone)
    except ValueError:
        return False
    return _local(text) is not None


def _local(text: str) -> datetime | None:
    """Return the local time of a field, or None."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is None and found.date() > date.min else None
