"""The reason of a freeze, which is shown to everyone whom it blocks."""

from rules.plain_text import without_invisible

MIN_REASON_LENGTH = 8
"""Visible characters, without surrounding white space."""


def public_text(given: str | None) -> str | None:
    """Return a public text without surrounding white space; None if it shows nothing."""
    trimmed = (given or "").strip()
    return trimmed if without_invisible(trimmed).strip() else None


def is_reason(text: str) -> bool:
    """Return True if the text is long enough to be a reason."""
    return len(without_invisible(text).strip()) >= MIN_REASON_LENGTH
