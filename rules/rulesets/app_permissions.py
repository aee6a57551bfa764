"""The permissions and events that the App needs on GitHub, which of them are missing, and the App's manifest.

It may also be granted `administration`, of repositories and of the organisation, to write rulesets by itself; without
it an administrator authorises each setup, so it is never missing. `members` is needed while an installation is claimed,
and by rules of exceptions that name teams.
"""

from collections.abc import Mapping
from typing import Any

from rules.web_addresses import GITHUB_WEBHOOKS, INSTALLED

NEEDED: Mapping[str, str] = {
    "checks": "write",
    "statuses": "write",
    "contents": "read",
    "merge_queues": "read",
    "metadata": "read",
    "pull_requests": "read",
}
"""Permission → its minimum level. `statuses` is needed for a ruleset to be pinned to the App."""
FOR_CLAIMS: Mapping[str, str] = {"members": "read"}
FOR_RULESETS: Mapping[str, str] = {"administration": "write", "organization_administration": "write"}
EVENTS = (
    "branch_protection_rule",
    "check_run",
    "check_suite",
    "create",
    "delete",
    "merge_group",
    "pull_request",
    "push",
    "repository",
    "repository_ruleset",
)
"""The events that the App must subscribe to; GitHub always sends those of installations."""
EVENTS_FOR_RULES = ("label", "membership", "pull_request_review", "team")
"""The events that rules of exceptions react to at once; without them, when the branch is read next."""
_LEVELS = ("none", "read", "write", "admin")


def missing_permissions(granted: Mapping[str, str]) -> list[str]:
    """Return the permissions that are needed and not granted, as `checks:write`."""
    return [f"{name}:{level}" for name, level in NEEDED.items() if _rank(granted.get(name, "none")) < _rank(level)]


def manifest_of(
    name: str, *, base_url: str, web_url: str, redirect_url: str, public: bool, writes_rulesets: bool
) -> dict[str, Any]:
    """Return the manifest from which GitHub registers the App; `redirect_url` gets the code for its secrets."""
    return {
        "name": name,
        "url": web_url,
        "hook_attributes": {"url": f"{base_url}{GITHUB_WEBHOOKS}", "active": True},
        "redirect_url": redirect_url,
        "callback_urls": [f"{web_url}{INSTALLED}"],
        "request_oauth_on_install": True,
        "setup_on_update": True,
        "public": public,
        "default_permissions": {**NEEDED, **FOR_CLAIMS, **(FOR_RULESETS if writes_rulesets else {})},
        "default_events": sorted((*EVENTS, *EVENTS_FOR_RULES)),
    }


def _rank(level: str) -> int:
    return _LEVELS.index(level) if level in _LEVELS else 0
