"""The page that a notification links to."""

from collections.abc import Mapping
from typing import Any

from rules import web_addresses

_BY_TARGET = {
    "freeze": web_addresses.FREEZE,
    "branch": web_addresses.BRANCH,
    "schedule": web_addresses.SCHEDULE,
}


def page_of(target: Mapping[str, Any]) -> str:
    """Return the path of the page on the object of an audit entry, `{"type": …, "id": …}`."""
    if target["type"] == "exception":
        return web_addresses.EXCEPTIONS
    address = _BY_TARGET.get(target["type"], web_addresses.HOME)
    return address.format(id=target["id"])


def page_of_windows(windows: list[Mapping[str, Any]]) -> str:
    """Return the path of the page on upcoming windows: of their schedule, or of all if they have several."""
    schedules = {window["scheduleId"] for window in windows}
    if len(schedules) == 1:
        return web_addresses.SCHEDULE.format(id=schedules.pop())
    return web_addresses.CALENDAR
