"""Which watched branches scopes share, for many scopes at once.

Two schedules collide where they share a watched branch and their windows share an instant. The database compares
windows; branches are compared here. Scopes are many and so are branches, so a `Ground` is arranged once and then asked
by every scope: a glob looks only at repositories that begin as it does, and is compiled only where there are some.
Pure: the references of scopes are resolved by a service.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rules.freezes.globs import compile_globs
from rules.freezes.scope import BranchFact

_AFTER_ALL = "\U0010ffff"

Facts = Iterable[BranchFact]


class Ground:
    """Watched branches, arranged so that a scope finds out soon whether it reaches any of them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = {fact.branch_id: fact for fact in facts}
        self._of_repository: dict[str, list[BranchFact]] = defaultdict(list)
        for fact in self._facts.values():
            self._of_repository[fact.repository_id].append(fact)
        self.repositories = {key: of[0].repository.lower() for key, of in self._of_repository.items()}
        """The names of all repositories that it lies in, in lower case, by id."""
        self._names = sorted((name, key) for key, name in self.repositories.items())

    def reached(self, scope: Mapping[str, Any], repositories: Mapping[str, str]) -> Iterator[BranchFact]:
        """Yield the branches that a scope, the contract's object as it is kept, reaches.

        `repositories` tells the ids of those that scopes name; a name that is not there reaches nothing.
        """
        facts = self._in_repositories(scope, repositories)
        if scope.get("branches") is None:
            yield from facts
            return
        glob = compile_globs(scope["branches"], "branch", "/scope/branches")
        yield from (fact for fact in facts if glob.matches(fact.branch))

    def _in_repositories(self, scope: Mapping[str, Any], repositories: Mapping[str, str]) -> Facts:
        if scope["type"] == "organization":
            return self._facts.values()
        if scope["type"] == "glob":
            return self._matching(scope["patterns"])
        if scope["type"] == "repositories":
            ids = dict.fromkeys(repositories.get(name, "") for name in scope["repositories"])
            return (fact for key in ids for fact in self._of_repository.get(key, ()))
        if "branchId" in scope:
            return [self._facts[scope["branchId"]]] if scope["branchId"] in self._facts else []
        facts = self._of_repository.get(repositories.get(scope["repository"], ""), ())
        return (fact for fact in facts if fact.branch == scope["branch"])

    def _matching(self, patterns: Sequence[str]) -> Iterator[BranchFact]:
        places = {place for pattern in patterns if not pattern.startswith("!") for place in self._places(pattern)}
        if not places:
            return
        glob = compile_globs(patterns, "repository", "/scope/patterns")
        for place in sorted(places):
            facts = self._of_repository[self._names[place][1]]
            if glob.matches(facts[0].repository):
                yield from facts

    def _places(self, pattern: str) -> range:
        """Return where repositories stand whose names begin as the pattern does."""
        start = pattern.partition("*")[0].lower()
        return range(bisect_left(self._names, (start,)), bisect_left(self._names, (start + _AFTER_ALL,)))


def named_repositories(scopes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return what scopes call repositories by, ids and names, as they stand there."""
    named: set[str] = set()
    for scope in scopes:
        named.update(scope.get("repositories", ()))
        if "repository" in scope:
            named.add(scope["repository"])
    return named
