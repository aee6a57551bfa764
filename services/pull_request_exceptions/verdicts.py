"""The facts that verdicts on pull requests follow from: freezes, active exceptions, shared heads, written checks.

The reconciler decides from them what to write; lists and single objects show them. Exceptions that cannot be read allow
nothing: freezes go on blocking, and the check says why.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import select, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from models.pull_requests import HeadCheck, PullRequest
from models.queries import ActiveException, covering_freezes, select_active_exceptions, unprotected_branches
from models.repositories import Repository, WatchedBranch
from models.schedule_queries import planned_windows
from rules.freezes.blocking import Blocking
from rules.freezes.verdict import CoveringFreeze, Grant, MergeCandidate, Verdict, judge_for_pattern
from services.core.unit_of_work import UnitOfWork
from services.github_access.failures import RATE_LIMIT_CODES
from services.repositories.tracked_pull_requests import TrackedPullRequest, is_base
from services.verdicts.blocking import BranchBlocking

logger = logging.getLogger(__name__)

FreezesByBranch = Mapping[str, Sequence[CoveringFreeze]]
"""The freezes in force that cover each branch."""
ClosedPatterns = Mapping[tuple[str, str], FreezesByBranch]
"""By repository id and name of a pattern's check: the names of frozen branches without a rule of their own, and why."""
CheckState = Literal["written", "failed", "pending"]


@dataclass(frozen=True, slots=True)
class ActiveExceptions:
    """The active exceptions, by branch and number of the pull request."""

    rows: Mapping[tuple[str, int], Sequence[ActiveException]] = field(default_factory=dict)
    readable: bool = True
    """False if it is not known whether there are any."""

    def of_pull(self, branch_id: str, number: int, sha: str) -> list[ActiveException]:
        """Return those of one pull request into a branch that apply to this commit of it."""
        return [row for row in self.rows.get((branch_id, number), ()) if row.applies_to(sha)]

    def candidate(self, base: tuple[str, str], number: int, sha: str, freezes: FreezesByBranch) -> MergeCandidate:
        """Return a pull request whose head is `sha` as a merge candidate; `base` is id and name of its branch."""
        return _candidate(base, freezes, {number: self.of_pull(base[0], number, sha)}, number)

    def queue_candidate(
        self, base: tuple[str, str], numbers: Sequence[int] | None, freezes: FreezesByBranch
    ) -> MergeCandidate:
        """Return an entry of the merge queue as a merge candidate; `numbers` are its members, None if they are unknown.

        All members land together. The entry has a commit of its own, so pins are compared with the heads of its members
        as they were last seen.
        """
        branch_id, name = base
        if not numbers:
            return MergeCandidate(name, None, freezes.get(branch_id, ()), members_known=False)
        active = {
            number: [row for row in self.rows.get((branch_id, number), ()) if row.applies_to(row.head_sha)]
            for number in numbers
        }
        return _candidate(base, freezes, active, numbers[-1])


def _candidate(
    base: tuple[str, str],
    freezes: FreezesByBranch,
    active: Mapping[int, Sequence[ActiveException]],
    number: int | None,
) -> MergeCandidate:
    branch_id, name = base
    excepted = [{row.freeze_id for row in rows} for rows in active.values()]
    grants = tuple(
        Grant(row.freeze_id, row.number, row.granted_by, row.expires_at) for rows in active.values() for row in rows
    )
    covering = freezes.get(branch_id, ())
    return MergeCandidate(name, number, covering, frozenset(set.intersection(*excepted)), grants=grants)


def freezes_of(
    uow: UnitOfWork, branch_ids: Collection[str], patterns: Collection[tuple[str, str]]
) -> tuple[FreezesByBranch, ClosedPatterns]:
    """Return the freezes in force on branches, and which patterns (repository id and check) they close."""
    unprotected = unprotected_branches(uow.session, patterns)
    freezes = covering_freezes(uow.session, {*branch_ids, *(branch.branch_id for branch in unprotected)}, uow.now)
    closed: dict[tuple[str, str], dict[str, Sequence[CoveringFreeze]]] = defaultdict(dict)
    for branch in unprotected:
        if freezes.get(branch.branch_id):
            closed[branch.repository_id, branch.pattern_check_name][branch.name] = freezes[branch.branch_id]
    return freezes, closed


