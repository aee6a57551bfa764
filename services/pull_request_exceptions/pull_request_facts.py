"""The facts of pull requests: verdicts, the checks that are recorded as written, and who shares their heads.

What is shown of a pull request is decided as the reconciler decides it (`services/verdicts/facts.py`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from sqlalchemy import select, tuple_

from models.checks import Check
from models.pull_requests import HeadCheck, PullRequest
from models.repositories import Repository, WatchedBranch
from models.schedule_queries import planned_windows
from rules.freezes.blocking import Blocking
from rules.freezes.verdict import CoveringFreeze, MergeCandidate, Verdict, deciding, judge, judge_for_pattern
from rules.time.planned_windows import PlannedWindow
from services.core.unit_of_work import UnitOfWork
from services.github_access.failures import RATE_LIMIT_CODES
from services.repositories.tracked_pull_requests import TrackedPullRequest, is_base
from services.verdicts.blocking import BranchBlocking
from services.verdicts.facts import (
    ActiveExceptions,
    ClosedPatterns,
    FreezesByBranch,
    active_exceptions,
    freezes_of,
    readable_exceptions,
)

CheckState = Literal["written", "failed", "pending"]


@dataclass(frozen=True, slots=True)
class PullRequestFacts:
    """What was read for a number of pull requests at once."""

    siblings: Mapping[tuple[str, str], Sequence[TrackedPullRequest]]
    """The open pull requests on each head, whatever their base."""
    freezes: FreezesByBranch
    exceptions: ActiveExceptions
    planned: Mapping[str, Sequence[PlannedWindow]]
    """The planned windows of each branch."""
    checks: Mapping[tuple[str, str, str], HeadCheck]
    """By repository, head and name: the checks that are recorded as written."""
    closed: ClosedPatterns
    failing: Collection[tuple[str, str]]
    """Repository and name of the checks that could not be written when that was last tried."""

    def others_on_head(self, row: TrackedPullRequest) -> list[TrackedPullRequest]:
        """Return the other open pull requests on the head of this one."""
        return [other for other in self.siblings.get(row.head, ()) if other.pull.id != row.pull.id]

    def others_let_in(self, row: TrackedPullRequest) -> list[TrackedPullRequest]:
        """Return the others on its head into the same branch: a success lets them in as well."""
        return [other for other in self.others_on_head(row) if other.branch.id == row.branch.id]

    def others_under_pattern(self, row: TrackedPullRequest) -> list[TrackedPullRequest]:
        """Return the others on its head that share the check of its branch's pattern."""
        pattern = row.branch.pattern_check_name
        return [other for other in self.others_on_head(row) if other.branch.pattern_check_name == pattern]

    def candidates(self, row: TrackedPullRequest) -> list[MergeCandidate]:
        """Return the pull requests that share the check of this one as merge candidates, this one first."""
        return [self._candidate(each) for each in (row, *self.others_let_in(row))]

    def pattern_verdict(self, row: TrackedPullRequest) -> Verdict | None:
        """Return the verdict for the check of the branch's pattern; None if it has no pattern."""
        pattern = row.branch.pattern_check_name
        if pattern is None:
            return None
        candidates = [self._candidate(each) for each in (row, *self.others_under_pattern(row))]
        return judge_for_pattern(candidates, self.closed.get((row.branch.repository_id, pattern), {}))

    def deciding_verdict(self, row: TrackedPullRequest) -> Verdict:
        """Return the verdict that decides whether it may be merged: of its own check, or of its pattern's."""
        return deciding(judge(self.candidates(row)), self.pattern_verdict(row))

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
        return "failed" if (row.branch.repository_id, name) in self.failing else "pending"


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
    checks = _written_checks(uow, [row])
    return PullRequestFacts({row.head: on_head}, covering, exceptions, {}, checks, closed, failing=())


def read_facts(uow: UnitOfWork, rows: Sequence[TrackedPullRequest], *, planned: bool = True) -> PullRequestFacts:
    """Return the facts of pull requests: a few queries, however many there are.

    Without `planned`, the windows to come are left out: what is blocked now does not depend on them.
    """
    facts = read_verdict_facts(uow, rows)
    coming = planned_windows(uow.session, _branch_ids(rows, facts.siblings), uow.now) if planned else {}
    return replace(facts, planned=coming, checks=_written_checks(uow, rows), failing=_failing(uow, rows))


def read_verdict_facts(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> PullRequestFacts:
    """Return of the facts of pull requests only what decides whether they may be merged now."""
    siblings = _siblings(uow, rows)
    branch_ids = _branch_ids(rows, siblings)
    patterns = {(row.branch.repository_id, row.branch.pattern_check_name) for row in rows}
    freezes, closed = freezes_of(uow, branch_ids, {(of, name) for of, name in patterns if name is not None})
    exceptions = active_exceptions(uow.session, freezes, uow.now)
    return PullRequestFacts(siblings, freezes, exceptions, {}, {}, closed, failing=())


def _branch_ids(
    rows: Sequence[TrackedPullRequest], siblings: Mapping[tuple[str, str], Sequence[TrackedPullRequest]]
) -> set[str]:
    """Return the ids of the branches that pull requests and the others on their heads go into."""
    return {row.branch.id for row in chain(rows, *siblings.values())}


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


def _failing(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> set[tuple[str, str]]:
    wanted = {(row.branch.repository_id, name) for row in rows for name in row.branch.check_names}
    query = select(Check.repository_id, Check.name).where(
        tuple_(Check.repository_id, Check.name).in_(wanted),
        Check.attempts > 0,
        Check.last_error_code.not_in(RATE_LIMIT_CODES),
    )
    return {(repository, name) for repository, name in uow.session.execute(query)} if wanted else set()


def _written_checks(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> dict[tuple[str, str, str], HeadCheck]:
    """Return what is recorded as written; a row without an evaluation only holds the intent to write."""
    wanted = {(*row.head, name) for row in rows for name in row.branch.check_names}
    key = tuple_(HeadCheck.repository_id, HeadCheck.head_sha, HeadCheck.check_name)
    recorded = select(HeadCheck).where(key.in_(wanted), HeadCheck.evaluation > 0)
    found = uow.session.scalars(recorded) if wanted else ()
    return {(check.repository_id, check.head_sha, check.check_name): check for check in found}
