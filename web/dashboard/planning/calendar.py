"""`/calendar`: every freeze and window of a month or a year, and one of them with what can be done about it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Response, g, request

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.dashboard.planning.weeks import Entry, bounds_of, weeks_of
from web.instants import instant_in_zone
from web.operations import Call, OperationError

MONTH = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])")
_YEAR = re.compile(r"20[0-9]{2}")
COLORS = 6
"""How many colours bars have; further schedules use them again."""
_FILTERS = ("name", "repo")


class Calendar(DashboardPage):
    """A month of freezes and planned windows, or a year of them."""

    path = section = web_addresses.CALENDAR
    notices = {
        "skipped": "The window will be skipped.",
        "planned": "The window is planned again.",
    }

    def get(self) -> Response:
        """Show a month, the one that is now unless the address names another; or a year."""
        return self._show_year() if _YEAR.fullmatch(request.args.get("year", "")) else self._show()

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
        today = self.today()
        wanted = request.args.get("month", "")
        month = date.fromisoformat(f"{wanted if MONTH.fullmatch(wanted) else f'{today:%Y-%m}'}-01")
        first, end = bounds_of(month)
        entries, count = self._entries(month, timezone, given)
        weeks = weeks_of(month, today, entries)
        window = request.args.get("window", "")
        values = {
            "month": month,
            "weeks": weeks,
            "timezone": timezone,
            "colors": _colors(entries),
            "given": given,
            "earlier": _address(month - timedelta(days=1), given),
            "later": _address(month + timedelta(days=31), given),
            "here": _address(month, given),
            "opened": next((each for each in entries if each.kind == "window" and each.id == window), None),
            "entries": entries,
            "more": max(0, count - sum(1 for each in entries if each.state != "skipped")),
            "listed": _listed_address(first, end, given),
            "count": sum(1 for each in entries if _in_month(each, month)),
        }
        return self.show_form("planning/calendar.html", error, {}, **values)

    def _show_year(self) -> Response:
        """Show twelve months, each day with how much lasts on it."""
        given = filters(*_FILTERS)
        self.read()
        timezone = g.member.settings["timezone"]
        year = int(request.args["year"])
        first, end = date(year, 1, 1), date(year + 1, 1, 1)
        [busy] = self.read_part(_busy_days(first, end, timezone, given))
        today = self.today()
        months = [date(year, number, 1) for number in range(1, 13)]
        return self.show(
            "planning/year.html",
            year=year,
            months=[(month, weeks_of(month, today, ()), _address(month, given)) for month in months],
            busy={date.fromisoformat(day["date"]): day["count"] for day in busy["days"]},
            earlier=_year_address(year - 1, given),
            later=_year_address(year + 1, given),
            count=busy["count"],
            timezone=timezone,
            given=given,
        )

    def _entries(self, month: date, timezone: str, given: Mapping[str, str]) -> tuple[list[Entry], int]:
        """Return what is shown of the weeks of a month, and the number of all that lasts in them and is not skipped."""
        first, end = bounds_of(month)
        shown_days = {"month": f"{month:%Y-%m}", "wholeWeeks": "true", "timezone": timezone}
        busy, calendar = self.read_part(
            _busy_days(first, end, timezone, {**given, "listFreezes": "true"}),
            Call("get_schedule_calendar", query={**shown_days, **given}),
        )
        windows = {each["id"]: each for day in calendar["days"] for each in day["occurrences"]}
        shown = [*_windows(windows.values(), timezone), *_freezes(busy["freezes"], timezone)]
        return [each for each in shown if each.starts_at.date() < end and each.last_day(end) >= first], busy["count"]


def _busy_days(first: date, end: date, timezone: str, given: Mapping[str, str]) -> Call:
    """Return the question how much lasts on each day from the first to before the end."""
    last = end - timedelta(days=1)
    query = {"firstDay": first.isoformat(), "lastDay": last.isoformat(), "timezone": timezone, **given}
    return Call("get_busy_days", query=query)


def _windows(windows: Iterable[Mapping[str, Any]], timezone: str) -> Iterator[Entry]:
    for each in windows:
        starts_at, ends_at = (_local(each[name], timezone) for name in ("startsAt", "endsAt"))
        yield Entry(each["id"], "window", each["scheduleName"], starts_at, ends_at, each["state"], each)


def _freezes(freezes: Iterable[Mapping[str, Any]], timezone: str) -> Iterator[Entry]:
    for each in freezes:
        end = each["endedAt"] or each["endsAt"]
        state = "active" if each["state"] == "in_force" else "past"
        ends_at = _local(end, timezone) if end else None
        yield Entry(each["id"], "freeze", each["reason"], _local(each["startedAt"], timezone), ends_at, state, each)


def _local(instant: str, timezone: str) -> datetime:
    return instant_in_zone(datetime.fromisoformat(instant), timezone)


def _in_month(entry: Entry, month: date) -> bool:
    after = (month + timedelta(days=31)).replace(day=1)
    return entry.starts_at.date() < after and entry.last_day(after) >= month


def _address(day: date, given: Mapping[str, str]) -> str:
    """Return the address of the month of a day."""
    return f"{web_addresses.CALENDAR}?{urlencode({'month': f'{day:%Y-%m}', **given})}"


def _listed_address(first: date, end: date, given: Mapping[str, str]) -> str:
    """Return the address of the list of all freezes from the first day to before the end."""
    days = {"from": first.isoformat(), "to": (end - timedelta(days=1)).isoformat()}
    of_freezes = {"q" if name == "name" else name: text for name, text in given.items()}
    return f"{web_addresses.FREEZES}?{urlencode({'show': '', **days, **of_freezes})}"


def _year_address(year: int, given: Mapping[str, str]) -> str:
    return f"{web_addresses.CALENDAR}?{urlencode({'year': year, **given})}"


def _colors(entries: Sequence[Entry]) -> dict[str, int]:
    """Return the colour of each schedule, by its id: the same in every month of the same schedules."""
    found = {each.of["scheduleId"] for each in entries if each.kind == "window"}
    return {schedule_id: index % COLORS for index, schedule_id in enumerate(sorted(found))}
