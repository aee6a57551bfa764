"""Pull requests that exceptions can be asked for, and requests that can be decided on, made afresh for each call."""

import secrets
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.freezes.pull_references import LARGEST
from rules.ids import new_id
from tests import factories

PREFIX = "frozen-for-a-while-"
_LENGTH = timedelta(hours=1)


def new_pull(session: Session, organization: Organization) -> PullRequest:
    """Return a new pull request into a branch that only freezes cover which take exceptions."""
    branch = _frozen_branch(session, organization)
    repository = session.get_one(Repository, branch.repository_id)
    number = secrets.randbelow(LARGEST) + 1
    return factories.pull_request(session, repository, number, base_branch=branch.name)


def new_request(session: Session, organization: Organization) -> PullRequestException:
    """Return a new request for an exception, by somebody else."""
    pull = new_pull(session, organization)
    mine = WatchedBranch.repository_id == pull.repository_id
    branch = session.scalars(select(WatchedBranch).where(mine, WatchedBranch.name == pull.base_branch)).one()
    freeze = factories.freeze(session, organization, [branch], ends_at=factories.now() + _LENGTH)
    by = {"type": "user", "id": new_id("usr"), "name": "Somebody else"}
    asked = {"requested_by": by, "requested_at": factories.now(), "decision": None, "decided_by": None}
    return factories.exception(session, freeze, pull, branch, **asked, decided_at=None)


def _frozen_branch(session: Session, organization: Organization) -> WatchedBranch:
    repository = session.scalars(
        select(Repository)
        .where(Repository.organization_id == organization.id, Repository.enabled, Repository.removed_at.is_(None))
        .order_by(Repository.id)
        .limit(1)
    ).one()
    mine = WatchedBranch.repository_id == repository.id
    for branch in session.scalars(select(WatchedBranch).where(mine, WatchedBranch.name.startswith(PREFIX))):
        freezes = covering_freezes(session, [branch.id], factories.now()).get(branch.id, ())
        if branch.unwatched_at is None and freezes and all(freeze.exceptions_allowed for freeze in freezes):
            return branch
    branch = factories.branch(session, repository, f"{PREFIX}{new_id('wbr')}")
    factories.freeze(session, organization, [branch], ends_at=factories.now() + _LENGTH)
    return branch
