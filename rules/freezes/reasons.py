"""The reason of a freeze, which is shown to everyone whom it blocks."""

MIN_REASON_LENGTH = 8
"""Characters, without surrounding white space."""


def is_reason(text: str) -> bool:
    """Return True if the text is long enough to be a reason."""
    return len(text.strip()) >= MIN_REASON_LENGTH
