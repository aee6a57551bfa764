"""Which watched branches scopes share, for many scopes at once.

Two schedules overlap if they share a watched branch and their windows share an instant. The database compares windows;
branches are compared here. There are many scopes and branches, so a `BranchIndex` is built once and then queried by
every scope: a glob only looks at repositories with its prefix, and is compiled only if there are any.
Pure: a service resolves the references of scopes.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rules.freezes.globs import compile_globs
from rules.freezes.scope import FreezableBranch

_AFTER_ALL = "\U0010ffff"
"""Sorts after every character of a name."""


class BranchIndex:
    """Watched branches, indexed so that a scope finds those it covers quickly."""

    def __init__(self, branches: Iterable[FreezableBranch]) -> None:
        self._branches = {branch.branch_id: branch for branch in branches}
        self._of_repository: dict[str, list[FreezableBranch]] = defaultdict(list)
        for branch in self._branches.values():
            self._of_repository[branch.repository_id].append(branch)
        self.repositories = {key: found[0].repository.lower() for key, found in self._of_repository.items()}
        """The lower-case names of all its repositories, by id."""
        self._names = sorted((name, key) for key, name in self.repositories.items())

    def reached(self, scope: Mapping[str, Any], repositories: Mapping[str, str]) -> Iterator[FreezableBranch]:
        """Yield the branches that a scope covers, given as the stored object of the contract.

        `repositories` maps the names in scopes to ids; a name that is missing covers nothing.
        """
        branches = self._in_repositories(scope, repositories)
        if scope.get("branches") is None:
            yield from branches
            return
        glob = compile_globs(scope["branches"], "branch", "/scope/branches")
        yield from (branch for branch in branches if glob.matches(branch.branch))

    def _in_repositories(self, scope: Mapping[str, Any], repositories: Mapping[str, str]) -> Iterable[FreezableBranch]:
        if scope["type"] == "organization":
            return self._branches.values()
        if scope["type"] == "glob":
            return self._matching(scope["patterns"])
        if scope["type"] == "repositories":
            ids = dict.fromkeys(repositories.get(name, "") for name in scope["repositories"])
            return (branch for key in ids for branch in self._of_repository.get(key, ()))
        if "branchId" in scope:
            return [self._branches[scope["branchId"]]] if scope["branchId"] in self._branches else []
        branches = self._of_repository.get(repositories.get(scope["repository"], ""), ())
        return (branch for branch in branches if branch.branch == scope["branch"])

    def _matching(self, patterns: Sequence[str]) -> Iterator[FreezableBranch]:
        places = {place for pattern in patterns if not pattern.startswith("!") for place in self._places(pattern)}
        if not places:
            return
        glob = compile_globs(patterns, "repository", "/scope/patterns")
        for place in sorted(places):
            branches = self._of_repository[self._names[place][1]]
            if glob.matches(branches[0].repository):
                yield from branches

    def _places(self, pattern: str) -> range:
        """Return the positions of repositories whose names start with the prefix of the pattern."""
        start = pattern.partition("*")[0].lower()
        return range(bisect_left(self._names, (start,)), bisect_left(self._names, (start + _AFTER_ALL,)))


def named_repositories(scopes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids and names of repositories in scopes, as written there."""
    named: set[str] = set()
    for scope in scopes:
        named.update(scope.get("repositories", ()))
        if "repository" in scope:
            named.add(scope["repository"])
    return named
