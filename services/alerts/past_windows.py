"""The alerts about earlier windows of a schedule, which its next window resolves."""

MISSED, WITHOUT_TARGETS = "missed_window", "window_without_targets"
"""Types of alerts."""


def key_of_past_window(kind: str, schedule_id: str) -> str:
    """Return the key of the alert of a type; a schedule has one for all its windows."""
    return f"{kind} {schedule_id}"


def keys_of_past_windows(schedule_id: str) -> tuple[str, str]:
    """Return the keys of alerts about earlier windows of a schedule; the next window that starts resolves them."""
    return key_of_past_window(MISSED, schedule_id), key_of_past_window(WITHOUT_TARGETS, schedule_id)
