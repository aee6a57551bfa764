"""The formats of the contract: dates and instants as we read them, globs by the rule that compiles them, reasons."""

from collections.abc import Callable, Mapping

from rules.freezes.globs import fault
from rules.freezes.reasons import SHORTEST_REASON, is_reason
from schemas.instants import is_date, is_instant

_LONGEST_GLOB = 256
_LONGEST_DATE = 10
# What a length keyword of the schema tells already is not told a second time.
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": is_instant,
    "date": lambda text: len(text) > _LONGEST_DATE or is_date(text),
    "repository-glob": lambda text: not 0 < len(text) <= _LONGEST_GLOB or fault(text, "repository") is None,
    "branch-glob": lambda text: not 0 < len(text) <= _LONGEST_GLOB or fault(text, "branch") is None,
    "reason": lambda text: len(text) < SHORTEST_REASON or is_reason(text),
}


def explain(name: str, text: str) -> str | None:
    """Return what is wrong with a text of a format that knows better than to say its name."""
    if name == "repository-glob":
        return fault(text, "repository")
    if name == "branch-glob":
        return fault(text, "branch")
    if name == "reason":
        return f"must have at least {SHORTEST_REASON} characters between the white space around it"
    return None
