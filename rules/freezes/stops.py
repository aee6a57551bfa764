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


def stoppable(branches: Collection[FrozenBranch], refused_at: datetime | None) -> tuple[FrozenBranch, ...]:
    """Return those of a repository's frozen branches that may be stopped.

    After people have ended a stop, a branch is stopped again only for a freeze of it that started later.
    """
    return tuple(each for each in branches if refused_at is None or each.frozen_at > refused_at)


def needs_stop(branches: Collection[FrozenBranch], *, is_on: bool) -> bool:
    """Return whether a repository needs a stop, of whose frozen branches these may be stopped.

    A stop begins only where a rule in force requires our check, so that nothing opens when it ends; one that is on goes
    on while any `success` stands.
    """
    standing = [each.facts for each in branches if _stands(each)]
    return any(is_on or (facts.required and facts.reading == "current") for facts in standing)


def _stands(branch: FrozenBranch) -> bool:
    return branch.facts.standing and not (branch.facts.removed or branch.facts.archived)


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


def opened_by(branches: Collection[FrozenBranch], names: Names, kept: Names) -> bool:
    """Return whether something could merge into these branches of a repository, were its organisation's stop changed.

    The stop names `names` there, and would name those that are `kept`.
    """
    return any(each.name in names - kept and _stands(each) for each in branches)
