"""What is to be thought of a commit that landed on a frozen branch: a bypass, our own delay, or our own mistake.

The evidence is the code host's own: when the commit landed, and which runs of our check its head showed then. GitHub
tells these times in whole seconds, so what happened within one second has no order; such a tie accuses nobody.

- A direct or forced push goes around the check, so it is `bypassed`.
- A merge is `bypassed` if the head's newest run had been a `failure` since an earlier second, or if there was no run at
  all and a rule required one: nobody gets past that without being let past the rule.
- A merge after a `success` that was completed while the freeze was already in force is our mistake, `enforcement_gap`.
- Every other one came before we had blocked the head: `landed_before_block`, with the delay.

A queue merges its own commit, so a run on that one counts more than those on the head of the pull request.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

Kind = Literal["bypassed", "landed_before_block", "enforcement_gap", "excepted"]
MERGES = frozenset({"pr_merge", "merge_queue_merge"})
_ONE_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Landing:
    """A commit that arrived on a branch, as the code host tells it."""

    commit: str
    instant: datetime
    """The code host's clock, in whole seconds: it landed somewhere within that second."""
    actor: str
    how: str
    """`pr_merge`, `merge_queue_merge`, `push`, `force_push` or `branch_creation` (of a branch that was deleted)."""
    pull_request: int | None = None
    head_sha: str | None = None
    """The head that was merged; None for a push, and where the code host does not name the pull request."""


@dataclass(frozen=True, slots=True)
class Run:
    """A completed run of our check, by our App."""

    id: int
    sha: str
    conclusion: str
    completed_at: datetime
    """The code host's clock, in whole seconds."""


@dataclass(frozen=True, slots=True)
class Cover:
    """A freeze, from when until when it covered the branch."""

    freeze_id: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Exemption:
    """A granted exception: which pull request could pass which freeze, from when until when."""

    id: str
    freeze_id: str
    number: int
    since: datetime
    until: datetime | None
    pinned_sha: str | None = None
    """The only head that it was for; None: any."""

    def is_of(self, landing: "Landing") -> bool:
        """Tell whether it was for what landed, whenever."""
        return self.number == landing.pull_request and self.pinned_sha in {None, landing.head_sha}


@dataclass(frozen=True, slots=True)
class Classified:
    """The judgement, and the freezes that it is about."""

    kind: Kind
    freezes: tuple[str, ...]
    delay: int | None = None
    """For `landed_before_block`: the seconds since the first of them began."""


def covers(freezes: Collection[Cover], instant: datetime) -> list[Cover]:
    """Return the freezes in force at some time of that second, and still at its end."""
    return [
        freeze
        for freeze in freezes
        if freeze.since < instant + _ONE_SECOND and (freeze.until is None or instant + _ONE_SECOND <= freeze.until)
    ]


def held(landing: Landing, exemptions: Collection[Exemption]) -> list[Exemption]:
    """Return the exceptions of what landed that held at some time of that second."""
    end = landing.instant + _ONE_SECOND
    return [
        each
        for each in exemptions
        if each.is_of(landing) and each.since < end and (each.until is None or landing.instant < each.until)
    ]


def without_exemptions(
    landing: Landing, freezes: Collection[Cover], exemptions: Collection[Exemption]
) -> Collection[Cover]:
    """Return the freezes as they stood against what landed: one whose exception had ended began anew with that end.

    Our check said `success` rightly until then, and had to be turned: what got in meanwhile came before that.
    """
    ends: dict[str, datetime] = {}
    for each in exemptions:
        if each.is_of(landing) and each.until is not None and each.until <= landing.instant:
            ends[each.freeze_id] = max(each.until, ends.get(each.freeze_id, each.until))
    return [replace(freeze, since=max(freeze.since, ends.get(freeze.freeze_id, freeze.since))) for freeze in freezes]


def classify(
    landing: Landing,
    runs: Sequence[Run],
    freezes: Collection[Cover],
    excepted: Collection[str] = frozenset(),
    *,
    required: bool = False,
) -> Classified | None:
    """Judge a landing; None if no freeze was in force.

    `runs` are those of the branch's check on the head, and on the commit itself. `excepted` are the freezes for which
    the pull request had a granted exception. `required`: a rule required the check when the commit landed.
    """
    covering = covers(freezes, landing.instant)
    blocking = [freeze for freeze in covering if freeze.freeze_id not in excepted]
    if not covering:
        return None
    if not blocking:
        return Classified("excepted", _ids(covering))
    since = min(freeze.since for freeze in blocking)
    kind = _kind(landing, runs, since, required=required)
    delay = max(0, int((landing.instant - since).total_seconds())) if kind == "landed_before_block" else None
    return Classified(kind, _ids(blocking), delay)


def _ids(freezes: Collection[Cover]) -> tuple[str, ...]:
    return tuple(freeze.freeze_id for freeze in sorted(freezes, key=lambda freeze: (freeze.since, freeze.freeze_id)))


def _kind(landing: Landing, runs: Sequence[Run], since: datetime, *, required: bool) -> Kind:
    if landing.instant < since:  # the freeze began within this very second
        return "landed_before_block"
    if landing.how not in MERGES:
        return "bypassed"
    if landing.head_sha is None:  # whoever cannot be heard is not accused
        return "landed_before_block"
    shown = _shown(landing, runs)
    if shown is None:
        return "bypassed" if required else "landed_before_block"
    if shown.conclusion == "success":
        return "enforcement_gap" if shown.completed_at >= since else "landed_before_block"
    told = shown.completed_at + _ONE_SECOND > since  # else it tells of an earlier freeze, and may have been let stand
    return "bypassed" if required or told else "landed_before_block"


def _shown(landing: Landing, runs: Sequence[Run]) -> Run | None:
    """Return the run that counted when it landed: of two that may have, the one that accuses nobody."""
    known = [run for run in runs if _came_first(run, landing.instant)]
    of_the_queue = [run for run in known if run.sha == landing.commit]
    counted = of_the_queue if landing.how == "merge_queue_merge" and of_the_queue else known
    return max(counted, key=lambda run: (run.completed_at, run.id), default=None)


def _came_first(run: Run, instant: datetime) -> bool:
    if run.conclusion == "success":
        return run.completed_at <= instant
    return run.completed_at < instant
