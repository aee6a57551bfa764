"""The formats of the contract: dates, instants, globs, names and reasons, each checked by the code that reads it."""

import string
from collections.abc import Callable, Mapping

from rules.freezes.branch_names import branch_name_error
from rules.freezes.globs import pattern_error
from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason
from rules.plain_text import is_visible, turns_text
from schemas.instants import is_date, is_instant

_MAX_GLOB_LENGTH = 256
_MAX_BRANCH_LENGTH = 255
MAX_DATE_LENGTH = 10

# A value that a length keyword of the schema rejects passes here, so that it is reported once.
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": is_instant,
    "date": lambda text: len(text) > MAX_DATE_LENGTH or is_date(text),
    "repository-glob": lambda text: not 0 < len(text) <= _MAX_GLOB_LENGTH or pattern_error(text, "repository") is None,
    "branch-glob": lambda text: not 0 < len(text) <= _MAX_GLOB_LENGTH or pattern_error(text, "branch") is None,
    "branch-name": lambda text: not 0 < len(text) <= _MAX_BRANCH_LENGTH or branch_name_error(text) is None,
    "visible": lambda text: not text.strip(string.whitespace) or (is_visible(text) and not turns_text(text)),
    "reason": lambda text: len(text) < MIN_REASON_LENGTH or is_reason(text),
}


def explain(name: str, text: str) -> str | None:
    """Return what is wrong with a text; None for a format whose name says it."""
    if name == "repository-glob":
        return pattern_error(text, "repository")
    if name == "branch-glob":
        return pattern_error(text, "branch")
    if name == "branch-name":
        return branch_name_error(text)
    if name == "visible":
        return "must have visible characters, and none that change the direction of text"
    if name == "reason":
        return f"must have at least {MIN_REASON_LENGTH} visible characters, without the white space at both ends"
    return None
