"""Queries that several services share: what covers a branch, and which exceptions are active."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Select, Text, any_, bindparam, literal, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from models.due_windows import branches_of_due, due_on_branches
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.access.organization_settings import OrganizationSettings
from rules.access.permissions import shown_actor
from rules.freezes.check_text import Audience
from rules.freezes.pull_request_exceptions import ExceptionState
from rules.freezes.scope import FreezableBranch
from rules.freezes.verdict import CoveringFreeze
from rules.time.due_windows import DueWindow


def any_of(texts: Iterable[str]) -> ColumnElement[Any]:
    """Return an operand that a text column equals if it is any of many: one parameter, where `in_` sends many."""
    return any_(literal(list(texts), ARRAY(Text)))


NOW: Any = bindparam("now", type_=DateTime(timezone=True))
"""The present, in a statement that is made once."""


def is_one_of(column: Any, name: str) -> ColumnElement[bool]:
    """Return the condition that a column is one of the texts in a parameter, for a statement that is made once."""
    condition: ColumnElement[bool] = column == any_(bindparam(name, type_=ARRAY(Text)))
    return condition


# Every pass runs these, and many requests. To make a statement takes longer than to run it, and PostgreSQL does not get
# to prepare one whose text depends on the number of its parameters.
_COVERING = (
    select(
        FreezeTarget.branch_id,
        Freeze.id,
        Freeze.reason,
        Freeze.started_at,
        Freeze.ends_at,
        Freeze.exceptions_allowed,
        WatchedBranch.exceptions_allowed,
        Freeze.public_text,
        Freeze.created_by,
    )
    .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
    .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
    .where(
        is_one_of(FreezeTarget.branch_id, "branches"),
        FreezeTarget.operation == "apply",
        Freeze.is_in_force(NOW),
        Freeze.id != bindparam("besides", type_=Text),
    )
    .order_by(Freeze.started_at, Freeze.id)
)
_AUDIENCES = (
    select(Repository.id, Repository.private, Organization.settings)
    .join(Organization, Organization.id == Repository.organization_id)
    .where(is_one_of(Repository.id, "repositories"))
)
_ACTIVE_EXCEPTIONS = (
    select(
        PullRequestException.id,
        PullRequestException.freeze_id,
        PullRequestException.pull_request_id,
        PullRequestException.branch_id,
        PullRequestException.pin_to_head,
        PullRequestException.head_sha,
        PullRequestException.decided_by,
        PullRequestException.rule_name,
        PullRequestException.expires_at,
        PullRequest.number,
        PullRequest.head_sha,
    )
    .join(Freeze, Freeze.id == PullRequestException.freeze_id)
    .join(PullRequest, PullRequest.id == PullRequestException.pull_request_id)
    .where(
        is_one_of(PullRequestException.freeze_id, "freezes"),
        is_one_of(PullRequestException.branch_id, "branches"),
        PullRequestException.is_active(NOW, Freeze.is_in_force(NOW)),
    )
    .order_by(PullRequestException.created_at, PullRequestException.id)
)


def covering_freezes(
    session: Session, branch_ids: Collection[str], now: datetime, *, besides: str = ""
) -> Mapping[str, list[CoveringFreeze]]:
    """Return, for each branch that is frozen at `now`, the freezes that cover it, oldest first.

    The freeze `besides` does not count. Due windows that have not begun count. They are read first: one that begins in
    between is in both, and not in neither.
    """
    due = due_on_branches(session, branch_ids, now)
    rows = session.execute(_COVERING, {"branches": list(branch_ids), "now": now, "besides": besides})
    covering: dict[str, list[CoveringFreeze]] = defaultdict(list)
    for branch_id, freeze_id, reason, started_at, ends_at, by_freeze, by_branch, public_text, created_by in rows:
        found = CoveringFreeze(
            freeze_id,
            reason,
            started_at,
            ends_at,
            by_freeze and by_branch,
            public_text=public_text,
            started_by=shown_actor(created_by),
        )
        covering[branch_id].append(found)
    for branch_id, windows in due.items():
        covering[branch_id] = _with_due(covering[branch_id], [one for one in windows if one.freeze_id != besides])
    return covering


def _with_due(freezes: Sequence[CoveringFreeze], windows: Iterable[DueWindow]) -> list[CoveringFreeze]:
    begun = {freeze.id for freeze in freezes}
    due = (
        CoveringFreeze(
            one.freeze_id,
            one.reason,
            one.starts_at,
            one.ends_at,
            one.exceptions_allowed,
            begun=False,
            public_text=one.public_text,
            started_by=shown_actor(one.actor.as_json()),
        )
        for one in windows
        if one.freeze_id not in begun
    )
    return sorted([*freezes, *due], key=lambda freeze: (freeze.started_at, freeze.id))


def audiences(session: Session, repository_ids: Collection[str], pages_at: str) -> dict[str, Audience]:
    """Return, by id, for whom the checks of repositories are written; `pages_at` is the address of our pages."""
    rows = session.execute(_AUDIENCES, {"repositories": list(repository_ids)})
    return {
        repository_id: Audience(repository_id, pages_at, private, OrganizationSettings.from_json(settings))
        for repository_id, private, settings in rows
    }


def frozen_branches(organization: str | ColumnElement[str], now: datetime) -> Select[str]:
    """Return the query for the ids of all branches that a freeze covers at `now`, without those of due windows."""
    return (
        select(FreezeTarget.branch_id)
        .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
        .where(
            FreezeTarget.organization_id == organization,
            FreezeTarget.operation == "apply",
            Freeze.is_in_force(now),
        )
    )


def is_frozen(session: Session, organization_id: str, now: datetime) -> ColumnElement[bool]:
    """Return the condition that a freeze or a due window covers a watched branch of the organisation at `now`."""
    due = branches_of_due(session, organization_id, now)
    covered: ColumnElement[bool] = WatchedBranch.id.in_(frozen_branches(organization_id, now))
    return or_(covered, WatchedBranch.id == any_of(due)) if due else covered


def freezable(organization_id: str | ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of what a freeze can reach: watched branches of enabled repositories that are covered."""
    return (
        WatchedBranch.organization_id == organization_id,
        WatchedBranch.unwatched_at.is_(None),
        Repository.enabled.is_(True),
        Repository.removed_at.is_(None),
    )


