"""Plans of a setup: which rulesets a scope needs at GitHub, and which changes lead there."""

from collections.abc import Mapping
from typing import Any

from rules.rulesets.plans import Change
from services.core.unit_of_work import UnitOfWork
from services.enforcement import authorization
from services.enforcement.facts import read_facts
from services.enforcement.setups import queue_setup, request_verdicts, save_ruleset
from services.enforcement.stoppable import stoppable
from services.enforcement.survey import Survey
from services.freezes.scope_names import named_scope
from services.github_access import client as github_client


def set_up(uow: UnitOfWork, scope: dict[str, Any], mode: str, *, forbid_deletion: bool = False) -> dict[str, Any]:
    """Plan the rulesets of a scope (`mode` plan), or have a job write them (apply).

    `forbid_deletion` adds a rule against deletion to the rulesets of single branches.

    GitHub is read first, within the deadline of one call, while no lock is held. Raise what `read_facts` and
    `client_of` raise, errors of GitHub, and for apply `admin_authorization_required` if an administrator of a
    repository concerned has not authorised the service yet, or if the App may not write; its effects stay, because the
    address that it shows leads back to them.
    """
    survey, changes = _surveyed(uow, scope, forbid_deletion=forbid_deletion)
    due = [change for change in changes if change.action != "none"]
    state = "planned"
    if mode == "apply":
        if survey.facts.unauthorized(due) or not survey.permits_all(due):
            raise authorization.authorization_required(uow, survey, scope, due)
        state = _apply(uow, survey, scope, changes)
    able = stoppable(uow, [branch.branch_id for change in changes for need in change.needs for branch in need.branches])
    shown = [_view(change, able) for change in changes]
    return {"mode": mode, "state": state, "level": survey.level, "changes": shown}


def _surveyed(uow: UnitOfWork, scope: dict[str, Any], *, forbid_deletion: bool) -> tuple[Survey, list[Change]]:
    facts = read_facts(uow, scope, forbid_deletion=forbid_deletion)
    client = github_client.client_of(uow, facts.installation_id)
    with client.shared_deadline():
        survey = Survey(github_client.github(uow), client, facts)
        return survey, survey.plan_all()


def _apply(uow: UnitOfWork, survey: Survey, scope: dict[str, Any], changes: list[Change]) -> str:
    """Queue the changes to be written; rulesets that were recognised as ours are recorded at once."""
    due = [change for change in changes if change.action != "none"]
    for change in changes:
        if change.recognized:
            save_ruleset(uow, survey.facts.installation_id, change, change.ruleset_id or 0)
    organization = ("organization", uow.organization, survey.facts.account)
    if due:
        forbid_deletion = survey.facts.forbid_deletion
        setup = queue_setup(uow, scope, len(due), forbid_deletion=forbid_deletion)
        request_verdicts(uow, setup, due)
        details = {
            "changes": len(due),
            "setupId": setup.id,
            **({"protectFromDeletion": True} if forbid_deletion else {}),
        }
    else:
        details = {"changes": 0}
    uow.audit("enforcement.setup_requested", organization, scope=named_scope(uow, scope), **details)
    return "applying" if due else "applied"


def _view(change: Change, able: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "action": change.action,
        "level": change.place.level,
        "account": change.place.account,
        "repository": change.place.repository,
        "check_name": change.check_name,
        "branches": [
            {
                "branch_id": branch.branch_id,
                "repository": need.repository.full_name,
                "branch": branch.name,
                **able[branch.branch_id],
            }
            for need in change.needs
            for branch in need.branches
        ],
        "ruleset_id": change.ruleset_id,
        "before": change.before,
        "after": change.after,
        "diff": change.diff,
    }
