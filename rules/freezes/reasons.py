"""The reason of a freeze, which is shown to everyone whom it blocks."""

from rules.plain_text import without_invisible

MIN_REASON_LENGTH = 8
"""Visible characters, without surrounding white space."""


def is_reason(text: str) -> bool:
    """Return True if the text is long enough to be a reason."""
    return len(without_invisible(text).strip()) >= MIN_REASON_LENGTH