def active_exceptions(session: Session, freezes: FreezesByBranch, now: datetime) -> ActiveExceptions:
    """Return the exceptions from these freezes that are active at `now`; none if they cannot be read."""
    try:
        with session.begin_nested() if any(freezes.values()) else nullcontext():
            return readable_exceptions(session, freezes, now)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        logger.exception("exceptions cannot be read; none is applied")
        return ActiveExceptions(readable=False)


def readable_exceptions(session: Session, freezes: FreezesByBranch, now: datetime) -> ActiveExceptions:
    """Return the exceptions from these freezes that are active at `now`, for a caller that has read exceptions."""
    freeze_ids = {freeze.id for covering in freezes.values() for freeze in covering}
    found = select_active_exceptions(session, freeze_ids, list(freezes), now) if freeze_ids else ()
    rows: dict[tuple[str, int], list[ActiveException]] = defaultdict(list)
    for row in found:
        rows[row.branch_id, row.number].append(row)
    return ActiveExceptions(rows)


def planned_freezes(session: Session, branch_ids: Collection[str], now: datetime) -> FreezesByBranch:
    """Return the freezes that planned windows will start on each of the branches, by its id."""
    found = planned_windows(session, branch_ids, now) if branch_ids else {}
    distinct = {window.id: window for windows in found.values() for window in windows}
    freezes = {
        window.id: CoveringFreeze(window.id, "", window.starts_at, window.ends_at) for window in distinct.values()
    }
    return {branch_id: [freezes[window.id] for window in windows] for branch_id, windows in found.items()}


@dataclass(frozen=True, slots=True)
class PullRequestFacts:
    """What was read for a number of pull requests at once."""

    siblings: Mapping[tuple[str, str], Sequence[TrackedPullRequest]]
    """The open pull requests on each head, whatever their base."""
    freezes: FreezesByBranch
    exceptions: ActiveExceptions
    planned: FreezesByBranch
    """The freezes that planned windows will start on each branch."""
    checks: Mapping[tuple[str, str, str], HeadCheck]
    """By repository, head and name: the checks that are recorded as written."""
    closed: ClosedPatterns

    def others_on_head(self, row: TrackedPullRequest) -> list[TrackedPullRequest]:
        """Return the other open pull requests on the head of this one."""
        return [other for other in self.siblings.get(row.head, ()) if other.pull.id != row.pull.id]

    def others_let_in(self, row: TrackedPullRequest) -> list[TrackedPullRequest]:
        """Return the others on its head into the same branch: a success lets them in as well."""
        return [other for other in self.others_on_head(row) if other.branch.id == row.branch.id]

    def candidates(self, row: TrackedPullRequest) -> list[MergeCandidate]:
        """Return the pull requests that share the check of this one as merge candidates, this one first."""
        return [self._candidate(each) for each in (row, *self.others_let_in(row))]

    def pattern_verdict(self, row: TrackedPullRequest) -> Verdict | None:
        """Return the verdict for the check of the branch's pattern; None if it has no pattern."""
        pattern = row.branch.pattern_check_name
        if pattern is None:
            return None
        sharing = [other for other in self.others_on_head(row) if other.branch.pattern_check_name == pattern]
        candidates = [self._candidate(each) for each in (row, *sharing)]
        return judge_for_pattern(candidates, self.closed.get((row.branch.repository_id, pattern), {}))

    def blocking(
        self, row: TrackedPullRequest, verdict: Verdict, branch: BranchBlocking
    ) -> tuple[Blocking, HeadCheck | None]:
        """Return whether GitHub refuses a head that the deciding verdict forbids, and the recorded check that decides.

        That is the check whose success would let the head enter.
        """
        name = row.branch.pattern_check_name if verdict.unprotected else branch.decisive_check or row.branch.check_name
        check = self.check(row, str(name))
        return branch.of_head(standing=check is not None and check.may_let_in), check

    def _candidate(self, row: TrackedPullRequest) -> MergeCandidate:
        base = (row.branch.id, row.branch.name)
        candidate = self.exceptions.candidate(base, row.pull.number, row.pull.head_sha, self.freezes)
        return replace(candidate, planned=self.planned.get(row.branch.id, ()))

    def check(self, row: TrackedPullRequest, name: str) -> HeadCheck | None:
        """Return the check of this name that is recorded as written on the head."""
        return self.checks.get((*row.head, name))

    def check_state(self, row: TrackedPullRequest, name: str, verdict: Verdict) -> CheckState:
        """Return whether the check shows the verdict; on the head of a closed pull request nothing more is written.

        Where a `success` may have been written that is not recorded, a recorded `failure` is not known to be shown.
        """
        check = self.check(row, name)
        shown = check is not None and check.conclusion == verdict.conclusion
        if check is not None and (row.pull.state != "open" or (shown and not (check.unconfirmed and verdict.blocking))):
            return "written"
        error = row.branch.last_error_code
        return (
            "failed" if error is not None and row.branch.attempts > 0 and error not in RATE_LIMIT_CODES else "pending"
        )


