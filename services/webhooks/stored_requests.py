"""The refresh requests of a webhook as they are stored: its payload is read once, when it arrives, and not kept."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from integrations.github.events import (
    BranchRefresh,
    FactsRefresh,
    InstallationRefresh,
    RefreshRequest,
    RepositoryRefresh,
    RequestedAction,
    RulesetContent,
)

_KINDS: Mapping[str, type[RefreshRequest]] = {
    "installation": InstallationRefresh,
    "repository": RepositoryRefresh,
    "branches": BranchRefresh,
    "action": RequestedAction,
    "team": FactsRefresh,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_KEY, _KEY_FOR_RULES, _KEY_WRITTEN = "refresh_requests", "rule_requests", "written_ruleset"
"""What only rules of exceptions need is stored apart, and so is what an App has written: a process of the former
release does not know it."""


def to_stored(requests: Iterable[RefreshRequest]) -> dict[str, Any]:
    """Return requests as JSON; what only says the state of a pull request is left out."""
    stored: dict[str, Any] = {}
    for request in requests:
        if (name := _NAMES.get(type(request))) is None:
            continue
        values = {"kind": name, **asdict(request)}
        if "names" in values:
            values["names"] = sorted(values["names"])
        if (written := values.pop("written", None)) is not None:
            stored[_KEY_WRITTEN] = written
        for_rules = values.pop("for_rules", False) or isinstance(request, FactsRefresh)
        stored.setdefault(_KEY_FOR_RULES if for_rules else _KEY, []).append(values)
    return stored


def from_stored(stored: Mapping[str, Any]) -> list[RefreshRequest]:
    """Return the requests of a stored webhook."""
    found = [_request(**values) for values in stored.get(_KEY, ())]
    if (written := stored.get(_KEY_WRITTEN)) is not None:
        found = [_with_content(request, RulesetContent(**written)) for request in found]
    return found + [_for_rules(_request(**values)) for values in stored.get(_KEY_FOR_RULES, ())]


def _with_content(request: RefreshRequest, written: RulesetContent) -> RefreshRequest:
    return (
        replace(request, written=written) if isinstance(request, InstallationRefresh | RepositoryRefresh) else request
    )


def _for_rules(request: RefreshRequest) -> RefreshRequest:
    return replace(request, for_rules=True) if isinstance(request, BranchRefresh) else request


def _request(kind: str, **values: Any) -> RefreshRequest:
    if "names" in values:
        values["names"] = frozenset(values["names"])
    return _KINDS[kind](**values)
