"""The facts that verdicts follow from: the freezes of branches, active exceptions, closed patterns.

The reconciler decides from them what to write; everything that shows a verdict reads the same ones. Exceptions that
cannot be read allow nothing: freezes go on blocking, and the check says why.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from models.queries import ActiveException, covering_freezes, select_active_exceptions, unprotected_branches
from rules.freezes.verdict import CoveringFreeze, Grant, MergeCandidate
from services.core.savepoints import in_savepoint
from services.core.unit_of_work import UnitOfWork

UNREADABLE = "exceptions cannot be read; none is applied"
"""What is logged then."""

FreezesByBranch = Mapping[str, Sequence[CoveringFreeze]]
"""The freezes in force that cover each branch."""
ClosedPatterns = Mapping[tuple[str, str], FreezesByBranch]
"""By repository id and name of a pattern's check: the names of frozen branches without a rule of their own, and why."""


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
    if not any(freezes.values()):
        return ActiveExceptions()
    return in_savepoint(
        session,
        lambda: readable_exceptions(session, freezes, now),
        otherwise=lambda: ActiveExceptions(readable=False),
        failure=UNREADABLE,
    )


def readable_exceptions(session: Session, freezes: FreezesByBranch, now: datetime) -> ActiveExceptions:
    """Return the exceptions from these freezes that are active at `now`, for a caller that has read exceptions."""
    freeze_ids = {freeze.id for covering in freezes.values() for freeze in covering}
    found = select_active_exceptions(session, freeze_ids, list(freezes), now) if freeze_ids else ()
    rows: dict[tuple[str, int], list[ActiveException]] = defaultdict(list)
    for row in found:
        rows[row.branch_id, row.number].append(row)
    return ActiveExceptions(rows)
