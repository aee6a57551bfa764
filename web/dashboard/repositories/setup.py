"""`/enforcement/setup`: which rulesets at GitHub a scope needs, as a diff; and writing them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Response

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.operations import Call, OperationError

_LABELS = {"repository": "Repository", "branch": "Branch"}
_KINDS = {"+": "add", "-": "remove", "@": "place"}
_IN_PROGRESS = ("applying", "awaiting_authorization")


class Setup(DashboardPage):
    """The steps that have rules at GitHub require our checks."""

    path = web_addresses.ENFORCEMENT_SETUP
    section = web_addresses.REPOSITORIES
    notices = {
        "applying": "The rulesets are being written at GitHub.",
        "applied": "Every ruleset is in place already.",
        "seeding": "The checks of open pull requests are being written.",
    }

    def get(self) -> Response:
        """Show what a setup does, for the scope that the address names, and how the last one went."""
        return self._show(filters("repository", "branch"))

    def post(self) -> Response:
        """Show the plan, write the rulesets, or write the checks first."""
        given = self.context.form_fields("do", "repository", "branch", "deletion")
        scope = _scope_of(given)
        try:
            if given["do"] == "seed":
                self.context.call("seed_check", body={"scope": scope})
                return redirect_with_notice(self.path, "seeding", **_kept(given))
            if given["do"] not in {"plan", "apply"}:
                raise unknown_button()
            body = {"scope": scope, "mode": given["do"], "protectFromDeletion": given["deletion"] == "on"}
            result = self.context.call("setup_enforcement", body=body).content
        except OperationError as error:
            url = next((detail.extra.get("authorizationUrl") for detail in error.details if detail.extra), None)
            if error.code == "admin_authorization_required" and url:
                self.read()
                expires_at = next(detail.extra["expiresAt"] for detail in error.details if detail.extra)
                return self.show("repositories/setup_authorize.html", url=url, expires_at=expires_at, given=given)
            return self._show(given, _at_fields(error))
        if given["do"] == "apply":
            return redirect_with_notice(self.path, result["state"], **_kept(given))
        return self._show(given, plan=result)

    def _show(
        self, given: Mapping[str, str], error: OperationError | None = None, plan: Mapping[str, Any] | None = None
    ) -> Response:
        [enforcement] = self.read(Call("get_enforcement", query={"limit": 1}))
        values = {
            "given": given,
            "plan": plan,
            "changes": [each for each in plan["changes"] if each["action"] != "none"] if plan else [],
            "diff_lines": diff_lines,
            "stop_counts": enforcement["stops"],
            **progress_of(enforcement),
        }
        return self.show_form("repositories/setup.html", error, _LABELS, **values)


class SetupProgress(DashboardPage):
    """`/enforcement/progress`: the part of the page that says how the last setup goes."""

    path = web_addresses.ENFORCEMENT_PROGRESS
    section = web_addresses.REPOSITORIES

    def get(self) -> Response:
        """Show it as it is now."""
        [enforcement] = self.read_part(Call("get_enforcement", query={"limit": 1}))
        return self.show_part("repositories/setup_progress.html", **progress_of(enforcement))


def progress_of(enforcement: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the part shows; it moves while something is being written or verified."""
    last, pending = enforcement["lastSetup"], enforcement["pending"]
    applying = last is not None and last["state"] in _IN_PROGRESS
    return {"last": last, "pending": pending, "moving": applying or any(pending.values())}


def _at_fields(error: OperationError) -> OperationError:
    """Return the error with the problems of the scope at the fields that it is made of."""
    details = [
        replace(each, path="/branch" if "branch" in each.path.lower() else "/repository")
        if each.path.startswith("/scope")
        else each
        for each in error.details
    ]
    return error.with_details(details)


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, each with its kind: `add`, `remove`, `place` or an empty text."""
    lines = [line for line in text.splitlines() if not line.startswith(("--- ", "+++ "))]
    return [(_KINDS.get(line[:1], ""), line) for line in lines]


def _scope_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the scope: a branch, a repository, or the whole organisation."""
    if given["branch"]:
        place = {"branchId": given["branch"]} if not given["repository"] else _kept(given)
        return {"type": "branch", **place}
    if given["repository"]:
        return {"type": "repositories", "repositories": [given["repository"]]}
    return {"type": "organization"}


def _kept(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in ("repository", "branch") if given[name]}
