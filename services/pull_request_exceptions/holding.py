"""What exceptions allow: the claims that verdicts are made of, for the reconciler and for pull requests alike.

It fails closed. Exceptions that cannot be read allow nothing: freezes go on blocking, and whoever asks is told.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from models.exception_queries import Standing, standing_against
from rules.freezes.verdict import CoveringFreeze, Grant, MergeCandidate

logger = logging.getLogger(__name__)

Covering = Mapping[str, Sequence[CoveringFreeze]]
"""The freezes in force that cover each branch."""


@dataclass(frozen=True, slots=True)
class Held:
    """The exceptions that hold now, by branch and number of the pull request."""

    rows: Mapping[tuple[str, int], Sequence[Standing]] = field(default_factory=dict)
    readable: bool = True
    """False: nobody knows whether there are any."""

    def of_pull(self, branch_id: str, number: int, sha: str) -> list[Standing]:
        """Return those of one pull request into a branch that hold for this commit of it."""
        return [row for row in self.rows.get((branch_id, number), ()) if row.holds_for(sha)]

    def claim(self, base: tuple[str, str], number: int, sha: str, freezes: Covering) -> MergeCandidate:
        """Return the claim of a pull request whose head is `sha`; `base` is id and name of its branch."""
        return _claim(base, freezes, {number: self.of_pull(base[0], number, sha)}, number)

    def claim_of_group(self, base: tuple[str, str], numbers: Sequence[int] | None, freezes: Covering) -> MergeCandidate:
        """Return the claim of a place in the merge queue: all of its members land with it; None: they are not known.

        A group has a commit of its own, so pins are compared with the heads of its members as they were last seen.
        """
        branch_id, name = base
        if not numbers:
            return MergeCandidate(name, None, freezes.get(branch_id, ()), members_known=False)
        held = {
            number: [row for row in self.rows.get((branch_id, number), ()) if row.holds_for(row.head_sha)]
            for number in numbers
        }
        return _claim(base, freezes, held, numbers[-1])


def held_exceptions(session: Session, freezes: Covering, now: datetime) -> Held:
    """Return the exceptions from these freezes that hold at `now`; none where they cannot be read."""
    ids = {freeze.id for covering in freezes.values() for freeze in covering}
    if not ids:
        return Held()
    try:
        with session.begin_nested():
            found = standing_against(session, ids, list(freezes), now)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        logger.exception("exceptions cannot be read, and allow nothing until they can")
        return Held(readable=False)
    rows: dict[tuple[str, int], list[Standing]] = defaultdict(list)
    for row in found:
        rows[row.branch_id, row.number].append(row)
    return Held(rows)


def _claim(
    base: tuple[str, str], freezes: Covering, held: Mapping[int, Sequence[Standing]], number: int | None
) -> MergeCandidate:
    branch_id, name = base
    covering = freezes.get(branch_id, ())
    passed = [{row.freeze_id for row in rows} for rows in held.values()]
    grants = tuple(
        Grant(row.freeze_id, row.number, row.granted_by, row.expires_at) for rows in held.values() for row in rows
    )
    return MergeCandidate(name, number, covering, frozenset(set.intersection(*passed)), grants=grants)
