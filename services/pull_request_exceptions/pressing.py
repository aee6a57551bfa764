"""The check's own button: somebody at the code host asks for an exception, as whom they are there."""

import logging
from collections.abc import Sequence

from sqlalchemy import select

from integrations.github.events import ButtonHint
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.access.entitlements import plan_named
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.check_text import REQUEST_EXCEPTION
from services.core.unit_of_work import GITHUB_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.pull_request_exceptions.covering import Wanted
from services.pull_request_exceptions.requesting import request_for
from services.repositories.tracked_pull_requests import TrackedPullRequest

logger = logging.getLogger(__name__)

REASON = "Asked for at GitHub, with the button of the check."


def press(uow_factory: UnitOfWorkFactory, hint: ButtonHint) -> None:
    """Request an exception, as that person, for each open pull request whose head carries the check.

    Two that share a head share the check, and only both together turn it green. What is asked for already, granted
    already or not to be had is left as it is; so a delivery that comes twice, or half done before, does no harm.
    """
    if hint.identifier != REQUEST_EXCEPTION:
        return
    with uow_factory.open(GITHUB_CALLER) as uow:
        organizations = uow.session.execute(
            select(Organization.id, Organization.plan)
            .join(Repository, Repository.organization_id == Organization.id)
            .where(Repository.github_id == hint.github_id, Repository.removed_at.is_(None), Repository.enabled)
            .where(Organization.deleted_at.is_(None))
        ).all()
    for organization_id, plan in organizations:
        caller = Caller(organization_id, Actor("code_host", hint.login, hint.login), "code_host", plan)
        with uow_factory.open(caller) as uow:
            waiting = [tracked.pull.id for tracked in _asked_for(uow, hint)] if _entitled(plan) else []
        for pull_id in waiting:
            _request(uow_factory, caller, hint, pull_id)


def _entitled(plan: str) -> bool:
    return "pr_exceptions" in plan_named(plan).entitlements


def _request(uow_factory: UnitOfWorkFactory, caller: Caller, hint: ButtonHint, pull_id: str) -> None:
    try:
        with uow_factory.open(caller) as uow:
            for tracked in _asked_for(uow, hint):
                if tracked.pull.id == pull_id:
                    request_for(uow, tracked, Wanted(REASON))
    except ServiceError as refusal:
        logger.info("the button of a check was pressed in vain: %s", refusal.code)


def _asked_for(uow: UnitOfWork, hint: ButtonHint) -> Sequence[TrackedPullRequest]:
    """Return the open pull requests of the unit's organisation whose head has the check."""
    rows = uow.session.execute(
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(
            WatchedBranch,
            (WatchedBranch.repository_id == Repository.id) & (WatchedBranch.name == PullRequest.base_branch),
        )
        .where(
            Repository.organization_id == uow.organization,
            Repository.github_id == hint.github_id,
            Repository.removed_at.is_(None),
            PullRequest.state == "open",
            PullRequest.head_sha == hint.head_sha,
            WatchedBranch.check_name == hint.check_name,
            WatchedBranch.unwatched_at.is_(None),
        )
        .order_by(PullRequest.number)
    )
    return [TrackedPullRequest(*row) for row in rows]
