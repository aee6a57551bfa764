"""The pages of schedules: the list, a new one, one with its windows, and the form that changes it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from flask import Response, g, request

from rules import web_addresses
from rules.freezes.scope_words import describe_scope
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.page import Change, DashboardPage, filters, next_state, redirect_with_notice, state_of
from web.dashboard.planning.forms import (
    CHOICES,
    FIELDS,
    FREQUENCIES,
    LABELS,
    at_fields,
    body_of,
    draft_of,
    new_values,
    require_acknowledged,
    values_of,
)
from web.dashboard.planning.words import WEEKDAYS, describe_days, describe_terms, describe_window
from web.dashboard.scopes import FIND, offer
from web.instants import MONTHS, read_instant
from web.operations import Call, OperationError
from web.problems import problems_of

WINDOWS = 5
"""Windows that a page shows at first."""
MAX_WINDOWS = 50
_PAST = timedelta(days=30)
_SOON = timedelta(hours=24)
"""A window that begins later needs an end to be started now."""
_EDITED = (
    "name", "reason", "scope", "timezone", "recurrence", "window", "enabled", "exceptionsAllowed",
    "exceptionRulesAllowed", "allowOverlap",
)  # fmt: skip

Schedule = Mapping[str, Any]


class Schedules(DashboardPage):
    """`/schedules`: the schedules by their next window."""

    path = web_addresses.SCHEDULES
    section = web_addresses.CALENDAR
    notices = {"deleted": "The schedule has been deleted.", "imported": "The calendar has been imported."}

    def get(self) -> Response:
        """Show one page of the list, filtered as the address says."""
        given = filters("name", "source", "repo", "cursor")
        schedules, entitlements = self.read(Call("list_schedules", query=given), Call("get_entitlements"))
        return self.show(
            "planning/schedules.html",
            schedules=schedules["data"],
            given=given,
            next_cursor=schedules["nextCursor"],
            full=_is_full(entitlements),
            limit=entitlements["limits"]["schedules"],
            used=entitlements["usage"]["schedules"],
            describe_terms=describe_terms,
            describe_scope=describe_scope,
        )


class NewSchedule(DashboardPage):
    """`/schedules/new`: the form, with a preview of what it says."""

    path = web_addresses.NEW_SCHEDULE
    section = web_addresses.CALENDAR

    def get(self) -> Response:
        """Show the empty form."""
        [entitlements] = self.read(Call("get_entitlements"))
        timezone = g.member.settings["timezone"]
        values = {**new_values(timezone, self.today().isoformat()), **filters("repository", "branch")}
        if "branch" in request.args:
            values["scope"] = "branch"
        form = _form(values) | offer(self, values)
        return self.show("planning/schedule_form.html", **form, preview=None, full=_is_full(entitlements))

    def post(self) -> Response:
        """Create the schedule, or show what it would do."""
        given = self.context.form_fields(*FIELDS, FIND, "acknowledged", "do")
        self.read()
        form = {**_form(given), **offer(self, given), "full": False}
        try:
            if given["do"] == FIND:
                return self.show("planning/schedule_form.html", **form, preview=None)
            if given["do"] == "preview":
                draft = {**draft_of(given), "limit": WINDOWS}
                preview = self.context.call("preview_schedule_draft", body=draft).content
                return self.show("planning/schedule_form.html", **form, preview=preview)
            require_acknowledged(given)
            created = self.context.call("create_schedule", body=body_of(given)).content
        except OperationError as error:
            return self.show_form("planning/schedule_form.html", at_fields(error), LABELS, **form, preview=None)
        return redirect_with_notice(address_of(web_addresses.SCHEDULE, created["id"]), "created")


class SchedulePreview(DashboardPage):
    """`/schedules/preview`: the part of the form that shows what it says, while it is filled in."""

    path = web_addresses.SCHEDULE_PREVIEW
    section = web_addresses.CALENDAR

    def post(self) -> Response:
        """Show the windows, or what is wrong."""
        given = self.context.form_fields(*FIELDS, "schedule_id")
        draft = {**draft_of(given), "limit": WINDOWS}
        if given["schedule_id"]:
            draft["scheduleId"] = given["schedule_id"]
        try:
            preview = self.context.call("preview_schedule_draft", body=draft).content
        except OperationError as error:
            if error.status not in {400, 409, 422}:
                raise
            refusal = problems_of(at_fields(error), LABELS)[0].message
            return self.show_part("planning/preview.html", preview=None, refusal=refusal)
        sentence = f"{describe_days(draft['recurrence'])}, {describe_window(draft['window'])}"
        return self.show_part("planning/preview.html", preview=preview, sentence=sentence)


class SchedulePage(DashboardPage):
    """`/schedules/{id}`: its terms in words, its windows, what it overlaps with, and what can be done."""

    path = web_addresses.SCHEDULE
    section = web_addresses.CALENDAR
    notices = {
        "created": "The schedule has been created.",
        "changed": "The schedule has been changed.",
        "changed_without_skips": "The schedule has been changed. Days that were skipped have no window any more.",
        "enabled": "The schedule is enabled: its windows are planned again.",
        "disabled": "The schedule is disabled: it starts no window until it is enabled again.",
        "skipped": "The window will be skipped.",
        "planned": "The window is planned again.",
        "started": "The window has been started now.",
        "ended": "The freezes of the schedule have ended.",
    }

    def get(
        self, item_id: str, error: OperationError | None = None, given: Mapping[str, str] | None = None
    ) -> Response:
        """Show the schedule."""
        params, now = {"scheduleId": item_id}, self.context.clock()
        wanted = request.args.get("windows", "")
        limit = min(int(wanted), MAX_WINDOWS) if wanted.isascii() and wanted.isdecimal() and wanted != "0" else WINDOWS
        past: dict[str, str | int] = {"scheduleId": item_id, "limit": 100}
        past |= {"from": (now - _PAST).isoformat(), "to": now.isoformat()}
        schedule, preview, lately, freezes = self.read(
            Call("get_schedule", params),
            Call("preview_schedule", params, {"limit": limit}),
            Call("list_occurrences", query=past),
            Call("list_freezes", query={"scheduleId": item_id, "state": "in_force", "limit": 1}),
        )
        following = schedule["nextOccurrence"]
        values: dict[str, Any] = {
            "schedule": schedule,
            "terms": describe_terms(schedule),
            "scope": describe_scope(schedule["scope"]),
            "preview": preview,
            "freeze": next(iter(freezes["data"]), None),
            "lately": [each for each in reversed(lately["data"]) if each["state"] != "planned"][:WINDOWS],
            "more": limit < MAX_WINDOWS and len(preview["occurrences"]) == limit,
            "needs_end": following is not None and datetime.fromisoformat(following["startsAt"]) > now + _SOON,
            "given": given or {},
        }
        return self.show_form("planning/schedule.html", error, {"ends_at": "End"}, **values)

    def post(self, item_id: str) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "occurrence_id", "ends_at", "end_active")
        params = {"scheduleId": item_id}
        try:
            notice = self._perform(given, params)
        except OperationError as error:
            return self.get(item_id, error, given)
        if notice == "deleted":
            return redirect_with_notice(web_addresses.SCHEDULES, notice)
        return redirect_with_notice(address_of(self.path, item_id), notice)

    def _perform(self, given: Mapping[str, str], params: Mapping[str, str]) -> str:
        """Return the name of the notice of what was done. Raise OperationError."""
        do, call = given["do"], self.context.call
        if do in {"skip", "unskip"}:
            call(f"{do}_occurrence", path_params={**params, "occurrenceId": given["occurrence_id"]})
            return "skipped" if do == "skip" else "planned"
        if do in {"enable", "disable"}:
            call("update_schedule", path_params=params, body={"enabled": do == "enable"})
            return f"{do}d"
        if do == "disable_and_end":
            call("update_schedule", path_params=params, body={"enabled": False, "applyToActive": True})
            return "disabled"
        if do == "run":
            body = {"action": "apply"}
            if given["ends_at"]:
                body["endsAt"] = self._in_zone(given["ends_at"], params)
            call("run_schedule_now", path_params=params, body=body)
            return "started"
        if do == "lift":
            call("run_schedule_now", path_params=params, body={"action": "lift"})
            return "ended"
        if do == "delete":
            query = {"endActive": "true"} if given["end_active"] else {}
            call("delete_schedule", path_params=params, query=query)
            return "deleted"
        raise unknown_button()

    def _in_zone(self, text: str, params: Mapping[str, str]) -> str:
        """Return the instant of a local time in the zone of the schedule."""
        schedule = self.context.call("get_schedule", path_params=params).content
        try:
            return read_instant(text, schedule["timezone"])
        except ValueError:
            return text


class EditSchedule(DashboardPage):
    """`/schedules/{id}/edit`: the form, filled in."""

    path = web_addresses.EDIT_SCHEDULE
    section = web_addresses.CALENDAR

    def get(self, item_id: str) -> Response:
        """Show the form as the schedule is."""
        params = {"scheduleId": item_id}
        preview, schedule = self.read(
            Call("preview_schedule", params, {"limit": WINDOWS}), Call("get_schedule", params)
        )
        values = values_of(schedule)
        form = _form(values, schedule, state_of(schedule, *_EDITED)) | offer(self, values)
        return self.show("planning/schedule_form.html", **form, preview=preview, full=False)

    def post(self, item_id: str) -> Response:
        """Change the schedule as it was shown, or show what the change would do."""
        given = self.context.form_fields(*FIELDS, FIND, "acknowledged", "do", "shown", "apply_to_active")
        params = {"scheduleId": item_id}
        [present] = self.read(Call("get_schedule", params))
        form = _form(given, present, given["shown"]) | offer(self, given)
        if given["do"] == FIND:
            return self.show("planning/schedule_form.html", **form, preview=None, full=False)
        try:
            if given["do"] == "preview":
                draft = {**draft_of(given), "limit": WINDOWS, "scheduleId": item_id}
                preview = self.context.call("preview_schedule_draft", body=draft).content
                return self.show("planning/schedule_form.html", **form, preview=preview, full=False)
            body = {**body_of(given), "applyToActive": bool(given["apply_to_active"])}
            require_acknowledged(given, present["scope"])
            changed = self.change(Change("get_schedule", "update_schedule", _EDITED, params), body, given["shown"])
        except OperationError as error:
            form["shown"] = next_state(state_of(present, *_EDITED), given, error)
            return self.show_form(
                "planning/schedule_form.html", at_fields(error), LABELS, **form, preview=None, full=False
            )
        notice = "changed_without_skips" if changed.get("lostSkips") else "changed"
        return redirect_with_notice(address_of(web_addresses.SCHEDULE, item_id), notice)


def _form(values: Mapping[str, str], schedule: Schedule | None = None, shown: str = "") -> dict[str, Any]:
    """Return what the form shows; `shown` is the mark of the schedule that it was filled in from."""
    return {
        "shown": shown,
        "values": values,
        "schedule": schedule,
        "captions": LABELS,
        "frequencies": FREQUENCIES,
        "weekdays": WEEKDAYS,
        "months": MONTHS,
        "choices": CHOICES,
    }


def _is_full(entitlements: Mapping[str, Any]) -> bool:
    """True if the plan allows no further schedule."""
    limit = entitlements["limits"]["schedules"]
    return limit is not None and entitlements["usage"]["schedules"] >= limit
