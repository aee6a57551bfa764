"""The name of the required check: one for each rule pattern, since a rule's contexts are literal strings."""

from collections.abc import Sequence

from rules.freezes.globs import compile_globs

PREFIX = "change-freeze/"


def check_name(branch: str, auto_watch: Sequence[str]) -> str:
    """Return the check name of a branch: that of the first `autoWatch` pattern that matches it, else its own.

    So a branch that is created during a freeze is covered by the pattern's rule before we are notified of it. One that
    the globs exclude has its own name: a rule for the pattern excludes it.
    """
    for pattern in auto_watch if watched_automatically(branch, auto_watch) else ():
        if not pattern.startswith("!") and compile_globs([pattern], "branch", "").matches(branch):
            return PREFIX + pattern
    return PREFIX + branch


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
