"""Text that people typed, shown in one line where it is rendered by others: GitHub's checks, and mails.

It gets no markup, no links and no mentions there, and cannot change the direction of the text around it.
"""

import re

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Marks of direction, and characters without a width; not the joiners that scripts and emoji need."""
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates; not the marks of direction that names in Hebrew and Arabic have."""
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that Unicode counts as letters, marks or symbols, and that show nothing."""
_JOINER = "\u2060"
"""Has no width, and ends what would be recognized as an address or a name."""
_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)(?=\w)", re.IGNORECASE)
_REFERENCE = re.compile(r"(?<=#)(?=\w)")
"""Of an issue or a pull request, which GitHub links."""
_DOMAIN = re.compile(r"(?<=\w\.)(?=[^\W\d_]{2})")
_MARKUP = re.compile(r"([\\`*_\[\]<>~&$])")
"""What begins markup inside a line; the beginning of the line is ours."""


def one_line(text: str, length: int) -> str:
    """Return the text as one line of at most `length` characters, without control characters and invisible ones."""
    line = _SPACE.sub(" ", without_invisible(text)).strip()
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def without_invisible(text: str) -> str:
    """Return the text without marks of direction and characters without a width."""
    return _INVISIBLE.sub("", text)


def is_visible(text: str) -> bool:
    """True if a text shows anything."""
    return any(letter.isprintable() and not letter.isspace() and letter not in BLANK for letter in text)


def turns_text(text: str) -> bool:
    """True if a text has a mark that changes the direction of what stands after it."""
    return _TURNING.search(text) is not None


def without_links(line: str) -> str:
    """Return a line in which no program recognizes the address of a page or a person."""
    return _DOMAIN.sub(_JOINER, _ADDRESS.sub(_JOINER, line))


def as_markdown(line: str) -> str:
    """Return a line as Markdown of GitHub that shows it literally, with no links, mentions or references."""
    return _MARKUP.sub(r"\\\1", _REFERENCE.sub(_JOINER, _ADDRESS.sub(_JOINER, line)))
