"""Globs of repositories, branches and paths: `*` is any run without `/`, `**` any run, a leading `!` excludes.

A list is read in order and the last pattern that matches wins. Patterns become regular expressions whose wildcards
are atomic: each one settles on the first place where the literal after it fits, and never reconsiders, so no pattern
can make matching explode. Settling early is right, because the earliest end leaves the most text for what follows.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from typing import Literal

from rules.errors import Detail, ServiceError, field_error

Kind = Literal["repository", "branch", "path"]

_REPOSITORY_CHARACTERS = re.compile(r"[A-Za-z0-9._/*-]+")
_NOT_IN_BRANCHES = re.compile(r"[\x00-\x20\x7f~^:?\[\]{}\\]")
_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f?\[\]{}\\]")
_WILDCARDS = re.compile(r"(\*+)")
_ANY = "\x01"
"""A character that no pattern has."""
_MAX_CROSSINGS = 3


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled list of patterns."""

    patterns: tuple[tuple[bool, re.Pattern[str]], ...]

    def matches(self, text: str) -> bool:
        """Return True if the last pattern that matches the whole of `text` includes it."""
        return next((include for include, pattern in reversed(self.patterns) if pattern.fullmatch(text)), False)


@lru_cache(maxsize=4096)
def _compile(pattern: str, kind: Kind) -> tuple[bool, re.Pattern[str]]:
    include = not pattern.startswith("!")
    literals = _WILDCARDS.split(pattern.removeprefix("!"))
    flags = re.ASCII | re.DOTALL | (re.IGNORECASE if kind == "repository" else 0)
    return include, re.compile(_expression(literals), flags)


def _expression(parts: list[str]) -> str:
    """Join `literal, stars, literal, …, literal` so that only a `**` may try another start of what follows it."""
    expression = re.escape(parts[0])
    closing = ""
    last = len(parts) - 1
    for index in range(1, len(parts), 2):
        crosses = parts[index] == "**"
        literal = re.escape(parts[index + 1])
        if crosses:
            # What stood before is settled; the run up to the next `**` is found as one piece.
            expression += closing + ("(?>.*?" if _more_crossings(parts, index) else "(?:.*?")
            closing = ")"
            expression += literal
        elif index + 1 == last:
            expression += "[^/]*" + literal
        else:
            expression += "(?>[^/]*?" + literal + ")"
    return expression + closing


def _more_crossings(parts: list[str], index: int) -> bool:
    return "**" in parts[index + 2 :: 2]


@lru_cache(maxsize=4096)
def pattern_error(pattern: str, kind: Kind) -> str | None:
    """Return why one pattern is invalid, or None."""
    text = pattern.removeprefix("!")
    errors = (
        (not text, "is empty"),
        ("***" in text, "has a run of more than two asterisks"),
        (text.startswith("!"), "begins with more than one exclamation mark"),
        (kind == "path" and text != pattern, "excludes; name such files in noneMatching"),
        *_ERRORS[kind](text),
    )
    return next((message for wrong, message in errors if wrong), None)


def _branch_errors(text: str) -> tuple[tuple[bool, str], ...]:
    bad = _NOT_IN_BRANCHES.search(text)
    return (
        (bad is not None, f"has {bad[0] if bad else ''!r}, which no branch name contains; only * and ** are special"),
    )


def _repository_errors(text: str) -> tuple[tuple[bool, str], ...]:
    return (
        (
            not _REPOSITORY_CHARACTERS.fullmatch(text),
            "may contain letters, digits, '.', '_', '-', '/', and the wildcards * and **",
        ),
        (text.count("/") > 1 or ("/" not in text and "**" not in text), "has the form owner/name"),
    )


def _path_errors(text: str) -> tuple[tuple[bool, str], ...]:
    bad = _NOT_IN_PATHS.search(text)
    is_path = not text.startswith("/") and {".", ".."}.isdisjoint(text.split("/"))
    return (
        (bad is not None, f"has {bad[0] if bad else ''!r}; only * and ** are special"),
        (not text.strip("*/."), "names nothing, and would match nearly every file"),
        (not is_path, "is no path from the top of the repository, such as docs/**"),
    )


