"""`/freezes`: the freezes of the organisation, one of them with its branches and its history, and what ends it."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from flask import Response, request

from rules import web_addresses
from rules.errors import Detail
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.fields import day_range, filled
from web.instants import read_instant
from web.operations import Call, OperationError
from web.problems import at_field

_STATES = (("in_force", "In force"), ("ended", "Ended"), ("", "All"))
_TARGET_STATES = ("failed", "pending", "applied", "releasing", "released")
_LABELS = {"reason": "The reason", "ends_at": "The end"}
_FILTERS = ("q", "person", "repo", "from", "to", "source")
_FILTER_LABELS = {
    "q": "Words",
    "person": "Person",
    "repo": "Repository",
    "from": "In force from",
    "to": "In force to",
}
_RANGE = {"inForceFrom": "from", "inForceTo": "to"}
"""Filters of the operation, and the fields of the page that have their days."""
_LONGEST = timedelta(days=399)
"""How far apart the first and the last day of a search are at most."""
_ENDED = "ended.html"


class Freezes(DashboardPage):
    """The list."""

    path = section = web_addresses.FREEZES
    notices = {"started": "The freeze has started."}

    def get(self) -> Response:
        """Show the freezes in force; those of the past, and what is searched for, as a table."""
        given = _with_both_days(filters(*_FILTERS), self.context.clock())
        state = request.args.get("show", "" if given else "in_force")
        as_table = bool(given) or state != "in_force"
        days = day_range(given, *_RANGE)
        kept = {name: text for name, text in given.items() if name not in {"from", "to"}}
        query = {"limit": 50 if as_table else 20, **kept, **days, **filled({"state": state}), **filters("cursor")}
        shown: dict[str, Any] = {"given": given, "show": state, "states": _STATES, "as_table": as_table}
        try:
            [freezes] = self.read(Call("list_freezes", query=query))
        except OperationError as error:
            if error.status not in {400, 404} or not given:
                raise
            shown["freezes"] = {"data": [], "nextCursor": None}
            error = error.with_details(
                [Detail(_RANGE.get(detail.path, detail.path), detail.message) for detail in error.details]
            )
            return self.show_form("freezes.html", error, _FILTER_LABELS, **shown)
        return self.show("freezes.html", freezes=freezes, **shown)


def _with_both_days(given: dict[str, str], now: datetime) -> dict[str, str]:
    """Return the filters with a first and a last day, if they have one: up to today, or as far as a search can go."""
    try:
        first, last = (date.fromisoformat(given[name]) if name in given else None for name in ("from", "to"))
        if first is not None and last is None:
            last = min(max(first, now.date()), first + _LONGEST)
        elif last is not None and first is None:
            first = last - _LONGEST
    except (ValueError, OverflowError):  # an instant, or what the operation refuses
        return given
    days = {"from": first, "to": last}
    return given | {name: day.isoformat() for name, day in days.items() if day is not None}


class Freeze(DashboardPage):
    """One freeze; its form writes failed checks again."""

    path = web_addresses.FREEZE
    section = web_addresses.FREEZES
    notices = {
        "started": "The freeze has started. What GitHub blocks is said below.",
        "lifted": "The freeze is lifted. Its branches are being released.",
        "started_again": "The freeze has started. Other freezes cover some of its branches already.",
        "lifted_in_part": "The freeze is lifted. Other freezes still cover some of its branches.",
        "extended": "The end of the freeze has been changed.",
        "overridden": "The freeze is ended. The next window of its schedule freezes again.",
        "overridden_in_part": "The freeze is ended. Other freezes still cover some of its branches.",
        "retried": "The failed branches are being written again.",
    }

    def get(self, item_id: str) -> Response:
        """Show the freeze, its branches, those that failed first, and its history."""
        state = request.args.get("show", "")
        of_freeze = {"freezeId": item_id}
        calls = [
            Call("get_freeze", of_freeze),
            Call("list_freeze_targets", of_freeze, {"limit": 50, **filters("cursor"), **filled({"state": state})}),
            Call("list_audit_entries", query={"targetId": item_id, "limit": 20}),
        ]
        if not state and "cursor" not in request.args:
            calls.append(Call("list_freeze_targets", of_freeze, {"limit": 50, "state": "failed"}))
        freeze, targets, history, *failed = self.read(*calls)
        rows = [row for each in failed for row in each["data"]]
        rows += [row for row in targets["data"] if row["id"] not in {known["id"] for known in rows}]
        return self.show(
            "freeze.html",
            freeze=freeze,
            targets={"data": rows, "nextCursor": targets["nextCursor"]},
            history=history["data"],
            target_states=_TARGET_STATES,
            show=state,
            moving=is_moving(freeze),
        )

    def post(self, item_id: str) -> Response:
        """Write failed checks again."""
        if self.context.form_fields("do")["do"] != "retry":
            raise unknown_button()
        self.context.call("retry_freeze", path_params={"freezeId": item_id})
        return redirect_with_notice(address_of(self.path, item_id), "retried")


class FreezePart(DashboardPage):
    """The state of a freeze, which reads itself again; the list of branches follows once nothing moves any more."""

    path = f"{web_addresses.FREEZE}/progress"
    section = web_addresses.FREEZES

    def get(self, item_id: str) -> Response:
        """Show the state."""
        [freeze] = self.read_part(Call("get_freeze", path_params={"freezeId": item_id}))
        moving = is_moving(freeze)
        part = self.show_part("freeze_part.html", freeze=freeze, moving=moving)
        if request.args.get("moving") and not moving:
            part.headers["HX-Refresh"] = "true"
        return part


class _FreezeForm(DashboardPage):
    """A form about one freeze in force."""

    section = web_addresses.FREEZES
    operation_id: str
    template: str
    done: str
    """The notice after it; with `_in_part` where other freezes still cover branches."""

    def get(self, item_id: str) -> Response:
        """Show the form; of a freeze that has ended meanwhile, by whom."""
        values = self._values(item_id)
        ended = values["freeze"]["state"] == "ended"
        return self.show(_ENDED if ended else self.template, **values)

    def post(self, item_id: str) -> Response:
        """Send the form."""
        given = self.context.form_fields("reason", "ends_at", "zone", "open")
        try:
            ended = self.context.call(self.operation_id, path_params={"freezeId": item_id}, body=self._body(given))
        except OperationError as error:
            values = self._values(item_id)
            if values["freeze"]["state"] == "ended":
                return self.show(_ENDED, error.status, **values)
            if error.status != 422 and not error.details:
                raise
            return self.show_form(self.template, error, _LABELS, given=given, **values)
        done = f"{self.done}_in_part" if ended.content.get("stillFrozenCount") else self.done
        return redirect_with_notice(address_of(web_addresses.FREEZE, item_id), done)

    def _values(self, item_id: str) -> Mapping[str, Any]:
        [freeze] = self.read(Call("get_freeze", path_params={"freezeId": item_id}))
        return {"freeze": freeze}

    def _body(self, given: dict[str, str]) -> Mapping[str, Any]:
        return filled({"reason": given["reason"]})


class Lift(_FreezeForm):
    """`/freezes/{id}/lift`."""

    path = f"{web_addresses.FREEZE}/lift"
    operation_id, template, done = "lift_freeze", "lift.html", "lifted"

    def _values(self, item_id: str) -> Mapping[str, Any]:
        """Return the freeze, and what its end would change."""
        of_freeze = {"freezeId": item_id}
        freeze, preview = self.read(Call("get_freeze", of_freeze), Call("preview_lift", of_freeze))
        return {"freeze": freeze, "preview": preview}


class Extend(_FreezeForm):
    """`/freezes/{id}/extend`: moves the end later, or removes it."""

    path = f"{web_addresses.FREEZE}/extend"
    operation_id, template, done = "extend_freeze", "extend.html", "extended"

    def _body(self, given: dict[str, str]) -> Mapping[str, Any]:
        if given["open"]:
            return {"endsAt": None}
        return {"endsAt": end_of(given)}


class Override(_FreezeForm):
    """`/freezes/{id}/override`: ends a freeze of a schedule before the end of its window."""

    path = f"{web_addresses.FREEZE}/override"
    operation_id, template, done = "thaw_override_freeze", "override.html", "overridden"


def end_of(given: Mapping[str, str], name: str = "ends_at") -> str:
    """Return the instant of a field and of `zone` of a form. Raise OperationError."""
    try:
        return read_instant(given[name], given["zone"])
    except ValueError:
        error = OperationError(422, "invalid_parameter", "Give a date and a time of day.")
        raise at_field(name, error) from None


def is_moving(freeze: Mapping[str, Any]) -> bool:
    """True if checks of the freeze are being written, or its stop is being switched off."""
    targets = freeze["targets"]
    stopping = freeze["endedAt"] and not freeze["releasedAt"] and not targets["failed"]
    return bool(targets["pending"] + targets["releasing"] or stopping)
