"""Lists and their pages."""

from collections.abc import Iterable
from typing import Any

from tools.fake_stripe.protocol.routing import Call
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json

LIMIT = 10
_COMPARISONS = {
    "gt": lambda value, bound: value > bound,
    "gte": lambda value, bound: value >= bound,
    "lt": lambda value, bound: value < bound,
    "lte": lambda value, bound: value <= bound,
}


def page(call: Call, records: Iterable[Json]) -> Json:
    """Return the page that a call requests of records, the newest first."""
    found, params = list(records), call.params
    limit = params.get("limit", LIMIT)
    if "starting_after" in params and "ending_before" in params:
        raise invalid("You cannot parameterize both starting_after and ending_before.", "starting_after")
    if "ending_before" in params:
        before = found[: _position(found, params["ending_before"], "ending_before")]
        data, more = before[-limit:], len(before) > limit
    else:
        after = found
        if "starting_after" in params:
            after = found[_position(found, params["starting_after"], "starting_after") + 1 :]
        data, more = after[:limit], len(after) > limit
    return {"object": "list", "data": data, "has_more": more, "url": call.path}


def _position(records: list[Json], identifier: str, param: str) -> int:
    for position, record in enumerate(records):
        if record["id"] == identifier:
            return position
    raise invalid(f"No such object: '{identifier}'", param, "resource_missing")


def is_within(value: int, bounds: dict[str, int] | None) -> bool:
    """True if a time lies within the bounds of a filter; None has no bounds."""
    return all(_COMPARISONS[name](value, bound) for name, bound in (bounds or {}).items())


def matches(record: Json, params: Json, *names: str) -> bool:
    """True if a record has the values of those parameters that were given, and was created within `created`."""
    wanted: dict[str, Any] = {name: params[name] for name in names if name in params}
    return is_within(record["created"], params.get("created")) and all(
        record[name] == value for name, value in wanted.items()
    )
