"""`/freezes/new`: start a freeze, with its impact shown before.

The form sends the counts that were shown with it. They are compared with what the scope covers when it is sent, so that
nothing starts whose impact has not been seen, with scripts or without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask import Response

from rules import web_addresses
from rules.errors import Detail
from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.freezes import end_of
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.fields import filled, split_list
from web.operations import Call, OperationError

WIDE = 50
"""Number of branches above which a freeze needs its count typed; one of the organisation always does."""
SCOPES = (
    ("organization", "The whole organisation", "Every watched branch, also of repositories to come."),
    ("glob", "Repositories that match a pattern", "Also those to come."),
    ("repositories", "Some repositories", ""),
    ("branch", "One branch", ""),
)
_FIELDS = (
    "scope", "patterns", "repositories", "repository", "branch", "branches", "reason", "public_text", "ends_at",
    "zone", "exceptions", "previewed", "confirmed", "do",
)  # fmt: skip
_LABELS = {
    "patterns": "Patterns",
    "repositories": "Repositories",
    "repository": "Repository",
    "branch": "Branch",
    "branches": "Branches",
    "reason": "The reason",
    "public_text": "The text in public repositories",
    "ends_at": "The end",
    "confirmed": "The number of branches",
}
_SCOPE_FIELD = {"organization": "branches", "glob": "patterns", "repositories": "repositories", "branch": "branch"}
"""Where a problem of the scope is shown, if it names no field."""


class NewFreeze(DashboardPage):
    """The form that starts a freeze, with its impact."""

    path = web_addresses.NEW_FREEZE
    section = web_addresses.FREEZES

    def get(self) -> Response:
        """Show the form with its impact: of a freeze of the organisation, or of the branch that the address names."""
        named = filters("repository", "branch")
        scope = {"scope": "branch", "repository": "", "branch": "", **named} if named else {"scope": "organization"}
        return self._form({**scope, "exceptions": "1"})

    def post(self) -> Response:
        """Start the freeze, if its impact has been seen; otherwise show it."""
        given = self.context.form_fields(*_FIELDS)
        try:
            if given["do"] != "start":
                return self._form(given)
            preview = self._check(given)
            body: dict[str, Any] = {
                "scope": scope_of(given),
                "reason": given["reason"],
                "exceptionsAllowed": given["exceptions"] == "1",
                "previewedRepoCount": preview["repositoryCount"],
            }
            if given["public_text"]:
                body["publicText"] = given["public_text"]
            if given["ends_at"]:
                body["endsAt"] = end_of(given)
            freeze = self.context.call("create_freeze", body=body).content
        except OperationError as error:
            if error.status >= 500 or error.status in {401, 403, 404, 429}:
                raise
            return self._form(given, _at_fields(error, given["scope"]))
        done = "started_again" if freeze["alreadyFrozenCount"] else "started"
        return redirect_with_notice(address_of(web_addresses.FREEZE, freeze["id"]), done)

    def _form(self, given: Mapping[str, str], error: OperationError | None = None) -> Response:
        """Return the page with what was entered, its impact, and its problems."""
        listed = Call("list_repositories", query={"limit": 100, "enabled": "true"})
        try:
            repositories, *previews = self.read(listed, *_previews(given))
            impact = _impact_of(given, previews)
        except OperationError as refused:
            impact = _unknown_impact(refused)
            [repositories] = self.read(listed)
        values = {
            "given": given,
            "repositories": repositories["data"],
            "scopes": SCOPES,
            "allowed": self.may("create_freeze"),
            **impact,
        }
        if error is None:
            return self.show("new_freeze.html", **values)
        return self.show_again("new_freeze.html", error, _LABELS, **values)

    def _check(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the impact. Raise OperationError with all that is wrong, also with the fields beside the scope."""
        problems = _problems_beside_scope(given)
        try:
            preview: Mapping[str, Any] = self.context.call("preview_scope", body={"scope": scope_of(given)}).content
            _check_seen(given, preview)
        except OperationError as error:
            if not problems:
                raise
            raise error.with_details([*(error.details or [Detail("", error.message)]), *problems]) from None
        if problems:
            raise OperationError(422, "validation_failed", problems[0].message, details=problems)
        return preview