_ERRORS: dict[Kind, Callable[[str], tuple[tuple[bool, str], ...]]] = {
    "branch": _branch_errors,
    "repository": _repository_errors,
    "path": _path_errors,
}


def compile_globs(patterns: Sequence[str], kind: Kind, path: str) -> Glob:
    """Compile a list of patterns; `path` is its JSON Pointer in the request.

    Raise `invalid_glob` with one row for each pattern that does not parse, or when no pattern includes anything.
    """
    details = [
        Detail(f"{path}/{index}", f"{pattern!r} {wrong}", "invalid_glob")
        for index, pattern in enumerate(patterns)
        if (wrong := pattern_error(pattern, kind))
    ]
    if details:
        raise ServiceError("invalid_glob", f"The pattern {details[0].message}", details=tuple(details))
    if all(pattern.startswith("!") for pattern in patterns):
        start = "*/*" if kind == "repository" else "**"
        message = f"Patterns that only exclude match nothing; start with {start!r}"
        raise field_error(path, message, message=message, code="invalid_glob")
    return Glob(tuple(_compile(pattern, kind) for pattern in patterns))


def covers(outer: Sequence[str], inner: Sequence[str], kind: Kind) -> bool:
    """Return True if everything that `inner` can match is surely matched by `outer`; both are valid lists.

    Each pattern that includes must be covered by one pattern of `outer`; what `outer` excludes after that must be
    excluded by `inner` as well, or share nothing with the pattern, or be included again.
    """
    return all(
        _is_covered(pattern, [each[1:] for each in inner[index + 1 :] if each.startswith("!")], outer, kind)
        for index, pattern in enumerate(inner)
        if not pattern.startswith("!")
    )


def _is_covered(pattern: str, excluded: Sequence[str], outer: Sequence[str], kind: Kind) -> bool:
    """True if a pattern of `outer` covers `pattern`, and its later exclusions change nothing but `excluded`."""
    included: list[str] = []
    for each in reversed(outer):
        if not each.startswith("!"):
            if _contains(each, pattern, kind):
                return True
            included.append(each)
        elif not _are_disjoint(each[1:], pattern) and not any(
            _contains(other, each[1:], kind) for other in chain(excluded, included)
        ):
            return False
    return False


def _contains(outer: str, inner: str, kind: Kind) -> bool:
    """True if one pattern surely matches whatever another one matches.

    A character that no pattern has replaces the wildcards of `inner`: only wildcards of `outer` match it, and they
    match any text without `/` in its place.
    """
    texts = _repositories_of(inner) if kind == "repository" else _branches_of(inner)
    matches = _compile(outer, kind)[1].fullmatch
    return outer == inner or (bool(texts) and all(map(matches, texts)))


def _repositories_of(pattern: str) -> Sequence[str]:
    """Return texts for all repositories of a pattern: they have one `/`, written or in place of one `**`."""
    parts = _WILDCARDS.split(pattern)
    texts = [parts]
    if "/" not in pattern:
        crossing = [index for index, part in enumerate(parts) if part == "**"]
        texts = [[*parts[:index], "*/*", *parts[index + 1 :]] for index in crossing]
    return [_WILDCARDS.sub(_ANY, "".join(text)) for text in texts]


def _branches_of(pattern: str) -> Sequence[str]:
    """Return texts for all branches of a pattern, with none, one and two `/` for each `**`; none if these are many."""
    parts = _WILDCARDS.split(pattern)
    if parts.count("**") > _MAX_CROSSINGS:
        return []
    wildcards = {"*": (_ANY,), "**": (_ANY, f"{_ANY}/{_ANY}", f"{_ANY}/{_ANY}/{_ANY}")}
    return ["".join(text) for text in product(*(wildcards.get(part, (part,)) for part in parts))]


def _are_disjoint(one: str, other: str) -> bool:
    """True if two patterns surely match nothing in common: their beginnings or ends differ, also if case does not."""
    ends = [(_WILDCARDS.split(each.lower())[0], _WILDCARDS.split(each.lower())[-1]) for each in (one, other)]
    (start, end), (other_start, other_end) = ends
    if "*" not in one and "*" not in other:
        return one.lower() != other.lower()
    same_start = start.startswith(other_start) or other_start.startswith(start)
    return not same_start or not (end.endswith(other_end) or other_end.endswith(end))
