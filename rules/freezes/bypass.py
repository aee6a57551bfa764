"""Classifies a push to a frozen branch: a bypass of the freeze, a delay of ours, or an error of ours.

The evidence is GitHub's own: when the commit was pushed, and which runs of our check its head had then. GitHub gives
these times in whole seconds, so events within one second have no order; such a tie is never counted as a bypass.

- What GitHub would have refused is `bypassed`: it needs the right to bypass the rule. That is a merge or a push of a
  commit whose newest run had been a `failure` since an earlier second, or that had none while a rule required one.
- Where no rule required the check, or the branch could be deleted and made again, it was not blocked, and nobody has
  bypassed anything: `unprotected`.
- A merge after a `success` that was completed while the freeze was already in force is our error, `enforcement_gap`.
- What exceptions let in is `excepted`, also if the commit was pushed instead of merged: a check belongs to a commit.
- Everything else came before the head was blocked: `landed_before_block`, with the delay.

A merge queue merges its own commit, so a run on that counts more than those on the head of the pull request.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

Kind = Literal["bypassed", "unprotected", "landed_before_block", "enforcement_gap", "excepted"]
MERGES = frozenset({"pr_merge", "merge_queue_merge"})
_ONE_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Push:
    """A push to a branch, also by a merge, as GitHub records it."""

    commit: str
    instant: datetime
    """By GitHub's clock, in whole seconds: the push happened within that second."""
    actor: str
    how: str
    """`pr_merge`, `merge_queue_merge`, `push`, `force_push` or `branch_creation` (of a branch that was deleted)."""
    pull_request: int | None = None
    head_sha: str | None = None
    """The head that was merged; None for a direct push, and if GitHub does not name the pull request."""


@dataclass(frozen=True, slots=True)
class Run:
    """A completed run of our check, by our App."""

    id: int
    sha: str
    conclusion: str
    completed_at: datetime
    """By GitHub's clock, in whole seconds."""


@dataclass(frozen=True, slots=True)
class FreezePeriod:
    """A freeze, and the time during which it covered the branch."""

    freeze_id: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class ExceptionPeriod:
    """A granted exception: which pull request could pass which freeze, and during which time."""

    id: str
    freeze_id: str
    number: int
    since: datetime
    until: datetime | None
    pinned_sha: str | None = None
    """The only head that it applied to; None: any."""
    head_sha: str | None = None
    """The head of its pull request, as it was last seen."""

    def applies_to(self, push: Push) -> bool:
        """Return True if it was for what was pushed, at whatever time: the pull request and head, or the commit."""
        if push.pull_request is None:
            return push.commit == (self.head_sha if self.pinned_sha is None else self.pinned_sha)
        return self.number == push.pull_request and self.pinned_sha in {None, push.head_sha}


@dataclass(frozen=True, slots=True)
class Classification:
    """The kind of a push, and the freezes that it concerns."""

    kind: Kind
    freezes: tuple[str, ...]
    delay: int | None = None
    """For `landed_before_block`: the seconds since the first of them began."""


def freezes_at(freezes: Collection[FreezePeriod], instant: datetime) -> list[FreezePeriod]:
    """Return the freezes in force at some time of that second, and still at its end."""
    return [
        freeze
        for freeze in freezes
        if freeze.since < instant + _ONE_SECOND and (freeze.until is None or instant + _ONE_SECOND <= freeze.until)
    ]


def exceptions_at(push: Push, exceptions: Collection[ExceptionPeriod]) -> list[ExceptionPeriod]:
    """Return the exceptions for the push that were active at some time of that second."""
    end = push.instant + _ONE_SECOND
    return [
        each
        for each in exceptions
        if each.applies_to(push) and each.since < end and (each.until is None or push.instant < each.until)
    ]


def reduce_by_ended_exceptions(
    push: Push, freezes: Collection[FreezePeriod], exceptions: Collection[ExceptionPeriod]
) -> Collection[FreezePeriod]:
    """Return the freezes as they applied to the push: from the end of an exception on, if one had ended before.

    Our check said `success` rightly until then and had to be changed: a push in between came before that.
    """
    ends: dict[str, datetime] = {}
    for each in exceptions:
        if each.applies_to(push) and each.until is not None and each.until <= push.instant:
            ends[each.freeze_id] = max(each.until, ends.get(each.freeze_id, each.until))
    return [replace(freeze, since=max(freeze.since, ends.get(freeze.freeze_id, freeze.since))) for freeze in freezes]


def classify(
    push: Push,
    runs: Sequence[Run],
    freezes: Collection[FreezePeriod],
    excepted: Collection[str] = frozenset(),
    *,
    required: bool | None = None,
    replaceable: bool = False,
) -> Classification | None:
    """Classify a push; return None if no freeze was in force.

    `runs` are those of the branch's check on the head, and on the commit itself. `excepted` are the freezes for which
    the pull request had a granted exception. `required`: whether a rule required the check at the time of the push;
    None: not known. `replaceable`: the branch could be deleted and made again.
    """
    covering = freezes_at(freezes, push.instant)
    blocking = [freeze for freeze in covering if freeze.freeze_id not in excepted]
    if not covering:
        return None
    if not blocking:
        return Classification("excepted", _ids(covering))
    since = min(freeze.since for freeze in blocking)
    kind = _kind(push, runs, since, required=required, replaceable=replaceable)
    delay = max(0, int((push.instant - since).total_seconds())) if kind == "landed_before_block" else None
    return Classification(kind, _ids(blocking), delay)


def _ids(freezes: Collection[FreezePeriod]) -> tuple[str, ...]:
    return tuple(freeze.freeze_id for freeze in sorted(freezes, key=lambda freeze: (freeze.since, freeze.freeze_id)))


def _kind(push: Push, runs: Sequence[Run], since: datetime, *, required: bool | None, replaceable: bool) -> Kind:
    unnamed = push.how in MERGES and push.head_sha is None  # without evidence it is no bypass
    if unnamed or push.instant < since:  # or the freeze began within this very second
        return "landed_before_block"
    if push.how == "branch_creation":
        return "unprotected" if replaceable else "bypassed"
    run = _decisive_run(push, runs)
    if run is not None and run.conclusion == "success":
        return "enforcement_gap" if run.completed_at >= since else "landed_before_block"
    if required is not None:
        return "bypassed" if required else "unprotected"
    of_this_freeze = run is not None and run.completed_at + _ONE_SECOND > since  # else it may be of an earlier freeze
    return "bypassed" if of_this_freeze or push.how not in MERGES else "landed_before_block"


def _decisive_run(push: Push, runs: Sequence[Run]) -> Run | None:
    """Return the run that counted at the time of the push; in doubt, the one that makes it no bypass."""
    known = [run for run in runs if _is_earlier(run, push.instant)]
    of_the_queue = [run for run in known if run.sha == push.commit]
    counted = of_the_queue if push.how == "merge_queue_merge" and of_the_queue else known
    return max(counted, key=lambda run: (run.completed_at, run.id), default=None)


def _is_earlier(run: Run, instant: datetime) -> bool:
    if run.conclusion == "success":
        return run.completed_at <= instant
    return run.completed_at < instant
