"""Fields of forms on the way to the body of an operation, which refuses what is no valid value."""

import re
from collections.abc import Mapping

_SEPARATORS = re.compile(r"[\s,;]+")
_MAX_DIGITS = 9


_DAY_LENGTH = len("2026-11-21")


def filled(given: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that are not empty: an empty field of a form is a missing one of the operation."""
    return {name: text for name, text in given.items() if text}


def split_list(text: str) -> list[str]:
    """Return the entries of a list that white space, commas or semicolons separate."""
    return [entry for entry in _SEPARATORS.split(text) if entry]


def to_number(text: str) -> int | str:
    """Return the whole number that a text is; any other text as it is."""
    digits = text.removeprefix("-").removeprefix("+")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS else text


def day_range(given: Mapping[str, str], since: str, until: str) -> dict[str, str]:
    """Return the filters `from` and `to` by the names of an operation: a day begins and ends at midnight UTC."""
    found = {}
    for name, parameter, end in (("from", since, "T00:00:00Z"), ("to", until, "T23:59:59.999Z")):
        if text := given.get(name):
            found[parameter] = text + end if len(text) == _DAY_LENGTH else text
    return found