def facts_of_locked(
    uow: UnitOfWork, row: TrackedPullRequest, on_head: Sequence[TrackedPullRequest], freezes: Sequence[CoveringFreeze]
) -> PullRequestFacts:
    """Return the facts of a pull request whose branch and freezes the caller has locked; planned windows are left out.

    `on_head` are the open pull requests on its head.
    """
    branch, pattern = row.branch, row.branch.pattern_check_name
    covering: FreezesByBranch = {branch.id: freezes}
    closed: ClosedPatterns = {}
    branch_ids = {branch.id, *(other.branch.id for other in on_head)}
    if pattern is not None or len(branch_ids) > 1:
        patterns = set() if pattern is None else {(branch.repository_id, pattern)}
        covering, closed = freezes_of(uow, branch_ids, patterns)
    exceptions = readable_exceptions(uow.session, covering, uow.now)
    return PullRequestFacts({row.head: on_head}, covering, exceptions, {}, _written_checks(uow, [row]), closed)


def read_facts(uow: UnitOfWork, rows: Sequence[TrackedPullRequest], *, planned: bool = True) -> PullRequestFacts:
    """Return the facts of pull requests: a few queries, however many there are.

    Without `planned`, the windows to come are left out: what is blocked now does not depend on them.
    """
    siblings = _siblings(uow, rows)
    branch_ids = {row.branch.id for row in rows} | {row.branch.id for group in siblings.values() for row in group}
    patterns = {(row.branch.repository_id, row.branch.pattern_check_name) for row in rows}
    freezes, closed = freezes_of(uow, branch_ids, {(of, name) for of, name in patterns if name is not None})
    exceptions = active_exceptions(uow.session, freezes, uow.now)
    coming = planned_freezes(uow.session, branch_ids, uow.now) if planned else {}
    return PullRequestFacts(siblings, freezes, exceptions, coming, _written_checks(uow, rows), closed)


def _siblings(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> dict[tuple[str, str], list[TrackedPullRequest]]:
    heads = {row.head for row in rows}
    query = (
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, is_base())
        .where(PullRequest.state == "open", tuple_(PullRequest.repository_id, PullRequest.head_sha).in_(heads))
        .order_by(PullRequest.number)
    )
    found: dict[tuple[str, str], list[TrackedPullRequest]] = {}
    for row in uow.session.execute(query) if heads else ():
        found.setdefault(TrackedPullRequest(*row).head, []).append(TrackedPullRequest(*row))
    return found


def _written_checks(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> dict[tuple[str, str, str], HeadCheck]:
    """Return what is recorded as written; a row without an evaluation only holds the intent to write."""
    wanted = {(*row.head, name) for row in rows for name in row.branch.check_names}
    key = tuple_(HeadCheck.repository_id, HeadCheck.head_sha, HeadCheck.check_name)
    recorded = select(HeadCheck).where(key.in_(wanted), HeadCheck.evaluation > 0)
    found = uow.session.scalars(recorded) if wanted else ()
    return {(check.repository_id, check.head_sha, check.check_name): check for check in found}
