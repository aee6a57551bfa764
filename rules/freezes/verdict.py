"""The verdict: may a head be merged now, and if not, because of which freezes.

Everything that answers this question calls this module on the same facts: the reconciler, `GET /v1/freeze-state`, and
the pull request pages. It sees one instant; it has no clock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Conclusion = Literal["success", "failure"]


@dataclass(frozen=True, slots=True)
class CoveringFreeze:
    """A freeze in force that covers a branch."""

    id: str
    reason: str
    started_at: datetime
    ends_at: datetime | None
    exceptions_allowed: bool = True


@dataclass(frozen=True, slots=True)
class Grant:
    """A granted exception: which pull request may pass which freeze, who granted that, and until when."""

    freeze_id: str
    number: int
    granted_by: str
    expires_at: datetime | None
    """None: as long as the freeze lasts."""


@dataclass(frozen=True, slots=True)
class MergeCandidate:
    """One way in which a head could reach a branch: a pull request, or a place in the merge queue.

    `excepted` are the freezes for which every pull request concerned has a granted exception; `grants` are all of their
    exceptions, to be told of. A queue entry whose members are not known has `members_known=False`: any freeze then
    blocks it.
    """

    branch: str
    number: int | None
    freezes: Sequence[CoveringFreeze]
    excepted: frozenset[str] = frozenset()
    members_known: bool = True
    grants: Sequence[Grant] = ()

    def blocking(self) -> list[CoveringFreeze]:
        """Return the freezes that forbid this way."""
        if not self.members_known:
            return list(self.freezes)
        return [freeze for freeze in self.freezes if freeze.id not in self.excepted]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the check of a head must say: allowed only if every way the head could take is allowed."""

    blocking: tuple[CoveringFreeze, ...]
    branches: tuple[str, ...]
    """The bases that are blocked; a head shared by pull requests can have several under one check name."""
    excepted: tuple[CoveringFreeze, ...] = ()
    """The freezes that cover a base of the head, and that an exception lets a pull request pass."""
    grants: tuple[Grant, ...] = ()
    """Those exceptions; while anything blocks, they are not enough."""

    @property
    def conclusion(self) -> Conclusion:
        """The check run's conclusion."""
        return "failure" if self.blocking else "success"

    @property
    def exceptions_allowed(self) -> bool:
        """Whether everything that blocks can be passed by an exception."""
        return all(freeze.exceptions_allowed for freeze in self.blocking)


def judge(claims: Iterable[MergeCandidate]) -> Verdict:
    """Return the verdict of a head that the given claims share under one check name.

    The order of the claims does not matter: the same facts give the same verdict, and the check the same words.
    """
    blocking: dict[str, CoveringFreeze] = {}
    excepted: dict[str, CoveringFreeze] = {}
    branches: set[str] = set()
    grants: set[Grant] = set()
    for claim in claims:
        for freeze in claim.blocking():
            blocking[freeze.id] = freeze
            branches.add(claim.branch)
        grants.update(claim.grants)
        granted = {grant.freeze_id for grant in claim.grants}
        excepted |= {freeze.id: freeze for freeze in claim.freezes if freeze.id in granted}
    return Verdict(
        _oldest_first(blocking.values()), tuple(sorted(branches)), _oldest_first(excepted.values()), _in_order(grants)
    )


def _oldest_first(freezes: Iterable[CoveringFreeze]) -> tuple[CoveringFreeze, ...]:
    return tuple(sorted(freezes, key=lambda freeze: (freeze.started_at, freeze.id)))


def _in_order(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    return tuple(sorted(grants, key=lambda grant: (grant.number, grant.freeze_id, grant.granted_by)))
