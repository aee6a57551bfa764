"""Which rulesets repositories need: one for each check name, at the level where it takes the fewest of them.

GitHub allows 75 rulesets in a repository and 75 in an organisation. The branches of a pattern come and go, so that
their own rules are the repository's, also where repositories have branches of the same name: only patterns, and
branches without one, can be required by rulesets of the organisation. A branch whose ruleset GitHub refuses stays
protected by its pattern's.
https://docs.github.com/en/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets/about-rulesets
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from rules.freezes.check_names import PREFIX, is_pattern_check, watched_automatically
from rules.freezes.globs import compile_globs
from rules.rulesets.rulesets import desired_ruleset, excluded_patterns, pattern_of

Level = Literal["repository", "organization"]
MIN_SHARING_REPOSITORIES = 2
"""From this number of repositories on, a ruleset of the organisation is written."""


@dataclass(frozen=True, slots=True)
class KnownBranch:
    """A branch that is watched or was."""

    branch_id: str
    name: str
    check_name: str
    in_scope: bool
    """Whether it is watched and the scope includes it."""
    pattern_check_name: str | None = None
    watched: bool = True
    deleted: bool = False
    """Whether it existed at GitHub, and did not any more when its rules were last read."""

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of the checks that are written on its heads."""
        return (self.check_name,) if self.pattern_check_name is None else (self.check_name, self.pattern_check_name)


@dataclass(frozen=True, slots=True)
class KnownRepository:
    """A repository that the scope includes, with every branch that we know."""

    repository_id: str
    github_id: int
    owner: str
    name: str
    archived: bool
    auto_watch: tuple[str, ...]
    branches: tuple[KnownBranch, ...]
    former_globs: tuple[str, ...] = ()
    """Patterns that `auto_watch` had before; checks are still named by them."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class Need:
    """A check that must be required on branches of one repository."""

    repository: KnownRepository
    check_name: str
    excluded: tuple[str, ...]
    """Patterns that the rule must exclude, because the check is not written on any of their branches."""

    @property
    def branches(self) -> tuple[KnownBranch, ...]:
        """The branches of the scope whose check it is."""
        return tuple(each for each in self.repository.branches if each.in_scope and self.check_name in each.check_names)

    @property
    def shareable(self) -> bool:
        """Whether a ruleset of the organisation may meet it."""
        return is_pattern_check(self.check_name) or all(each.pattern_check_name is None for each in self.branches)


@dataclass(frozen=True, slots=True)
class WantedRuleset:
    """One ruleset as it should be, and the needs that it meets."""

    level: Level
    check_name: str
    needs: tuple[Need, ...]
    ruleset: dict[str, Any]
    """As JSON of GitHub's API."""

    @property
    def repository(self) -> KnownRepository | None:
        """The repository that has this ruleset; None for one of the organisation."""
        return self.needs[0].repository if self.level == "repository" else None


def needs_of(repository: KnownRepository, *, with_patterns: bool) -> Iterator[Need]:
    """Yield the needs of a repository.

    `with_patterns` adds the `autoWatch` patterns that no branch of the scope matches yet: a branch that is created
    during a freeze must be covered before we are notified of it.
    """
    names = {name for branch in repository.branches if branch.in_scope for name in branch.check_names}
    if with_patterns:
        names |= {PREFIX + pattern for pattern in repository.auto_watch if not pattern.startswith("!")}
    for check_name in sorted(names):
        yield Need(repository, check_name, tuple(_excluded(repository, check_name)))


def dispensable_branches(repository: KnownRepository) -> list[KnownBranch]:
    """Return the deleted branches that need no rule of their own until they are created again.

    Until they are watched again, which `autoWatch` sees to, the rule of their pattern protects them.
    """
    return [
        branch
        for branch in repository.branches
        if branch.deleted
        and branch.pattern_check_name is not None
        and (not branch.watched or watched_automatically(branch.name, repository.auto_watch))
    ]


def _excluded(repository: KnownRepository, check_name: str) -> list[str]:
    names = {branch.name: branch.pattern_check_name or branch.check_name for branch in repository.branches}
    return excluded_patterns(pattern_of(check_name), (*repository.auto_watch, *repository.former_globs), names)


def sample_branch(need: Need) -> str | None:
    """Return a branch name that is not in use, to find out whether active rules would cover a new branch."""
    pattern = pattern_of(need.check_name)
    sample = re.sub(r"\*+", "0", pattern)
    globs = [each for each in need.excluded if "*" in each]  # a name may hold what no glob may
    taken = sample in need.excluded or any(compile_globs([glob], "branch", "").matches(sample) for glob in globs)
    return None if "*" not in pattern or taken else sample


def wanted_rulesets(
    needs: Iterable[Need], app_id: int, shared: Collection[str] | None, *, forbid_deletion: bool = False
) -> list[WantedRuleset]:
    """Return the rulesets that meet the needs: the organisation's first, then those of repositories.

    `shared` are the check names that the organisation has a ruleset of ours for; None: it can have none. Repositories
    that exclude other branches than most have rulesets of their own. An archived one accepts no ruleset. Patterns come
    first: if GitHub accepts no more rulesets, they protect the branches. `forbid_deletion` adds a rule against deletion
    to the rulesets of single branches. Raise `invalid_glob` for a pattern that no ruleset can express.
    """
    make = partial(_wanted, app_id=app_id, forbid_deletion=forbid_deletion)
    together: list[WantedRuleset] = []
    alone: list[Need] = []
    by_name: dict[str, list[Need]] = defaultdict(list)
    for need in needs:
        by_name[need.check_name].append(need)
    for check_name, sharing in sorted(by_name.items()):
        group = _largest_group([need for need in sharing if need.shareable]) if shared is not None else []
        if len(group) >= MIN_SHARING_REPOSITORIES or (group and check_name in (shared or ())):
            together.append(make("organization", group))
            alone += [need for need in sharing if need not in group]
        else:
            alone += sharing
    alone.sort(key=lambda need: (need.repository.repository_id, not is_pattern_check(need.check_name), need.check_name))
    return together + [make("repository", [need]) for need in alone if not need.repository.archived]


def _largest_group(needs: list[Need]) -> list[Need]:
    """Return the needs that can share a ruleset: those with the exclusions that most of them have."""
    groups: dict[tuple[str, ...], list[Need]] = defaultdict(list)
    for need in needs:
        groups[need.excluded].append(need)
    return max(groups.values(), key=len, default=[])


def _wanted(level: Level, needs: list[Need], *, app_id: int, forbid_deletion: bool) -> WantedRuleset:
    """Return the ruleset for needs of one check with the same exclusions; that of a repository has one need."""
    check_name = needs[0].check_name
    github_ids = [need.repository.github_id for need in needs] if level == "organization" else None
    forbids = forbid_deletion and not is_pattern_check(check_name)
    ruleset = desired_ruleset(check_name, app_id, github_ids, needs[0].excluded, forbids_deletion=forbids)
    return WantedRuleset(level, check_name, tuple(needs), ruleset)
