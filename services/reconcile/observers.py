"""What other domains do with the findings of a pass: handed to the reconciler by the composition root."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from integrations.github import BranchHeads
from services.core.unit_of_work import UnitOfWork

HeadsRead = Callable[[UnitOfWork, Sequence[tuple[str, BranchHeads]]], object]
TargetsWritten = Callable[[UnitOfWork, Collection[str]], object]
BranchesFailed = Callable[[UnitOfWork, Collection[str]], object]


@dataclass(frozen=True, slots=True)
class PassObservers:
    """The functions that a pass calls, in their order."""

    heads_read: Sequence[HeadsRead] = ()
    """Given the ids of branches and what GitHub shows of them, in the transaction that has just mirrored it."""
    targets_written: Sequence[TargetsWritten] = ()
    """Given the ids of freezes that may be enforced or released on all branches now, in a transaction of its own."""
    branches_failed: Sequence[BranchesFailed] = ()
    """Given the ids of branches whose checks could not be written, in a transaction of its own."""
    installation_inactive: Sequence[Callable[[int], object]] = ()
    """Given the id of an installation that GitHub does not know any more, or has suspended, outside any transaction."""
