"""`/exceptions/rules`: what lets pull requests merge without a decision of a person; and `/exceptions/rules/{id}`, one.

The form makes rules of one shape: one ground of several, and what narrows it. Others are made by the API, and shown.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.page import DashboardPage, redirect_with_notice
from web.fields import split_list, to_number
from web.operations import Call, OperationError

LABELS = {
    "name": "Name",
    "reason": "Reason",
    "repositories": "Repositories",
    "branches": "Branches",
    "files": "Files",
    "label": "Label",
    "label_by": "Who sets the label",
    "accounts": "Authors",
    "team": "Team that approves",
    "at_least": "Approvals",
    "max_lines": "Changed lines",
    "per_freeze": "Pull requests in each freeze",
}
_FIELDS = ("do", *LABELS, "freezes", "same_repository")
_FIELD_OF_CONDITION = {
    "paths": "files",
    "label": "label",
    "author": "accounts",
    "approvals": "team",
    "changedLines": "max_lines",
}


class ExceptionRules(DashboardPage):
    """The list, and the form that adds one."""

    path = web_addresses.EXCEPTION_RULES
    section = web_addresses.EXCEPTIONS
    notices = {"deleted": "The rule has been deleted. What it let in is blocked again."}

    def get(self) -> Response:
        """Show the rules."""
        return self._show()

    def post(self) -> Response:
        """Add one."""
        given = self.context.form_fields(*_FIELDS)
        if given["do"] != "create":
            raise unknown_button()
        body = _body(given)
        try:
            created = self.context.call("create_exception_rule", body=body).content
        except OperationError as error:
            return self._show(_at_fields(error, body), given)
        return redirect_with_notice(address_of(web_addresses.EXCEPTION_RULE, created["id"]), "created")

    def _show(self, error: OperationError | None = None, given: Mapping[str, str] | None = None) -> Response:
        [rules] = self.read(Call("list_exception_rules", query={"limit": 100}))
        values: dict[str, Any] = {"rules": rules["data"], "given": given or {}}
        return self.show_form("exception_rules.html", error, LABELS, **values)


class ExceptionRulePage(DashboardPage):
    """One rule: its conditions in words, what it would let in now, and its buttons."""

    path = web_addresses.EXCEPTION_RULE
    section = web_addresses.EXCEPTIONS
    notices = {
        "created": "The rule is on: what meets it may merge during freezes.",
        "enabled": "The rule is on.",
        "disabled": "The rule is off. What it let in is blocked again.",
    }

    def get(self, item_id: str) -> Response:
        """Show the rule."""
        return self._show(item_id)

    def post(self, item_id: str) -> Response:
        """Do what the button says."""
        do, params = self.context.form_fields("do")["do"], {"ruleId": item_id}
        try:
            if do == "delete":
                self.context.call("delete_exception_rule", path_params=params)
                return redirect_with_notice(web_addresses.EXCEPTION_RULES, "deleted")
            if do in {"enable", "disable"}:
                self.context.call("update_exception_rule", path_params=params, body={"enabled": do == "enable"})
                return redirect_with_notice(address_of(self.path, item_id), f"{do}d")
            if do == "preview":
                [rule] = self.read(Call("get_exception_rule", params))
                draft = {name: rule[name] for name in ("appliesTo", "allow")}
                return self._show(item_id, preview=self.context.call("preview_exception_rule", body=draft).content)
        except OperationError as error:
            return self._show(item_id, error)
        raise unknown_button()

    def _show(self, item_id: str, error: OperationError | None = None, preview: Any = None) -> Response:
        rule, uses = self.read(
            Call("get_exception_rule", {"ruleId": item_id}),
            Call("list_exceptions", query={"limit": 25, "ruleId": item_id}),
        )
        values = {"rule": rule, "uses": uses["data"], "preview": preview, "words": words_of(rule["allow"])}
        return self.show_form("exception_rule.html", error, {}, **values)


def _body(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the rule that a form describes: one of its grounds, and all that narrows it."""
    grounds: list[dict[str, Any]] = []
    if files := split_list(given["files"]):
        grounds.append({"paths": {"onlyMatching": files}})
    if given["label"]:
        grounds.append({"label": {"name": given["label"], "setBy": _people(given["label_by"])}})
    if accounts := _people(given["accounts"]):
        grounds.append({"author": accounts})
    if given["team"]:
        at_least = to_number(given["at_least"] or "1")
        grounds.append({"approvals": {"fromTeam": given["team"].removeprefix("@"), "atLeast": at_least}})
    narrowing: list[dict[str, Any]] = []
    if given["max_lines"]:
        narrowing.append({"changedLines": {"atMost": to_number(given["max_lines"])}})
    if given["same_repository"]:
        narrowing.append({"head": {"sameRepository": True}})
    either = [{"any": grounds}] if len(grounds) > 1 else grounds
    body: dict[str, Any] = {
        "name": given["name"],
        "reason": given["reason"],
        "appliesTo": {"scope": _scope(given), "freezes": given["freezes"] or "all"},
        "allow": {"all": [*either, *narrowing]},
    }
    return body | ({"limits": {"perFreeze": to_number(given["per_freeze"])}} if given["per_freeze"] else {})


