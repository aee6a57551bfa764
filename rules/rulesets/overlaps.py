"""Whether two globs can match the same branch."""

from re import findall

_WILDCARDS = {"*", "**"}


def overlap(one: str, other: str) -> bool:
    """True if some text matches both globs, neither of which begins with `!`.

    Visits each pair of positions at most once, so the time is proportional to the product of both lengths.
    """
    left, right = (findall(r"\*\*|.", pattern) for pattern in (one, other))
    seen = {(0, 0)}
    waiting = [(0, 0)]
    while waiting:
        at, there = waiting.pop()
        if at == len(left) and there == len(right):
            return True
        a = left[at] if at < len(left) else ""
        b = right[there] if there < len(right) else ""
        steps = (
            (a in _WILDCARDS, (at + 1, there)),
            (b in _WILDCARDS, (at, there + 1)),
            (_takes(a, b), (at, there + 1)),
            (_takes(b, a), (at + 1, there)),
            (a == b != "", (at + 1, there + 1)),
        )
        fresh = {place for possible, place in steps if possible} - seen
        seen |= fresh
        waiting += fresh
    return False


def _takes(wildcard: str, literal: str) -> bool:
    """True if a wildcard can stay where it is while the other glob advances past a literal."""
    crosses = wildcard == "**" or (wildcard == "*" and literal != "/")
    return crosses and literal not in {"", *_WILDCARDS}
