"""The reason of a freeze: what somebody who is stopped by it reads."""

SHORTEST_REASON = 8
"""Characters, once the white space around them is gone (specification, section 8)."""


def is_reason(text: str) -> bool:
    """Tell whether a text says enough."""
    return len(text.strip()) >= SHORTEST_REASON
