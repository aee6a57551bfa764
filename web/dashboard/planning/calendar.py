"""`/calendar`: the windows of a month, day by day, and one of them with what can be done about it."""

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Response, g, request

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.instants import instant_in_zone
from web.operations import OperationError

MONTH = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])")
COLORS = 6
"""How many colours dots have; further schedules use them again."""
SHOWN = 4
"""Windows of a day that its cell lists."""
_FILTERS = ("name", "repo")

Occurrence = Mapping[str, Any]


class Calendar(DashboardPage):
    """A month of freezes and planned windows."""

    path = section = web_addresses.CALENDAR
    notices = {
        "skipped": "The window will be skipped.",
        "planned": "The window is planned again.",
    }

    def get(self) -> Response:
        """Show a month; the one that is now unless the address names another."""
        return self._show()

    def post(self) -> Response:
        """Skip a window, or plan it again."""
        given = self.context.form_fields("do", "schedule_id", "occurrence_id")
        if given["do"] not in {"skip", "unskip"}:
            raise unknown_button()
        params = {"scheduleId": given["schedule_id"], "occurrenceId": given["occurrence_id"]}
        try:
            self.context.call(f"{given['do']}_occurrence", path_params=params)
        except OperationError as error:
            return self._show(error)
        notice = "skipped" if given["do"] == "skip" else "planned"
        return redirect_with_notice(self.path, notice, **filters("month", "window", *_FILTERS))

    def _show(self, error: OperationError | None = None) -> Response:
        given = filters(*_FILTERS)
        self.read()
        timezone = g.member.settings["timezone"]
        today = instant_in_zone(self.context.clock(), timezone).date()
        wanted = request.args.get("month", "")
        month = wanted if MONTH.fullmatch(wanted) else f"{today:%Y-%m}"
        query = {"month": month, "timezone": timezone, **given}
        calendar = self.context.call("get_schedule_calendar", query=query).content
        first = date.fromisoformat(f"{month}-01")
        colors = _colors(calendar["days"])
        window = request.args.get("window", "")
        opened = next((each for day in calendar["days"] for each in day["occurrences"] if each["id"] == window), None)
        values = {
            "month": first,
            "weeks": _weeks(first, calendar["days"]),
            "today": today,
            "timezone": timezone,
            "colors": colors,
            "given": given,
            "earlier": _address(first - timedelta(days=1), given),
            "later": _address(first + timedelta(days=31), given),
            "here": _address(first, given),
            "opened": opened,
            "shown": SHOWN,
            "count": len({each["id"] for day in calendar["days"] for each in day["occurrences"]}),
        }
        if error is not None:
            return self.show_again("planning/calendar.html", error, {}, **values)
        return self.show("planning/calendar.html", **values)


def _address(day: date, given: Mapping[str, str]) -> str:
    """Return the address of the month of a day."""
    return f"{web_addresses.CALENDAR}?{urlencode({'month': f'{day:%Y-%m}', **given})}"


def _weeks(first: date, days: list[dict[str, Any]]) -> list[list[dict[str, Any] | None]]:
    """Return the days of the month in weeks from Monday; None is a day of another month."""
    cells: list[dict[str, Any] | None] = [None] * first.weekday()
    cells += [{**day, "date": date.fromisoformat(day["date"])} for day in days]
    cells += [None] * (-len(cells) % 7)
    return [cells[index : index + 7] for index in range(0, len(cells), 7)]


def _colors(days: list[dict[str, Any]]) -> dict[str, int]:
    """Return the colour of each schedule of the month, by its id: the same in every month of the same schedules."""
    found = {each["scheduleId"] for day in days for each in day["occurrences"]}
    return {schedule_id: index % COLORS for index, schedule_id in enumerate(sorted(found))}
