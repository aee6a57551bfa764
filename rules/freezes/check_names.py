"""The names of the required checks: one for each branch, and one for each `autoWatch` pattern.

The branch's own check says whether a head may be merged into that branch; an exact rule at GitHub requires it. The
pattern's check is required on every branch that the pattern matches, also on those that have no rule of their own yet.
"""

from collections.abc import Sequence

from rules.freezes.globs import compile_globs

PREFIX = "change-freeze/"
_STOP = PREFIX + "stop:"


def check_name(branch: str) -> str:
    """Return the name of the branch's own check."""
    return PREFIX + branch


def pattern_check_name(branch: str, auto_watch: Sequence[str]) -> str | None:
    """Return the name of the check of the first `autoWatch` pattern that matches a branch; None if there is none.

    So a branch that is created during a freeze is covered by the pattern's rule before we are notified of it. A branch
    that the globs exclude has none: a rule for the pattern excludes it. A pattern without `*` is the branch itself.
    """
    for pattern in auto_watch if watched_automatically(branch, auto_watch) else ():
        if not pattern.startswith("!") and compile_globs([pattern], "branch", "").matches(branch):
            return PREFIX + pattern if "*" in pattern else None
    return None


def is_pattern_check(name: str) -> bool:
    """True if a check is a pattern's: no branch has `*` in its name (git-check-ref-format)."""
    return "*" in name


def stop_context(number: str) -> str:
    """Return the context that a stop requires, by a number that is never used again.

    It is the name of no check of a branch: no branch has `:` in its name (git-check-ref-format).
    """
    return _STOP + number


def is_stop(name: str) -> bool:
    """True if a context is that of a stop."""
    return name.startswith(_STOP)


def former_globs(known: Sequence[str], before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the patterns that matched more branches before than now: a rule may still require their checks.

    They are no longer watched, or something was excluded from them after a rule could have been written.
    """
    excluded = [pattern for pattern in after if pattern.startswith("!")]
    narrowed = set() if set(excluded) <= set(before) else set(before)
    kept = narrowed | set(known) if excluded else set()
    once = [pattern for pattern in (*known, *before) if not pattern.startswith("!")]
    return [pattern for pattern in dict.fromkeys(once) if pattern in kept or pattern not in after]


def watched_automatically(branch: str, auto_watch: Sequence[str]) -> bool:
    """True if the repository's `autoWatch` patterns match this branch."""
    return bool(auto_watch) and compile_globs(auto_watch, "branch", "").matches(branch)
