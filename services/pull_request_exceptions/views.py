"""Exceptions as clients see them: the contract's `PullRequestException` object, and lists of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.queries import any_of, freezes_of_exceptions
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.freezes.pull_request_exceptions import (
    OPEN_STATES,
    ExceptionState,
    GrantedException,
    IneffectiveReason,
    ineffective_reason,
)
from rules.freezes.verdict import Verdict, judge
from services.core.lookups import get_exception, get_exception_rule, get_freeze, get_repository
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.pull_request_facts import PullRequestFacts, facts_of_locked, read_facts
from services.pull_request_exceptions.requests import MadeExceptions
from services.repositories.tracked_pull_requests import TrackedPullRequest, reference
from services.repositories.tracked_pull_requests import tracked as tracked_pulls
from services.verdicts.blocking import blocking_of_branches, blocking_view

_COLUMNS = (
    "id",
    "request_group_id",
    "freeze_id",
    "branch_id",
    "reason",
    "head_sha",
    "pin_to_head",
    "requested_by",
    "requested_at",
    "decided_by",
    "decided_at",
    "decision_reason",
    "expires_at",
    "revoked_by",
    "revoked_at",
    "used_at",
    "used_commit",
    "rule_id",
    "rule_name",
)
_NOT_BLOCKING = {"blocking": None, "blocked_since": None}


@dataclass(frozen=True, slots=True)
class ExceptionFilters:
    """Which exceptions a list shows; None: any."""

    state: ExceptionState | None = None
    repo: str | None = None
    branch_id: str | None = None
    freeze_id: str | None = None
    pull_request_id: str | None = None
    request_group_id: str | None = None
    rule_id: str | None = None


def list_exceptions(uow: UnitOfWork, operation: str, filters: ExceptionFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of exceptions, the newest first; `operation` is the list that its cursors belong to.

    Raise `invalid_cursor`, `repository_not_found`, `branch_not_found`, `freeze_not_found`, `pull_request_not_found`,
    `exception_not_found` (no such group), `exception_rule_not_found`.
    """
    query = _filtered(uow, filters)
    keys = (PullRequestException.created_at, PullRequestException.id)
    page = page_of(uow, operation, filters, query, keys, cursor=cursor, limit=limit)
    return Page(views(uow, page.data), page.next_cursor)


def _filtered(uow: UnitOfWork, filters: ExceptionFilters) -> Select[Any]:
    row = PullRequestException
    query = select(row).join(Freeze, Freeze.id == row.freeze_id).where(row.organization_id == uow.organization)
    if filters.state is not None:
        query = query.where(row.has_state(filters.state, uow.now, Freeze.is_in_force(uow.now)))
    if filters.repo is not None:
        pulls = select(PullRequest.id).where(PullRequest.repository_id == get_repository(uow, filters.repo).id)
        query = query.where(row.pull_request_id.in_(pulls))
    if filters.freeze_id is not None:
        query = query.where(row.freeze_id == get_freeze(uow, filters.freeze_id).id)
    if filters.branch_id is not None:
        query = query.where(row.branch_id == _known(uow, WatchedBranch, filters.branch_id, "branch_not_found"))
    if filters.pull_request_id is not None:
        known = _known(uow, PullRequest, filters.pull_request_id, "pull_request_not_found")
        query = query.where(row.pull_request_id == known)
    if filters.request_group_id is not None:
        query = query.where(row.request_group_id == _known_group(uow, filters.request_group_id))
    if filters.rule_id is not None:
        query = query.where(row.rule_id == get_exception_rule(uow, filters.rule_id).id)
    return query


def _known(uow: UnitOfWork, kind: type[WatchedBranch] | type[PullRequest], known_id: str, code: str) -> str:
    query = select(kind.id).where(kind.id == known_id, kind.organization_id == uow.organization)
    if uow.session.scalar(query) is None:
        raise ServiceError(code, f"Nothing of this organisation has the id {known_id!r}.")
    return known_id


