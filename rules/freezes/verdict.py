"""The verdict: whether a head may be merged now, and if not, because of which freezes.

Everything that answers this question calls this module with the same facts: the reconciler, `GET /v1/freeze-state`, and
the pull request pages. It evaluates one instant; it has no clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter
from typing import Literal

from rules.time.planned_windows import PlannedWindow

Conclusion = Literal["success", "failure"]
_ALWAYS = datetime.min.replace(tzinfo=UTC)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CoveringFreeze:
    """A freeze in force that covers a branch."""

    id: str
    reason: str
    started_at: datetime
    ends_at: datetime | None
    exceptions_allowed: bool = True
    begun: bool = True
    """False of a window that is due and that no process has begun."""
    public_text: str | None = None
    """What everybody may read of it, where its reason is not for everybody."""
    started_by: str = ""
    """The name that people are shown of who started it."""


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
    """A merge path of a head with its freezes and exceptions: a pull request, or an entry of the merge queue.

    `excepted` are the freezes for which every pull request concerned has a granted exception; `grants` are all of their
    exceptions, for the text of the check. A queue entry whose members are not known has `members_known=False`: then any
    freeze blocks it.
    """

    branch: str
    number: int | None
    freezes: Sequence[CoveringFreeze]
    excepted: frozenset[str] = frozenset()
    members_known: bool = True
    grants: Sequence[Grant] = ()
    planned: Sequence[PlannedWindow] = ()
    """The planned windows that will freeze its branch, earliest first."""

    def blocked_spans(self) -> Iterator[tuple[datetime, datetime]]:
        """Yield, by their starts, from when until when freezes block the candidate, if nothing unplanned happens.

        A freeze in force blocks from `datetime.min` on, and one without an end until `datetime.max`. One that is
        excepted blocks once a pull request has no exception any more.
        """
        expiries: dict[tuple[str, int], datetime] = {}
        for grant in self.grants:
            key = grant.freeze_id, grant.number
            expiries[key] = max(expiries.get(key, _ALWAYS), grant.expires_at or _NEVER)
        first_expiries: dict[str, datetime] = {}
        for (freeze_id, _), expires_at in expiries.items():
            first_expiries[freeze_id] = min(first_expiries.get(freeze_id, _NEVER), expires_at)
        in_force = []
        for freeze in self.freezes:
            is_excepted = self.members_known and freeze.id in self.excepted
            begin = first_expiries.get(freeze.id, _NEVER) if is_excepted else _ALWAYS
            end = freeze.ends_at or _NEVER
            if begin < end:
                in_force.append((begin, end))
        to_come = ((window.starts_at, window.ends_at) for window in self.planned)
        yield from merge(sorted(in_force), to_come, key=itemgetter(0))

    def blocking(self) -> list[CoveringFreeze]:
        """Return the freezes that block this candidate."""
        if not self.members_known:
            return list(self.freezes)
        return [freeze for freeze in self.freezes if freeze.id not in self.excepted]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of a head must say."""

    blocking: tuple[CoveringFreeze, ...]
    branches: tuple[str, ...]
    """The bases that are blocked; a head shared by pull requests can have several under one check name."""
    excepted: tuple[CoveringFreeze, ...] = ()
    """The freezes that cover a base of the head, and for which a pull request has an exception."""
    grants: tuple[Grant, ...] = ()
    """Those exceptions; if anything blocks, they are not sufficient."""
    unprotected: tuple[str, ...] = ()
    """The frozen branches for whose sake the check of a pattern blocks: no rule of their own protects them."""
    changes_at: datetime | None = None
    """When the conclusion changes without a person, as far as is planned; None if that depends on people."""

    @property
    def conclusion(self) -> Conclusion:
        """The check run's conclusion."""
        return "failure" if self.blocking else "success"

    @property
    def exceptions_allowed(self) -> bool:
        """Whether all blocking freezes allow exceptions."""
        return all(freeze.exceptions_allowed for freeze in self.blocking)


def judge(candidates: Iterable[MergeCandidate]) -> Verdict:
    """Return the verdict of a head whose merge candidates these are: allowed only if every candidate is allowed.

    The order of the candidates does not matter: the same facts give the same verdict and the same text.
    """
    candidates = list(candidates)
    blocking: dict[str, CoveringFreeze] = {}
    excepted: dict[str, CoveringFreeze] = {}
    branches: set[str] = set()
    grants: set[Grant] = set()
    for candidate in candidates:
        for freeze in candidate.blocking():
            blocking[freeze.id] = freeze
            branches.add(candidate.branch)
        grants.update(candidate.grants)
        granted = {grant.freeze_id for grant in candidate.grants}
        excepted |= {freeze.id: freeze for freeze in candidate.freezes if freeze.id in granted}
    return Verdict(
        _oldest_first(blocking.values()),
        tuple(sorted(branches)),
        _oldest_first(excepted.values()),
        _in_order(grants),
        changes_at=_next_change(candidates),
    )


def _next_change(candidates: Iterable[MergeCandidate]) -> datetime | None:
    """Return when the conclusion changes next; None if it does not, or no end is known.

    Windows that begin after that are not looked at: there may be hundreds for each candidate.
    """
    until, allowed = _ALWAYS, True
    for begin, end in merge(*(candidate.blocked_spans() for candidate in candidates), key=itemgetter(0)):
        if begin == _ALWAYS:
            allowed = False
        elif allowed:
            return begin
        elif begin > until:
            break
        until = max(until, end)
        if until == _NEVER:
            return None
    return None if allowed else until


def judge_for_pattern(
    candidates: Iterable[MergeCandidate], unprotected: Mapping[str, Sequence[CoveringFreeze]]
) -> Verdict:
    """Return the verdict that the check of a pattern must show on a head with these merge candidates.

    All branches of the pattern require that check, and most of them their own one as well, which says whether the head
    may enter. So it is enough that the head may enter one of them. But it may enter no frozen branch that has no rule
    of its own: those are `unprotected`, by name, with the freezes that cover them.
    """
    candidates = list(candidates)
    allowed = [candidate for candidate in candidates if not candidate.blocking()]
    entered = {candidate.branch for candidate in allowed} - {
        candidate.branch for candidate in candidates if candidate.blocking()
    }
    closed = {name: freezes for name, freezes in unprotected.items() if freezes and name not in entered}
    if closed:
        blocking = {freeze.id: freeze for freezes in closed.values() for freeze in freezes}
        names = tuple(sorted(closed))
        end = _end_of_all(blocking.values())
        return Verdict(_oldest_first(blocking.values()), names, unprotected=names, changes_at=end)
    return judge(allowed or candidates)


def deciding(verdict: Verdict, of_pattern: Verdict | None) -> Verdict:
    """Return which verdict decides on a pull request: that of its branch's pattern where only that forbids it."""
    return of_pattern if of_pattern is not None and of_pattern.blocking and not verdict.blocking else verdict


def _end_of_all(freezes: Iterable[CoveringFreeze]) -> datetime | None:
    """Return when the last of the freezes ends; None if one has no end."""
    ends = [freeze.ends_at for freeze in freezes]
    return None if None in ends else max(end for end in ends if end is not None)


def _oldest_first(freezes: Iterable[CoveringFreeze]) -> tuple[CoveringFreeze, ...]:
    return tuple(sorted(freezes, key=lambda freeze: (freeze.started_at, freeze.id)))


def _in_order(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    return tuple(sorted(grants, key=lambda grant: (grant.number, grant.freeze_id, grant.granted_by)))
