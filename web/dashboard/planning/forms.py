"""The form of a schedule's terms: what it sends becomes the body of an operation, and a schedule fills it in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rules.freezes.scope import OPEN_ENDED
from web.context import missing_field
from web.dashboard.planning.words import WEEKDAYS
from web.dashboard.scopes import SCOPE_LABELS, scope_fields_of, scope_of
from web.fields import split_list, to_number
from web.instants import MONTHS
from web.operations import OperationError

FREQUENCIES = {
    "once": "Once",
    "daily": "Daily",
    "weekly": "Weekly",
    "monthly": "Monthly",
    "yearly": "Yearly",
    "dates": "On listed days",
}
"""Labels of the frequencies."""
SHARED_LABELS = {
    "reason": "Reason",
    **SCOPE_LABELS,
    "timezone": "Time zone",
    "start_time": "Begins at",
    "end_time": "Ends at",
    "days": "Days later",
}
"""Labels of the fields that an import has as well, by their names."""
LABELS = {
    "name": "Name",
    "public_text": "Public text",
    **SHARED_LABELS,
    "frequency": "Recurs",
    "interval": "Every",
    "by_day": "Weekdays",
    "counted_days": "Weekdays of the month",
    "month_days": "Days of the month",
    "months": "Months",
    "positions": "Only these of them",
    "week_start": "Weeks begin on",
    "start_date": "First day",
    "until": "Last day",
    "count": "Number of windows",
    "except_dates": "Except on",
    "dates": "Days",
    "acknowledged": "What it freezes",
}
"""Labels of the fields by their names."""
CHOICES = (
    *(f"day_{code}" for code in WEEKDAYS),
    *(f"month_{number}" for number in range(1, len(MONTHS) + 1)),
    "exceptions_allowed",
    "exception_rules_allowed",
    "allow_overlap",
    "enabled",
)
"""Names of the boxes that are ticked or not."""
FIELDS = (*(name for name in LABELS if name not in {"by_day", "months", "acknowledged"}), *CHOICES)
_FIELDS_OF_PATHS = {
    "publicText": "public_text",
    "recurrence/byDay": "by_day",
    "recurrence/byMonthDay": "month_days",
    "recurrence/byMonth": "months",
    "recurrence/bySetPosition": "positions",
    "recurrence/weekStart": "week_start",
    "recurrence/startDate": "start_date",
    "recurrence/exceptDates": "except_dates",
    "window/startTime": "start_time",
    "window/endTime": "end_time",
    "scope/branchId": "branch",
    "scope/type": "scope",
    "window": "start_time",
    "recurrence": "frequency",
}
_LINES = ("except_dates", "dates")
"""Lists of which each thing has a line of its own."""
_RULES = ("daily", "weekly", "monthly", "yearly")

Given = Mapping[str, str]
"""The fields of the form."""


def new_values(timezone: str, today: str) -> dict[str, str]:
    """Return what an empty form shows."""
    return {
        "scope": "organization",
        "timezone": timezone,
        "frequency": "weekly",
        "interval": "1",
        "start_date": today,
        "start_time": "18:00",
        "end_time": "08:00",
        "days": "1",
        "week_start": "MO",
        "exceptions_allowed": "on",
        "exception_rules_allowed": "on",
        "enabled": "on",
    }


def values_of(schedule: Mapping[str, Any]) -> dict[str, str]:
    """Return what the form shows of a schedule of the API."""
    recurrence, window = schedule["recurrence"], schedule["window"]
    names = recurrence.get("byDay", ())
    counted = [name for name in names if len(name) > 2]
    listed = {
        "counted_days": counted,
        "month_days": recurrence.get("byMonthDay", ()),
        "positions": recurrence.get("bySetPosition", ()),
        "except_dates": recurrence.get("exceptDates", ()),
        "dates": recurrence.get("dates", ()),
    }
    chosen = [f"day_{name}" for name in names if name not in counted]
    chosen += [f"month_{number}" for number in recurrence.get("byMonth", ())]
    flags = {
        "exceptions_allowed": "exceptionsAllowed",
        "exception_rules_allowed": "exceptionRulesAllowed",
        "allow_overlap": "allowOverlap",
        "enabled": "enabled",
    }
    chosen += [name for name, key in flags.items() if schedule[key]]
    return {
        "name": schedule["name"],
        "reason": schedule["reason"],
        "public_text": schedule["publicText"] or "",
        "timezone": schedule["timezone"],
        **scope_fields_of(schedule["scope"]),
        "frequency": recurrence["frequency"],
        "interval": str(recurrence.get("interval", 1)),
        "week_start": recurrence.get("weekStart", "MO"),
        "start_date": recurrence["startDate"],
        "until": recurrence.get("until", ""),
        "count": str(recurrence.get("count", "")),
        "start_time": window["startTime"],
        "end_time": window["endTime"],
        "days": str(window.get("days", 0)),
        **{name: ("\n" if name in _LINES else ", ").join(map(str, texts)) for name, texts in listed.items()},
        **dict.fromkeys(chosen, "on"),
    }


def body_of(given: Given) -> dict[str, Any]:
    """Return the body of a creation or change; what is no number or date is left to the operation to refuse."""
    body: dict[str, Any] = {name: given[name] for name in ("name", "reason", "timezone") if given[name]}
    return {
        **body,
        "publicText": given["public_text"] or None,
        "scope": scope_of(given),
        "recurrence": _recurrence_of(given),
        "window": {
            "startTime": given["start_time"],
            "endTime": given["end_time"],
            "days": to_number(given["days"] or "0"),
        },
        "exceptionsAllowed": bool(given["exceptions_allowed"]),
        "exceptionRulesAllowed": bool(given["exception_rules_allowed"]),
        "allowOverlap": bool(given["allow_overlap"]),
        "enabled": bool(given["enabled"]),
    }


def draft_of(given: Given) -> dict[str, Any]:
    """Return the body of a preview."""
    body = body_of(given)
    return {name: body[name] for name in ("scope", "timezone", "recurrence", "window") if name in body}


def require_acknowledged(given: Given, present: Mapping[str, Any] | None = None) -> None:
    """Raise OperationError if the scope is open-ended, was not so before, and nobody has said that they know."""
    scope = scope_of(given)
    if scope["type"] in OPEN_ENDED and scope != present and not given["acknowledged"]:
        raise missing_field("acknowledged", "Tick that you know what each window freezes.")


def at_fields(error: OperationError) -> OperationError:
    """Return a refusal whose details name the fields of the form instead of the properties of the body."""
    return error.with_details([replace(detail, path=f"/{_field_of(detail.path)}") for detail in error.details])


def _field_of(path: str) -> str:
    name = path.removeprefix("/")
    while name not in _FIELDS_OF_PATHS and "/" in name and name.rpartition("/")[2].isdecimal():
        name = name.rpartition("/")[0]
    return _FIELDS_OF_PATHS.get(name) or name.rpartition("/")[2]


def _recurrence_of(given: Given) -> dict[str, Any]:
    frequency = given["frequency"]
    recurrence: dict[str, Any] = {"frequency": frequency}
    if frequency == "dates":
        recurrence["dates"] = sorted(set(split_list(given["dates"])))
        first = min(recurrence["dates"], default="")
        return {**recurrence, "startDate": first or given["start_date"]}
    recurrence["startDate"] = given["start_date"]
    if frequency not in _RULES:
        return recurrence
    recurrence["interval"] = to_number(given["interval"] or "1")
    names = [code for code in WEEKDAYS if given[f"day_{code}"]]
    if frequency in {"monthly", "yearly"}:
        names += [name.upper() for name in split_list(given["counted_days"])]
    listed = {
        "byDay": names,
        "byMonthDay": _month_days(given["month_days"]) if frequency != "weekly" else [],
        "byMonth": [number for number in range(1, len(MONTHS) + 1) if given[f"month_{number}"]],
        "bySetPosition": [to_number(text) for text in split_list(given["positions"])] if frequency != "daily" else [],
        "exceptDates": split_list(given["except_dates"]),
    }
    recurrence.update({name: values for name, values in listed.items() if values})
    if frequency == "weekly" and given["week_start"] not in {"", "MO"}:
        recurrence["weekStart"] = given["week_start"]
    if given["until"]:
        recurrence["until"] = given["until"]
    if given["count"]:
        recurrence["count"] = to_number(given["count"])
    return recurrence


def _month_days(text: str) -> list[Any]:
    return [-1 if word.lower() == "last" else to_number(word) for word in split_list(text)]
