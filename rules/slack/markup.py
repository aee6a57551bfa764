"""Slack's `mrkdwn`, with words of people in it that mention no one, link nowhere and end nothing early."""

from datetime import UTC, datetime
from urllib.parse import quote

from rules.plain_text import one_line, without_invisible

MAX_LINE = 150
"""How much of a name a message shows."""
MAX_REASON = 600
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MAX_URL = 1500
_SAFE_IN_URL = "!#$%&'()*+,/:;=?@[]~"


def words(text: str, length: int = MAX_LINE) -> str:
    """Return what a person wrote as one line of mrkdwn: at most `length` characters, with entities for `&`, `<`, `>`.

    It is cut between letters, and never inside an entity.
    """
    return _cut([_ENTITIES.get(letter, letter) for letter in one_line(text, length)], length)


def literal(text: str, length: int) -> str:
    """Return text of several lines as mrkdwn, with entities for `&`, `<`, `>`."""
    return _cut([_ENTITIES.get(letter, letter) for letter in without_invisible(text).strip()], length)


def link(url: str, text: str, length: int = MAX_LINE) -> str:
    """Return a link that shows a person's words; `|`, `<` and `>` would end its address early."""
    address = quote(url, safe=_SAFE_IN_URL)
    shown = words(text, length).replace("|", "¦") or "…"
    return shown if len(address) > _MAX_URL else f"<{address}|{shown}>"


def at(instant: datetime) -> str:
    """Return an instant that all readers see in their own time zone; in UTC where a program cannot."""
    utc = instant.astimezone(UTC)
    return f"<!date^{int(utc.timestamp())}^{{date_short_pretty}} {{time}}|{utc:%Y-%m-%d %H:%M} UTC>"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 branch`, `1,000 branches`: a number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _cut(pieces: list[str], length: int) -> str:
    if sum(map(len, pieces)) <= length:
        return "".join(pieces)
    kept, left = [], length - 1
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        kept.append(piece)
    return "".join(kept).rstrip() + "…"