def _scope(given: Mapping[str, str]) -> dict[str, Any]:
    patterns, branches = split_list(given["repositories"]), split_list(given["branches"])
    scope: dict[str, Any] = {"type": "glob", "patterns": patterns} if patterns else {"type": "organization"}
    return scope | ({"branches": branches} if branches else {})


def _people(text: str) -> dict[str, list[str]]:
    """Return accounts and teams (`organisation/team`, with or without @) that a text lists."""
    names = [name.removeprefix("@") for name in split_list(text)]
    people = {"accounts": [name for name in names if "/" not in name], "teams": [name for name in names if "/" in name]}
    return {kind: found for kind, found in people.items() if found}


def _at_fields(error: OperationError, body: Mapping[str, Any]) -> OperationError:
    """Return a refusal whose details name the fields of the form."""
    return error.with_details([type(each)(f"/{_field(each.path, body)}", each.message) for each in error.details])


def _field(path: str, body: Mapping[str, Any]) -> str:
    """Return the field of the form that a pointer into the rule is about."""
    parts = path.strip("/").split("/")
    if parts[0] == "appliesTo":
        return "branches" if "branches" in parts else "repositories"
    if parts[0] == "limits":
        return "per_freeze"
    if parts[0] != "allow":
        return parts[0]
    place: Any = body["allow"]
    for part in parts[1:]:
        place = place[int(part)] if isinstance(place, list) and part.isdecimal() else place.get(part, {})
        if isinstance(place, dict) and (kind := next(iter(place.keys() & _FIELD_OF_CONDITION.keys()), None)):
            return "label_by" if "setBy" in parts else _FIELD_OF_CONDITION[kind]
    return "files"


def words_of(allow: Mapping[str, Any]) -> list[Any]:
    """Return conditions in words: a list of texts, and of pairs for a group inside of one."""
    key = "all" if "all" in allow else "any"
    found: list[Any] = []
    for member in allow[key]:
        inner = member.keys() & {"all", "any"}
        found.append(words_of(member) if inner else _words(member))
    return ["all of these" if key == "all" else "one of these", *found]


def _words(condition: Mapping[str, Any]) -> str:
    ((kind, value),) = condition.items()
    if kind == "paths":
        only, none = value.get("onlyMatching"), value.get("noneMatching")
        parts = [f"only files that match {_either(only)}"] if only else []
        return " and ".join([*parts, *([f"no file that matches {_either(none)}"] if none else [])])
    if kind == "label":
        return f"the label {value['name']}, set by {_either(_names(value['setBy']))} on this head"
    if kind == "author":
        return f"{_either(_names(value))} as author, and as verified signer of every commit"
    if kind == "approvals":
        return f"approvals of this head from @{value['fromTeam']}: {value['atLeast']}"
    if kind == "changedLines":
        return f"at most {value['atMost']} changed lines"
    return "a head in the repository itself, and not in a fork"


def _names(people: Mapping[str, Any]) -> list[str]:
    return [*(f"@{team}" for team in people.get("teams", ())), *people.get("accounts", ())]


def _either(names: Any) -> str:
    return " or ".join(names)
