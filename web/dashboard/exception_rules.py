"""`/exceptions/rules`: what lets pull requests merge without a decision of a person; `/exceptions/rules/{id}`, one.

The form makes and edits rules of one shape: grounds, of which one or all are needed, and what narrows them. Others are
made by the API, and shown.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response, g

from rules import web_addresses
from rules.exceptions.evaluation import requires
from rules.exceptions.language import Allow, Alternatives, Together, parse_allow
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.exception_rule_fields import (
    EDITED,
    FIELDS,
    FREEZES,
    GROUNDS,
    LABELS,
    NEW,
    at_fields,
    body_of,
    values_of,
)
from web.dashboard.page import Change, DashboardPage, next_state, redirect_with_notice, state_of
from web.dashboard.rule_uses import last_weeks, pulls_by_day, uses_by_day
from web.dashboard.scopes import FIND, offer
from web.operations import Call, OperationError

_SENT = (*FIELDS, FIND, "do", "shown")
_DRAFT = ("appliesTo", "allow")
_STATE = (*EDITED, "enabled")
"""Properties that the page of a rule shows."""
_CHANGED = (
    "Someone has changed this rule since you opened the page, so nothing was done. Below is the rule as it is now: use "
    "the button again if that is still what you want."
)


class RuleForm(DashboardPage):
    """What the pages with the form of a rule share."""

    section = web_addresses.EXCEPTIONS

    def fields(self, values: Mapping[str, str], shown: str = "") -> dict[str, Any]:
        """Return what the form shows; `shown` is the mark of the rule that it was filled in from."""
        listed = {"schedules": self.schedules(values["schedules"].split()), "freezes": FREEZES, "grounds": GROUNDS}
        return {"values": values, "captions": LABELS, "shown": shown, **listed, **offer(self, values)}

    def schedules(self, chosen: Iterable[str]) -> dict[str, str]:
        """Return the names of the schedules by their ids, the chosen ones among them."""
        [listed] = self.read_part(Call("list_schedules", query={"limit": 100}))
        names = {each["id"]: each["name"] for each in listed["data"]}
        others = [each for each in chosen if each not in names]
        found = self.try_all(*(Call("get_schedule", {"scheduleId": each}) for each in others))
        deleted = "A schedule that is deleted"
        named = (deleted if isinstance(each, OperationError) else each["name"] for each in found)
        return names | dict(zip(others, named, strict=True))

    def preview_of(self, given: Mapping[str, str]) -> Any:
        """Return what the rule of a form would let in now, if its button asks for that; raise OperationError."""
        if given["do"] != "preview":
            return None
        body = body_of(given)
        try:
            return self.preview(body)
        except OperationError as error:
            raise at_fields(error, body) from None

    def preview(self, rule: Mapping[str, Any]) -> Any:
        """Return what a rule, or a draft of one, would let in now; raise OperationError."""
        return self.context.call("preview_exception_rule", body={name: rule[name] for name in _DRAFT}).content


class ExceptionRules(RuleForm):
    """The list, and the form that adds one."""

    path = web_addresses.EXCEPTION_RULES
    notices = {"deleted": "The rule has been deleted. What it let in is blocked again."}

    def get(self) -> Response:
        """Show the rules."""
        return self._show(NEW)

    def post(self) -> Response:
        """Add one, or show what it would let in."""
        given = self.context.form_fields(*_SENT)
        try:
            if given["do"] in {FIND, "preview"}:
                return self._show(given, preview=self.preview_of(given))
            if given["do"] == "create":
                created = self._create(body_of(given))
                return redirect_with_notice(address_of(web_addresses.EXCEPTION_RULE, created["id"]), "created")
        except OperationError as error:
            return self._show(given, error)
        raise unknown_button()

    def _create(self, body: Mapping[str, Any]) -> Any:
        try:
            return self.context.call("create_exception_rule", body=body).content
        except OperationError as error:
            raise at_fields(error, body) from None

    def _show(self, given: Mapping[str, str], error: OperationError | None = None, preview: Any = None) -> Response:
        [rules] = self.read(Call("list_exception_rules", query={"limit": 100}))
        form = self.fields({"schedules": "", **given}) if self.may("create_exception_rule") else {}
        values: dict[str, Any] = {"rules": rules["data"], "preview": preview, **form}
        return self.show_form("exception_rules.html", error, LABELS, **values)


class EditExceptionRule(RuleForm):
    """The form, filled in from a rule; one that it cannot show is changed by the API."""

    path = web_addresses.EDIT_EXCEPTION_RULE

    def get(self, item_id: str) -> Response:
        """Show the form as the rule is."""
        [rule] = self.read(Call("get_exception_rule", {"ruleId": item_id}))
        values = values_of(rule)
        if values is None:
            return self.show("exception_rule_edit.html", rule=rule, values=None)
        return self._show(rule, values, state_of(rule, *EDITED))

    def post(self, item_id: str) -> Response:
        """Change the rule as it was shown, or show what the change would let in."""
        given, params = self.context.form_fields(*_SENT), {"ruleId": item_id}
        [rule] = self.read(Call("get_exception_rule", params))
        try:
            if given["do"] in {FIND, "preview"}:
                return self._show(rule, given, given["shown"], preview=self.preview_of(given))
            if given["do"] == "save":
                self._save(params, given, rule)
                return redirect_with_notice(address_of(web_addresses.EXCEPTION_RULE, item_id), "changed")
        except OperationError as error:
            return self._show(rule, given, next_state(state_of(rule, *EDITED), given, error), error)
        raise unknown_button()

    def _save(self, params: Mapping[str, str], given: Mapping[str, str], rule: Mapping[str, Any]) -> None:
        body = body_of(given, rule)
        try:
            self.change(Change("get_exception_rule", "update_exception_rule", EDITED, params), body, given["shown"])
        except OperationError as error:
            raise at_fields(error, body) from None

    def _show(
        self,
        rule: Mapping[str, Any],
        values: Mapping[str, str],
        shown: str,
        error: OperationError | None = None,
        preview: Any = None,
    ) -> Response:
        form = {"rule": rule, "preview": preview, **self.fields(values, shown)}
        return self.show_form("exception_rule_edit.html", error, LABELS, **form)


class ExceptionRulePage(RuleForm):
    """One rule: its conditions in words, what it would let in now, and its buttons."""

    path = web_addresses.EXCEPTION_RULE
    notices = {
        "created": "The rule is on: what meets it may merge during freezes.",
        "changed": "The rule has been changed. What does not meet it any more is blocked again.",
        "enabled": "The rule is on.",
        "disabled": "The rule is off. What it let in is blocked again.",
    }

    def get(self, item_id: str, error: OperationError | None = None, preview: Any = None) -> Response:
        """Show the rule."""
        rule, uses = self.read(
            Call("get_exception_rule", {"ruleId": item_id}),
            Call("list_exceptions", query={"limit": 100, "ruleId": item_id}),
        )
        chosen = rule["appliesTo"].get("scheduleIds", [])
        names = self.schedules(chosen) if chosen else {}
        values = {
            "rule": rule,
            "shown": state_of(rule, *_STATE),
            "editable": values_of(rule) is not None,
            "freezes": FREEZES,
            "schedules": [names[each] for each in chosen],
            **self._uses(uses),
            "preview": preview,
            "words": words_of(parse_allow(rule["allow"])),
        }
        return self.show_form("exception_rule.html", error, {}, **values)

    def post(self, item_id: str) -> Response:
        """Do what the button says."""
        given, params = self.context.form_fields("do", "shown"), {"ruleId": item_id}
        do = given["do"]
        try:
            if do == "delete":
                self.change(Change("get_exception_rule", "delete_exception_rule", _STATE, params), None, given["shown"])
                return redirect_with_notice(web_addresses.EXCEPTION_RULES, "deleted")
            if do in {"enable", "disable"}:
                calls = Change("get_exception_rule", "update_exception_rule", _STATE, params)
                self.change(calls, {"enabled": do == "enable"}, given["shown"])
                return redirect_with_notice(address_of(self.path, item_id), f"{do}d")
            if do == "preview":
                [rule] = self.read(Call("get_exception_rule", params))
                return self.get(item_id, preview=self.preview(rule))
        except OperationError as error:
            stale = error.status == 412
            return self.get(item_id, OperationError(412, error.code, _CHANGED) if stale else error)
        raise unknown_button()

    def _uses(self, listed: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the page shows of the newest exceptions of the rule, in the zone of the organisation."""
        timezone = g.member.settings["timezone"]
        uses = uses_by_day(listed["data"], timezone)
        more = listed["nextCursor"] is not None
        return {
            "uses": uses,
            "pulls": pulls_by_day(uses),
            "weeks": last_weeks(self.today()),
            "zone": timezone,
            "more": more,
        }


def words_of(allow: Allow) -> list[Any]:
    """Return conditions in words: a list that begins with how many are needed, and has a list for each group inside."""
    how_many, members = (
        ("all of these", allow.all_of) if isinstance(allow, Together) else ("one of these", allow.any_of)
    )
    said = (words_of(each) if isinstance(each, Together | Alternatives) else requires(each) for each in members)
    return [how_many, *said]
