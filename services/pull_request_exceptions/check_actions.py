"""The action on a check at GitHub that requests an exception, as the person who takes it there.

That is a member, if the account is linked to one. Others need write access to the repository.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select

from integrations.github import GitHub
from integrations.github.events import RequestedAction
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.check_text import REQUEST_EXCEPTION
from services.core.plan_grants import plan_grants
from services.core.unit_of_work import GITHUB_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.rate_limiter import background_client
from services.identity.github_links import member_of_account
from services.pull_request_exceptions.requests import ExceptionInput, request_for
from services.repositories.tracked_pull_requests import TrackedPullRequest, is_base

logger = logging.getLogger(__name__)

REASON = "Requested at GitHub, with the button of the check."


def handle_check_action(uow_factory: UnitOfWorkFactory, github: GitHub, action: RequestedAction) -> None:
    """Request an exception, as the sender, for each open pull request whose head has the check.

    Pull requests of the same head into the same branch share the check, and only exceptions for all of them turn it
    green. A pull request that has an exception or a request, or cannot have one, is left as it is: a delivery may come
    twice, or again after it was handled in part. Raise `GitHubError` if GitHub does not say what the sender may do.
    """
    if action.identifier != REQUEST_EXCEPTION:
        return
    with uow_factory.open(GITHUB_CALLER) as uow:
        repositories = uow.session.scalars(
            select(Repository)
            .join(Organization, Organization.id == Repository.organization_id)
            .where(Repository.github_id == action.github_id, Repository.removed_at.is_(None), Repository.enabled)
            .where(Organization.deleted_at.is_(None))
        ).all()
        grants = plan_grants(uow, [repository.organization_id for repository in repositories])
    for repository in repositories:
        sender = Actor("code_host", str(action.account_id), action.login)
        organization_id = repository.organization_id
        caller = Caller(organization_id, sender, "code_host", grants[organization_id])
        with uow_factory.open(caller) as uow:
            requestable = uow.plan.includes("pr_exceptions")
            pull_ids = [tracked.pull.id for tracked in _pull_requests(uow, action)] if requestable else []
            member = member_of_account(uow, action.account_id)
        if not pull_ids:
            continue
        if member is not None:
            caller = replace(caller, actor=member, user_id=member.id)
        elif not _may_write(uow_factory, github, repository, action):
            logger.info("check action ignored: its sender may not write to the repository")
            continue
        for pull_id in pull_ids:
            _request(uow_factory, caller, action, pull_id)


def _may_write(uow_factory: UnitOfWorkFactory, github: GitHub, repository: Repository, action: RequestedAction) -> bool:
    client = background_client(uow_factory, github, repository.installation_id)
    return client.may_write(repository.owner, repository.name, action.account_id, action.login)


def _request(uow_factory: UnitOfWorkFactory, caller: Caller, action: RequestedAction, pull_id: str) -> None:
    try:
        with uow_factory.open(caller) as uow:
            for tracked in _pull_requests(uow, action):
                if tracked.pull.id == pull_id:
                    request_for(uow, tracked, ExceptionInput(REASON))
    except ServiceError as error:
        logger.info("check action ignored: %s", error.code)


def _pull_requests(uow: UnitOfWork, action: RequestedAction) -> Sequence[TrackedPullRequest]:
    """Return the open pull requests of the organisation whose head has the check."""
    rows = uow.session.execute(
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, is_base())
        .where(
            Repository.organization_id == uow.organization,
            Repository.github_id == action.github_id,
            Repository.removed_at.is_(None),
            PullRequest.state == "open",
            PullRequest.head_sha == action.head_sha,
            WatchedBranch.check_name == action.check_name,
            WatchedBranch.unwatched_at.is_(None),
        )
        .order_by(PullRequest.number)
    )
    return [TrackedPullRequest(*row) for row in rows]
