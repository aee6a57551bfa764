"""The permissions that the App needs on GitHub, and which of them are missing.

It may also be granted `administration`, of repositories and of the organisation, to write rulesets by itself; without
it an administrator authorises each setup, so it is never missing. `members` is needed only while an installation is
claimed.
"""

from collections.abc import Mapping

NEEDED: Mapping[str, str] = {
    "checks": "write",
    "statuses": "write",
    "contents": "read",
    "merge_queues": "read",
    "metadata": "read",
    "pull_requests": "read",
}
"""Permission → its minimum level. `statuses` is needed for a ruleset to be pinned to the App."""
_LEVELS = ("none", "read", "write", "admin")


def missing_permissions(granted: Mapping[str, str]) -> list[str]:
    """Return the permissions that are needed and not granted, as `checks:write`."""
    return [f"{name}:{level}" for name, level in NEEDED.items() if _rank(granted.get(name, "none")) < _rank(level)]


def _rank(level: str) -> int:
    return _LEVELS.index(level) if level in _LEVELS else 0
