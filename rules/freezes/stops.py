"""Whether the frozen branches of a repository need a stop: what makes it necessary, and what it may cover.

A freeze is complete when the last open head has its failing check; until then an old `success` lets heads in. A *stop*
closes this window: a context that no head has is required of all frozen branches of the repository, until no `success`
stands there any more.

Where the same branches are frozen in many repositories, one ruleset of their organisation may have the stop of all.
It names the product of branches and repositories.
"""

from collections import Counter
from collections.abc import Collection, Mapping
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
    repository_id: str = ""


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


Names = frozenset[str]
"""Names of branches."""


def shared_stops(frozen: Mapping[str, Names], above: int) -> list[tuple[Names, list[str]]]:
    """Return, of repositories that need a stop, more than `above` each in which the same branches are frozen.

    The largest first, each with these branches.
    """
    found: dict[Names, list[str]] = {}
    for repository_id, names in sorted(frozen.items()):
        found.setdefault(names, []).append(repository_id)
    many = [(names, ids) for names, ids in found.items() if names and len(ids) > above]
    return sorted(many, key=lambda each: (-len(each[1]), sorted(each[0])))


def covered_by(frozen: Mapping[str, Names], names: Names) -> tuple[Names, list[str]]:
    """Return the branches that a ruleset of an organisation names, and the repositories in which it names them.

    `names` are those that it named, or that it is meant for: where some are frozen no more, what is still frozen in the
    most of its repositories stays. Repositories in which not all of these are frozen are left out.
    """
    counts = Counter(shared for each in frozen.values() if (shared := each & names))
    if not counts:
        return frozenset(), []
    most = max(counts, key=lambda each: (counts[each], len(each), sorted(each)))
    return most, sorted(repository_id for repository_id, each in frozen.items() if most <= each)