def _known_group(uow: UnitOfWork, group_id: str) -> str:
    row = PullRequestException
    query = select(row.id).where(row.organization_id == uow.organization, row.request_group_id == group_id)
    if uow.session.scalar(query.limit(1)) is None:
        raise ServiceError("exception_not_found", f"No exception of this organisation has the group {group_id!r}.")
    return group_id


def show(uow: UnitOfWork, exception_id: str) -> dict[str, Any]:
    """Return one exception, in whatever state; raise `exception_not_found`."""
    return views(uow, [get_exception(uow, exception_id)])[0]


def views(uow: UnitOfWork, rows: Sequence[PullRequestException]) -> list[dict[str, Any]]:
    """Return exceptions as the contract's objects: a few queries, however many there are."""
    freezes = freezes_of_exceptions(uow.session, rows)
    in_force = {freeze.id: freeze.is_in_force(uow.now) for freeze in freezes.values()}
    states = {row.id: row.state(uow.now, freeze_in_force=in_force[row.freeze_id]) for row in rows}
    known = _read_pulls(uow, [row for row in rows if states[row.id] in {"pending", "granted", "revoked"}])
    expired_at = {row.id: _expired_at(row, freezes[row.freeze_id], states[row.id]) for row in rows}
    return _views(uow, rows, states, _places(uow, rows), known, expired_at)


def views_of_made(uow: UnitOfWork, made: MadeExceptions) -> list[dict[str, Any]]:
    """Return exceptions that were made in this transaction, from what was read under its locks."""
    pull, branch, repository = tracked = made.locked.tracked
    shown = (pull.number, pull.title, pull.url, pull.state, pull.head_sha, repository.owner, repository.name)
    places = {row.id: _Place(row.id, *shown, branch.name) for row in made.rows}
    states = {row.id: row.state(uow.now, freeze_in_force=True) for row in made.rows}
    facts = facts_of_locked(uow, tracked, made.locked.on_head, made.locked.freezes)
    return _views(uow, made.rows, states, places, _Known({pull.id: tracked}, facts), {})


def _views(
    uow: UnitOfWork,
    rows: Sequence[PullRequestException],
    states: Mapping[str, ExceptionState],
    places: Mapping[str, "_Place"],
    known: "_Known",
    expired_at: Mapping[str, datetime | None],
) -> list[dict[str, Any]]:
    reasons = _ineffective_reasons([row for row in rows if states[row.id] == "granted"], places, known)
    revoked = [row for row in rows if states[row.id] == "revoked"]
    blocking = _blocking_again(uow, revoked, known) if revoked else {}
    return [
        {name: getattr(row, name) for name in _COLUMNS}
        | blocking.get(row.id, _NOT_BLOCKING)
        | {
            "state": states[row.id],
            "source": "person" if row.rule_name is None else "rule",
            "effective": row.id in reasons and reasons[row.id] is None,
            "ineffective_reason": reasons.get(row.id),
            "branch": place.branch,
            "pull_request": {
                "id": row.pull_request_id,
                "repository": f"{place.owner}/{place.repository}",
                "number": place.number,
                "url": place.url,
                "title": place.title,
            },
            "expired_at": expired_at.get(row.id),
            "shared_head_with": known.others_let_in(row) if states[row.id] in OPEN_STATES else [],
        }
        for row in rows
        for place in (places[row.id],)
    ]


class _Place(NamedTuple):
    """What is shown of the pull request of an exception, and of the branch that it goes into."""

    id: str
    """Of the exception."""
    number: int
    title: str
    url: str
    state: str
    head_sha: str
    owner: str
    repository: str
    branch: str


def _places(uow: UnitOfWork, rows: Sequence[PullRequestException]) -> dict[str, _Place]:
    pull = PullRequest
    query = (
        select(
            PullRequestException.id,
            *(pull.number, pull.title, pull.url, pull.state, pull.head_sha),
            *(Repository.owner, Repository.name, WatchedBranch.name),
        )
        .join(pull, pull.id == PullRequestException.pull_request_id)
        .join(Repository, Repository.id == pull.repository_id)
        .join(WatchedBranch, WatchedBranch.id == PullRequestException.branch_id)
        .where(PullRequestException.id == any_of(row.id for row in rows))
    )
    return {place.id: place for place in map(_Place._make, uow.session.execute(query))}