class Impact(NewFreeze):
    """The impact of the scope that is being entered."""

    path = f"{web_addresses.NEW_FREEZE}/impact"

    def post(self) -> Response:
        """Show the impact."""
        given = self.context.form_fields(*_FIELDS)
        if given["scope"] not in _SCOPE_FIELD:
            raise unknown_button()
        try:
            impact = _impact_of(given, self.read_part(*_previews(given)))
        except OperationError as refused:
            impact = _unknown_impact(refused)
        return self.show_part("impact.html", given=given, **impact)


def scope_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the scope of the contract that the fields describe."""
    kind = given["scope"]
    scope: dict[str, Any] = {"type": kind}
    if kind == "branch":
        return scope | filled({"repository": given["repository"], "branch": given["branch"]})
    if kind in {"glob", "repositories"}:
        name = "patterns" if kind == "glob" else "repositories"
        scope[name] = split_list(given[name])
    if split_list(given.get("branches", "")):
        scope["branches"] = split_list(given["branches"])
    return scope


def _previews(given: Mapping[str, str]) -> list[Call]:
    """Return the call that previews the entered scope, if it says what to freeze."""
    return [Call("preview_scope", body={"scope": scope_of(given)})] if _is_complete(given) else []


def _impact_of(given: Mapping[str, str], previews: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the page shows of the impact of the entered scope."""
    if not previews:
        return {"preview": None, "unknown": "Choose what to freeze to see what it covers."}
    return {"preview": previews[0], "typed": is_wide(given["scope"], previews[0]["branchCount"])}


def _unknown_impact(refused: OperationError) -> dict[str, Any]:
    """Return why the impact of the entered scope is not known; raise what is not refused because of the scope."""
    if refused.status not in {400, 409, 422}:
        raise refused
    return {"preview": None, "unknown": refused.message}


def is_wide(kind: str, branches: int) -> bool:
    """True if the number of branches has to be typed before a freeze starts."""
    return kind == "organization" or branches > WIDE


def _is_complete(given: Mapping[str, str]) -> bool:
    """True if the form says what to freeze."""
    if given["scope"] == "branch":
        return bool(given["repository"] and given["branch"])
    if given["scope"] in {"glob", "repositories"}:
        return bool(split_list(given["patterns" if given["scope"] == "glob" else "repositories"]))
    return given["scope"] == "organization"


def _problems_beside_scope(given: Mapping[str, str]) -> list[Detail]:
    """Return what is wrong with the reason and with the form of the end."""
    problems = []
    if not is_reason(given["reason"]):
        problems.append(Detail("/reason", f"reason must have at least {MIN_REASON_LENGTH} characters"))
    if given["ends_at"]:
        try:
            end_of(given)
        except OperationError as error:
            problems += error.details
    return problems


def _check_seen(given: Mapping[str, str], preview: Mapping[str, Any]) -> None:
    """Raise OperationError unless the form was sent with the present impact, and typed where it is wide."""
    if given["previewed"] != f"{preview['repositoryCount']}/{preview['branchCount']}":
        raise OperationError(422, "impact_preview_required", "Check below what the freeze covers now, then start it.")
    if is_wide(given["scope"], preview["branchCount"]) and given["confirmed"] != str(preview["branchCount"]):
        message = f"Type {preview['branchCount']}, the number of branches that the freeze covers, to confirm it."
        raise OperationError(422, "impact_preview_required", message, details=(Detail("/confirmed", message),))


def _at_fields(error: OperationError, kind: str) -> OperationError:
    """Return the error with the problems of the scope at its fields."""
    details = []
    for detail in error.details:
        first, _, rest = detail.path.removeprefix("/").partition("/")
        if first != "scope":
            details.append(replace(detail, path="/public_text") if first == "publicText" else detail)
            continue
        field = rest.partition("/")[0]
        shown = field if field in _LABELS else _SCOPE_FIELD.get(kind, "")
        details.append(replace(detail, path=f"/{shown}"))
    return error.with_details(details)