def watched_branches(session: Session, organization_id: str, *narrowed: ColumnElement[bool]) -> list[FreezableBranch]:
    """Return the branches that a freeze can reach and that meet the conditions, by repository and name."""
    rows = session.execute(
        select(WatchedBranch.id, Repository.id, Repository.owner, Repository.name, WatchedBranch.name)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(*freezable(organization_id), *narrowed)
        .order_by(Repository.owner, Repository.name, WatchedBranch.name)
    )
    return [
        FreezableBranch(branch, repository, f"{owner}/{name}", ref) for branch, repository, owner, name, ref in rows
    ]


@dataclass(frozen=True, slots=True)
class UnprotectedBranch:
    """A branch that no rule of its own protects: what the check of its pattern says decides."""

    repository_id: str
    pattern_check_name: str
    branch_id: str
    name: str


def unprotected_branches(session: Session, pairs: Collection[tuple[str, str]]) -> list[UnprotectedBranch]:
    """Return the branches without a rule of their own, by pairs of repository id and name of a pattern's check."""
    if not pairs:
        return []
    rows = session.execute(
        _UNPROTECTED, {"repositories": [pair[0] for pair in pairs], "names": [pair[1] for pair in pairs]}
    )
    return [UnprotectedBranch(*row) for row in rows]


_UNPROTECTED = text("""
    SELECT b.repository_id, b.pattern_check_name, b.id, b.name
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[])) AS k (repository, name)
    JOIN watched_branches b ON b.repository_id = k.repository AND b.pattern_check_name = k.name
    LEFT JOIN branch_enforcement e ON e.branch_id = b.id
    WHERE NOT coalesce(e.own_rule, false)
    ORDER BY b.id
""")


def lock_coverage(session: Session, organization_id: str, *, exclusive: bool) -> None:
    """Lock the coverage until the commit: shared to start a freeze, exclusive to watch branches.

    Without it, a freeze that starts and a branch that becomes watched at the same moment would miss each other.
    """
    function = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
    session.execute(text(f"SELECT {function}(hashtextextended(:key, 0))"), {"key": f"coverage {organization_id}"})


@dataclass(frozen=True, slots=True)
class ActiveException:
    """An active exception: it lets a pull request into one branch pass one freeze."""

    id: str
    freeze_id: str
    pull_request_id: str
    branch_id: str
    pinned_sha: str | None
    """The only head that it applies to; None: every head."""
    granted_by: str
    """The person, key or rule that granted it, as people are shown it."""
    expires_at: datetime | None
    """When it ends before its freeze does."""
    number: int
    head_sha: str
    """Number and head of the pull request, as it was last seen."""

    def applies_to(self, sha: str) -> bool:
        """Return True if it allows this commit of the pull request."""
        return self.pinned_sha in {None, sha}


def select_active_exceptions(
    session: Session, freeze_ids: Collection[str], branch_ids: Collection[str], now: datetime
) -> list[ActiveException]:
    """Return the exceptions from these freezes, for pull requests into these branches, that are active at `now`."""
    rows = session.execute(_ACTIVE_EXCEPTIONS, {"freezes": list(freeze_ids), "branches": list(branch_ids), "now": now})
    return [
        ActiveException(
            id=exception_id,
            freeze_id=freeze_id,
            pull_request_id=pull_request_id,
            branch_id=branch_id,
            pinned_sha=(pinned or "") if pins else None,
            granted_by=f"the rule “{rule}”" if rule is not None else shown_actor(by) or "unknown",
            expires_at=expires_at,
            number=number,
            head_sha=head_sha,
        )
        for (
            exception_id,
            freeze_id,
            pull_request_id,
            branch_id,
            pins,
            pinned,
            by,
            rule,
            expires_at,
            number,
            head_sha,
        ) in rows
    ]


def freezes_of_exceptions(session: Session, rows: Iterable[PullRequestException]) -> Mapping[str, Freeze]:
    """Return the freezes that exceptions are from, by id, as they are now."""
    query = select(Freeze).where(Freeze.id.in_({row.freeze_id for row in rows}))
    return {freeze.id: freeze for freeze in session.scalars(query.execution_options(populate_existing=True))}


def exception_states(
    session: Session, rows: Sequence[PullRequestException], now: datetime
) -> dict[str, ExceptionState]:
    """Return the states of exceptions at `now`, by id."""
    freezes = freezes_of_exceptions(session, rows)
    return {row.id: row.state(now, freeze_in_force=freezes[row.freeze_id].is_in_force(now)) for row in rows}