class _Known(NamedTuple):
    """What was read of the pull requests of exceptions."""

    tracked: Mapping[str, TrackedPullRequest]
    """By id: those that go into watched branches."""
    facts: PullRequestFacts

    def into_branch(self, row: PullRequestException) -> TrackedPullRequest | None:
        """Return the pull request of an exception if it is open, and goes into the branch of the exception."""
        base = self.tracked.get(row.pull_request_id)
        return base if base is not None and base.pull.state == "open" and base.branch.id == row.branch_id else None

    def others_let_in(self, row: PullRequestException) -> list[dict[str, Any]]:
        """Return the pull requests whose check is that of an open exception's, as the contract's objects."""
        base = self.into_branch(row)
        return [reference(other) for other in self.facts.others_let_in(base)] if base else []


def _read_pulls(uow: UnitOfWork, rows: Sequence[PullRequestException]) -> _Known:
    pull_ids = {row.pull_request_id for row in rows}
    tracked = {each.pull.id: each for each in tracked_pulls(uow, pull_ids)} if pull_ids else {}
    return _Known(tracked, read_facts(uow, list(tracked.values()), planned=False))


def _ineffective_reasons(
    granted: Sequence[PullRequestException], places: Mapping[str, _Place], known: _Known
) -> dict[str, IneffectiveReason | None]:
    """Return, by id, why granted exceptions have no effect; None for those that let their pull request merge."""
    tracked, facts = known
    reasons: dict[str, IneffectiveReason | None] = {}
    for row in granted:
        pull, base = places[row.id], tracked.get(row.pull_request_id)
        verdict = judge(facts.candidates(base)) if base else None
        of_pattern = facts.pattern_verdict(base) if base else None
        excepted = {one.freeze_id for one in facts.exceptions.of_pull(row.branch_id, pull.number, pull.head_sha)}
        covering = {freeze.id for freeze in facts.freezes.get(row.branch_id, ())}
        reasons[row.id] = ineffective_reason(
            GrantedException(
                open=pull.state == "open",
                on_its_base=base is not None and base.branch.id == row.branch_id,
                on_its_head=not row.pin_to_head or row.head_sha == pull.head_sha,
                covering=covering,
                excepted=excepted,
                sharing_blocked=covering <= excepted and verdict is not None and bool(verdict.blocking),
                pattern_blocked=of_pattern is not None and bool(of_pattern.unprotected),
                written=base is not None and verdict is not None and _written(facts, base, verdict, of_pattern),
            )
        )
    return reasons


def _blocking_again(
    uow: UnitOfWork, revoked: Sequence[PullRequestException], known: _Known
) -> dict[str, dict[str, Any]]:
    """Return, by id, whether GitHub refuses what revoked exceptions had let in, and since when.

    Those are left out whose pull requests no freeze in force forbids to merge, or are not open any more.
    """
    branches = blocking_of_branches(uow.session, {row.branch_id for row in revoked}, uow.now)
    found = {}
    for row in revoked:
        base = known.into_branch(row)
        if base is None:
            continue
        verdict = known.facts.deciding_verdict(base)
        if not verdict.blocking:
            continue
        blocking, check = known.facts.blocking(base, verdict, branches[row.branch_id])
        since = check.written_at if check is not None and blocking.is_enforced else None
        found[row.id] = {"blocking": blocking_view(blocking), "blocked_since": since}
    return found


def _written(facts: PullRequestFacts, base: TrackedPullRequest, verdict: Verdict, of_pattern: Verdict | None) -> bool:
    """True if both checks of a pull request show their verdicts."""
    pairs = zip(base.branch.check_names, (verdict, of_pattern), strict=False)
    return all(one is None or facts.check_state(base, name, one) == "written" for name, one in pairs)


def _expired_at(row: PullRequestException, freeze: Freeze, state: ExceptionState) -> datetime | None:
    """Return when an expired exception came to its end, also before that is recorded."""
    if state != "expired":
        return None
    ends = (row.expires_at, freeze.ended_at or freeze.ends_at)
    return row.expired_at or min(end for end in ends if end is not None)
