"""`/timeline`: the windows of schedules, and freezes that people started, over 14, 30 or 90 days.

They are shown in lanes, or as a list (`view=list`), which is as long again.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Response, g, request

from rules import web_addresses
from rules.freezes.scope import scope_contains
from web.dashboard.page import DashboardPage, filters
from web.dashboard.planning.lanes import Lane, Range, Span, lanes_of, mark_overlaps, meeting_lanes
from web.instants import instant_in_zone
from web.operations import Call

LENGTHS = (14, 30, 90)
"""Days that a timeline can show."""
MAX_LANES = 15
"""Schedules of one page, and freezes that people started."""
_MAX_WINDOWS = 100
"""Windows of a schedule that the operation lists."""
_FILTERS = ("name", "repo", "cursor")
_AS_LIST = {"view": "list"}
_FIRST, _LAST = date(2001, 1, 1), date(2098, 1, 1)
_TICKS = {14: 1, 30: 3, 90: 14}
"""Days from one mark of the axis to the next."""
_LABELLED = 0.93
"""The share of the axis whose marks have the day beside them; there is no place for it after the last ones."""


class Timeline(DashboardPage):
    """Windows and freezes over some weeks, in lanes."""

    path = web_addresses.TIMELINE
    section = web_addresses.CALENDAR

    def get(self) -> Response:
        """Show the days from the one that the address names, or from today on."""
        given = filters(*_FILTERS)
        listed = filters("view") == _AS_LIST
        kept = {**given, **_AS_LIST} if listed else given
        self.read()
        timezone = g.member.settings["timezone"]
        today = self.today()
        first, days = _first_day(today), _length()
        midnight = instant_in_zone(datetime.combine(first, time(), UTC), timezone)
        shown = Range(datetime.combine(first, time(), midnight.tzinfo).astimezone(UTC), days)
        bounds = {"occurrencesFrom": shown.start.isoformat(), "occurrencesTo": shown.end.isoformat()}
        by_hand = {"inForceFrom": shown.start.isoformat(), "inForceTo": shown.end.isoformat(), "source": "manual"}
        schedules, freezes = self.read_part(
            Call("list_schedules", query={**given, **bounds, "limit": MAX_LANES}),
            Call("list_freezes", query={**by_hand, "limit": MAX_LANES, **_of_freezes(given)}),
        )
        planned = {each["id"]: each for each in schedules["data"] if each["occurrences"]}
        lanes = lanes_of(shown, list(planned), [_span(one) for each in planned.values() for one in each["occurrences"]])
        manual = [_span_of_freeze(each, shown.end) for each in reversed(freezes["data"])]
        mark_overlaps(shown, lanes, self._sharing(lanes, {key: each["scope"] for key, each in planned.items()}))
        return self.show(
            "planning/timeline.html",
            lanes=lanes,
            by_hand=lanes_of(shown, [each.id for each in manual], manual),
            more_by_hand=freezes["nextCursor"] is not None,
            freezes={each["id"]: each for each in freezes["data"]},
            names={key: each["name"] for key, each in planned.items()},
            next_cursor=schedules["nextCursor"],
            cut=any(len(each["occurrences"]) >= _MAX_WINDOWS for each in planned.values()),
            axis=_axis(shown, first),
            zone=midnight.tzinfo,
            now_at=shown.position(self.context.clock()) if shown.start <= self.context.clock() < shown.end else None,
            first=first,
            last=first + timedelta(days=days - 1),
            days=days,
            lengths=[(length, _address(first, length, kept)) for length in LENGTHS],
            other_view=_address(first, days, given if listed else {**given, **_AS_LIST}),
            listed=listed,
            earlier=_address(max(first - timedelta(days=days), _FIRST), days, kept),
            later=_address(min(first + timedelta(days=days), _LAST), days, kept),
            now_address=_address(today, days, kept),
            timezone=timezone,
            given=given,
        )

    def _sharing(self, lanes: Sequence[Lane], scopes: Mapping[str, dict[str, Any]]) -> set[frozenset[str]]:
        """Return the pairs of schedules that meet at some time and share a branch.

        The scope of one may lie in that of the other. Of the others, those that one overlaps with are read.
        """
        meeting = meeting_lanes(lanes)
        sharing = {pair for pair in meeting if _is_nested(*(scopes[each] for each in pair))}
        asked = sorted({each for pair in meeting - sharing for each in pair})
        calls = [Call("preview_schedule", {"scheduleId": each}, {"limit": 1}) for each in asked]
        previews = self.read_part(*calls) if calls else []
        for each, preview in zip(asked, previews, strict=True):
            sharing |= {frozenset((each, overlap["scheduleId"])) for overlap in preview["overlaps"]}
        return sharing


def _is_nested(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if one scope is known to lie in the other."""
    return bool(scope_contains(one, other) or scope_contains(other, one))


def _first_day(today: date) -> date:
    try:
        given = date.fromisoformat(request.args.get("from", ""))
    except ValueError:
        return today
    return min(max(given, _FIRST), _LAST)


def _length() -> int:
    text = request.args.get("days", "")
    return int(text) if text in map(str, LENGTHS) else LENGTHS[1]


def _of_freezes(given: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of the page as those of freezes: in place of a name they have a reason."""
    return {"q" if name == "name" else name: text for name, text in given.items() if name != "cursor"}


def _address(first: date, days: int, given: Mapping[str, str]) -> str:
    return f"{web_addresses.TIMELINE}?{urlencode({'from': first.isoformat(), 'days': days, **given})}"


def _span(occurrence: Mapping[str, Any]) -> Span:
    starts_at, ends_at = (datetime.fromisoformat(occurrence[name]) for name in ("startsAt", "endsAt"))
    return Span(occurrence["id"], occurrence["scheduleId"], starts_at, ends_at, occurrence["state"])


def _span_of_freeze(freeze: Mapping[str, Any], latest: datetime) -> Span:
    """Return the span of a freeze, in a lane of its own; one without an end goes on beyond the time that is shown."""
    end = freeze["endedAt"] or freeze["endsAt"]
    ends_at = datetime.fromisoformat(end) if end else latest
    state = "active" if freeze["state"] == "in_force" else "past"
    return Span(freeze["id"], freeze["id"], datetime.fromisoformat(freeze["startedAt"]), ends_at, state)


def _axis(shown: Range, first: date) -> list[tuple[float, str]]:
    """Return the marks of the axis: where they are, and the day."""
    step = _TICKS[shown.days]
    return [
        (
            round(100 * number / shown.days, 3),
            f"{first + timedelta(days=number):%-d %b}" if number < _LABELLED * shown.days else "",
        )
        for number in range(0, shown.days, step)
    ]
