"""What other domains do with the findings of a pass: handed to the reconciler by the composition root."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from integrations.github import BranchHeads, GitHubError, InstallationClient
from services.core.unit_of_work import UnitOfWork

HeadsRead = Callable[[UnitOfWork, Sequence[tuple[str, BranchHeads]]], object]
TargetsWritten = Callable[[UnitOfWork, Collection[str]], object]
BranchesFailed = Callable[[UnitOfWork, Collection[str]], object]


class FurtherFacts(Protocol):
    """What was read besides heads."""

    @property
    def error(self) -> GitHubError | None:
        """Why something is unknown that another attempt may find."""


class HeadOfFacts(Protocol):
    """A head of which further facts have to be read."""

    @property
    def branch_id(self) -> str:
        """The branch that it could be merged into."""

    @property
    def urgency(self) -> int:
        """Place in the order of reading, smallest first."""


class FactsObserver(Protocol):
    """Another domain that verdicts follow from reads more of heads than a pass does."""

    def find(
        self, uow: UnitOfWork, heads: Sequence[tuple[str, BranchHeads]], read_back: Collection[str]
    ) -> Sequence[HeadOfFacts]:
        """Return the heads of branches, just mirrored, of which it has to read further facts.

        On the branches that are read back, what was read before is not to be trusted.
        """

    def read(self, client: InstallationClient, heads: Sequence[Any], before_call: Callable[[], object]) -> FurtherFacts:
        """Read them, outside any transaction. Raise GitHubError if that concerns the whole installation."""

    def lock(self, uow: UnitOfWork, facts: Any, check_ids: Collection[int]) -> None:
        """Lock what `apply` depends on, and these checks."""

    def apply(self, uow: UnitOfWork, facts: Any, branch_ids: Collection[str]) -> Collection[str]:
        """Change what follows from the facts, on these branches only; return those with a change."""


@dataclass(frozen=True, slots=True)
class PassObservers:
    """The functions that a pass calls, in their order."""

    heads_read: Sequence[HeadsRead] = ()
    """Given the ids of branches and what GitHub shows of them, in the transaction that has just mirrored it."""
    facts: FactsObserver | None = None
    targets_written: Sequence[TargetsWritten] = ()
    """Given the ids of freezes that may be enforced or released on all branches now, in a transaction of its own."""
    branches_failed: Sequence[BranchesFailed] = ()
    """Given the ids of branches whose checks could not be written, in a transaction of its own."""
    installation_inactive: Sequence[Callable[[int], object]] = ()
    """Given the id of an installation that GitHub does not know any more, or has suspended, outside any transaction."""
