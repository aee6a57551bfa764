"""Text for a terminal: what people wrote made harmless, times, tables."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

NOTHING = "-"
_HARMFUL = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(value: object) -> str:
    """Return a text as one line without control characters and changes of direction; these are shown as escapes.

    A terminal takes what follows an escape character for a command.
    """
    text = str(value).replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return "".join(_escaped(one) if _is_harmful(one) else one for one in text)


def plain_json(body: str) -> str:
    """Return the same JSON with control characters and changes of direction written as escapes, which mean the same."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", body)


def time_of(value: object, *, utc: bool) -> str:
    """Return a time of the API in the local zone, or in UTC; what is no time is returned as it is."""
    if not isinstance(value, str):
        return NOTHING if value is None else plain(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return plain(value)
    shown = at.astimezone(UTC) if utc else at.astimezone()
    return shown.strftime("%Y-%m-%d %H:%M %Z")


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table; None is shown as a dash."""
    cells = [[NOTHING if one is None else plain(one) for one in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(titles, *cells, strict=True)]
    return [
        "  ".join(one + " " * (width - _width(one)) for one, width in zip(row, widths, strict=True)).rstrip()
        for row in (titles, *cells)
    ]


def count(number: object, one: str, several: str) -> str:
    """Return a number with its noun."""
    return f"{plain(number)} {one if number == 1 else several}"


def _is_harmful(one: str) -> bool:
    return unicodedata.category(one) in _HARMFUL or one in _DIRECTIONS


def _escaped(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _width(text: str) -> int:
    """Return the number of columns that a text takes."""
    return sum(
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in {"W", "F"}) for one in text
    )
