"""Whether the frozen branches of a repository need a stop: what makes it necessary, and what it may cover.

A freeze is complete when the last open head has its failing check; until then an old `success` lets heads in. A *stop*
closes this window: a context that no head has is required of all frozen branches of the repository, until no `success`
stands there any more.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from rules.freezes.blocking import BlockingFacts


@dataclass(frozen=True, slots=True)
class FrozenBranch:
    """A branch that a freeze in force covers."""

    id: str
    name: str
    facts: BlockingFacts
    frozen_at: datetime
    """When the newest freeze of it started."""
    stop: str | None
    """The context of the stop that was seen in force on it."""
    read_at: datetime | None = None
    """When its rules were last read."""
    reported_at: datetime | None = None
    """When GitHub last reported that they may have changed."""


def needs_stop(branches: Collection[FrozenBranch], *, is_on: bool, refused_at: datetime | None) -> bool:
    """Return whether a repository with these frozen branches needs a stop.

    A stop begins only where a rule in force requires our check, so that nothing opens when it ends; one that is on goes
    on while any `success` stands. After people have ended a stop, only freezes that started later begin another.
    """
    standing = [each for each in branches if each.facts.standing and not (each.facts.removed or each.facts.archived)]
    if is_on:
        return bool(standing)
    return any(
        each.facts.required and each.facts.reading == "current" and (refused_at is None or each.frozen_at > refused_at)
        for each in standing
    )
