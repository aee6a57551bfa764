"""What a scope covers, in words."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

_MAX_LISTED = 3


def describe_scope(scope: Mapping[str, Any]) -> str:
    """Return what a scope covers: `The whole organisation`, `Repositories matching acme/* but not acme/docs`."""
    branches = f" (branches {describe_patterns(scope['branches'])})" if scope.get("branches") else ""
    kind = scope["type"]
    if kind == "organization":
        return f"The whole organisation{branches}"
    if kind == "glob":
        return f"Repositories matching {describe_patterns(scope['patterns'])}{branches}"
    if kind == "repositories":
        return f"{shortened(scope['repositories'])}{branches}"
    return f"{scope['repository']}:{scope['branch']}" if scope.get("branch") else "One branch"


def describe_patterns(patterns: Sequence[str]) -> str:
    """Return a list of globs as it is read, from the first to the last: `acme/* but not acme/docs`."""
    parts: list[str] = []
    for excludes, group in groupby(patterns, key=lambda pattern: pattern.startswith("!")):
        named = shortened([pattern.removeprefix("!") for pattern in group])
        link = "not" if excludes else "also" if parts else ""
        parts.append(f"{link} {named}".strip())
    return " but ".join(parts)


def join_words(words: Sequence[str], link: str = "and") -> str:
    """Return `a`, `a and b`, or `a, b and c`; `or` may link them instead."""
    return f" {link} ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def shortened(words: Sequence[str]) -> str:
    """Return the first few of many words, and how many more there are."""
    if len(words) <= _MAX_LISTED + 1:
        return join_words(words)
    return f"{', '.join(words[:_MAX_LISTED])} and {len(words) - _MAX_LISTED} more"
