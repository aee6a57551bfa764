"""`/branches/{id}`: whether a freeze of the branch really blocks, what is missing, and what can be done about it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flask import Response, request

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.page import DashboardPage, redirect_with_notice
from web.operations import Call, OperationError

TOOLS = {
    "gh": "GitHub CLI",
    "curl": "curl",
    "terraform": "Terraform",
    "ruleset_json": "Ruleset to import at GitHub",
}
"""Names of the tools that snippets are for."""
PURPOSES = {
    "enable": "Require the check",
    "disable": "Break glass: stop requiring it, without this service",
    "restore": "Require it again afterwards",
}
"""What snippets are for."""
ACTORS = {
    "OrganizationAdmin": "Organisation administrators",
    "RepositoryRole": "A role of the repository",
    "Team": "A team",
    "Integration": "An app",
    "DeployKey": "Deploy keys",
    "User": "A person",
    "EnterpriseOwner": "Owners of the enterprise",
}
"""Words for who can bypass a rule."""
_SEVERITIES = ("critical", "warning", "info")


class BranchPage(DashboardPage):
    """A watched branch: whether it is frozen and blocked, its rules and its settings."""

    path = web_addresses.BRANCH
    section = web_addresses.REPOSITORIES
    notices = {
        "verifying": "The rules at GitHub are being verified.",
        "seeding": "The checks of its pull requests are being written.",
        "saved": "The setting is saved.",
    }

    def get(self, item_id: str, error: OperationError | None = None) -> Response:
        """Show the branch."""
        params = {"branchId": item_id}
        branch, found, state = self.read(
            Call("get_branch", params), Call("get_branch_enforcement", params), Call("get_freeze_state", query=params)
        )
        values = {"branch": branch, "freezes": state["freezes"], **doctor_of(found), **self._snippets(params)}
        return self.show_form("repositories/branch.html", error, {}, **values)

    def post(self, item_id: str) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "repository_id", "exceptions_allowed")
        params, scope = {"branchId": item_id}, {"scope": {"type": "branch", "branchId": item_id}}
        here = address_of(self.path, item_id)
        try:
            if given["do"] == "verify":
                queued = self.context.call("verify_enforcement", body=scope).content
                return redirect_with_notice(here, "verifying", since=queued["requestedAt"])
            if given["do"] == "seed":
                self.context.call("seed_check", body=scope)
                return redirect_with_notice(here, "seeding")
            if given["do"] == "save":
                settings = {"exceptionsAllowed": bool(given["exceptions_allowed"])}
                self.context.call("update_branch", path_params=params, body={"settings": settings})
                return redirect_with_notice(here, "saved")
            if given["do"] != "unwatch":
                raise unknown_button()
            self.context.call("unwatch_branch", path_params=params)
        except OperationError as error:
            return self.get(item_id, error)
        back = given["repository_id"]
        page = address_of(web_addresses.REPOSITORY, back) if back else web_addresses.REPOSITORIES
        return redirect_with_notice(page, "unwatched")

    def _snippets(self, params: Mapping[str, str]) -> dict[str, Any]:
        """Return the snippets by what they are for, or why there are none now."""
        try:
            [found] = self.read_part(Call("get_enforcement_snippets", params))
        except OperationError as error:
            return {"snippets": {}, "without_snippets": error.message}
        by_purpose = {
            purpose: [each for each in found["snippets"] if each["purpose"] == purpose] for purpose in PURPOSES
        }
        return {"snippets": by_purpose, "purposes": PURPOSES, "tools": TOOLS}


class Doctor(DashboardPage):
    """`/branches/{id}/doctor`: the part of the page that says what the last verification found."""

    path = web_addresses.BRANCH_DOCTOR
    section = web_addresses.REPOSITORIES

    def get(self, item_id: str) -> Response:
        """Show it as it is now."""
        params = {"branchId": item_id}
        branch, found = self.read_part(Call("get_branch", params), Call("get_branch_enforcement", params))
        return self.show_part("repositories/doctor.html", branch=branch, **doctor_of(found))


def doctor_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the doctor shows; it moves until the verification that the address names has ended."""
    since, verified_at = request.args.get("since", ""), found["lastVerifiedAt"]
    checks = found["checks"]
    findings = sorted(found["findings"], key=lambda each: _rank(each["severity"]))
    return {
        "found": found,
        "findings": findings,
        "actors": ACTORS,
        "since": since,
        "verifying": _is_later(since, verified_at),
        "moving": _is_later(since, verified_at) or checks["state"] == "pending",
    }


def _rank(severity: str) -> int:
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else len(_SEVERITIES)


def _is_later(since: str, verified_at: str | None) -> bool:
    """True if the instant is valid and the last verification was before it."""
    try:
        instant = datetime.fromisoformat(since)
    except ValueError:
        return False
    return instant.tzinfo is not None and (verified_at is None or datetime.fromisoformat(verified_at) < instant)
