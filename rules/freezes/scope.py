"""Scopes: which watched branches a freeze reaches.

A scope is kept as the contract's JSON object. Its references are resolved to ids by a service before it comes here,
so that matching needs no look-ups.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rules.freezes.globs import Glob, compile_globs, covers

OPEN_ENDED = frozenset({"organization", "glob"})


class FreezableBranch(NamedTuple):
    """A watched branch of an enabled repository, as scopes match it."""

    branch_id: str
    repository_id: str
    repository: str
    """`owner/name`, as GitHub spells it."""
    branch: str


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope whose references are ids and whose patterns are compiled."""

    type: str
    repositories: frozenset[str] = frozenset()
    branch_id: str | None = None
    repository_glob: Glob | None = None
    branch_glob: Glob | None = None

    @property
    def open_ended(self) -> bool:
        """Whether a branch that begins to match while the freeze is in force is added to it."""
        return self.type in OPEN_ENDED

    @property
    def reaches_all(self) -> bool:
        """Whether it reaches every branch that a freeze can reach."""
        return self.type == "organization" and self.branch_glob is None

    def covers(self, branch: FreezableBranch) -> bool:
        """Return True if the scope reaches this branch."""
        if not _REACHES[self.type](self, branch):
            return False
        return self.branch_glob is None or self.branch_glob.matches(branch.branch)


_REACHES: dict[str, Callable[[Scope, FreezableBranch], bool]] = {
    "organization": lambda _scope, _branch: True,
    "glob": lambda scope, branch: (
        scope.repository_glob is not None and scope.repository_glob.matches(branch.repository)
    ),
    "repositories": lambda scope, branch: branch.repository_id in scope.repositories,
    "branch": lambda scope, branch: branch.branch_id == scope.branch_id,
}


def compile_scope(
    scope: dict[str, Any],
    *,
    repositories: Iterable[str] = (),
    branch_id: str | None = None,
) -> Scope:
    """Compile the contract's scope object; `repositories` and `branch_id` are what its references resolved to.

    Raise `invalid_glob` with the pointer of each pattern that does not parse.
    """
    patterns, branches = scope.get("patterns"), scope.get("branches")
    return Scope(
        type=scope["type"],
        repositories=frozenset(repositories),
        branch_id=branch_id,
        repository_glob=compile_globs(patterns, "repository", "/scope/patterns") if patterns is not None else None,
        branch_glob=compile_globs(branches, "branch", "/scope/branches") if branches is not None else None,
    )


def scope_contains(outer: dict[str, Any], inner: dict[str, Any]) -> bool | None:
    """Return whether every branch that `inner` can ever reach lies in `outer`; None if only its targets decide.

    Organisation freezes lie only in an organisation scope, glob freezes in that or in patterns that cover theirs. An
    outer scope that is narrowed to some branches contains an open-ended one only if its branch patterns cover that
    one's. A glob without wildcards counts like a list of repositories.
    """
    if inner["type"] not in OPEN_ENDED:
        return None
    branches = outer.get("branches")
    if branches is None or covers(branches, inner.get("branches") or ["**"], "branch"):
        if outer["type"] == "organization":
            return True
        if inner["type"] == outer["type"] == "glob" and covers(outer["patterns"], inner["patterns"], "repository"):
            return True
    is_literal = inner["type"] == "glob" and not any("*" in pattern for pattern in inner["patterns"])
    return None if is_literal else False
