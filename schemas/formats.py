"""The formats of the contract: dates, instants, globs and reasons, each checked by the code that reads it."""

from collections.abc import Callable, Mapping

from rules.freezes.globs import fault
from rules.freezes.reasons import SHORTEST_REASON, is_reason
from schemas.instants import is_date, is_instant

_LONGEST_GLOB = 256
_LONGEST_DATE = 10
# A value that a length keyword of the schema rejects passes here, so that it is reported once.
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": is_instant,
    "date": lambda text: len(text) > _LONGEST_DATE or is_date(text),
    "repository-glob": lambda text: not 0 < len(text) <= _LONGEST_GLOB or fault(text, "repository") is None,
    "branch-glob": lambda text: not 0 < len(text) <= _LONGEST_GLOB or fault(text, "branch") is None,
    "reason": lambda text: len(text) < SHORTEST_REASON or is_reason(text),
}


def explain(name: str, text: str) -> str | None:
    """Return what is wrong with a text; None for a format whose name says it."""
    if name == "repository-glob":
        return fault(text, "repository")
    if name == "branch-glob":
        return fault(text, "branch")
    if name == "reason":
        return f"must have at least {SHORTEST_REASON} characters, without the white space at both ends"
    return None
