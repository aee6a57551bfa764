"""The refresh requests of a webhook as they are stored: its payload is read once, when it arrives, and not kept."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from integrations.github.events import (
    BranchRefresh,
    InstallationRefresh,
    RefreshRequest,
    RepositoryRefresh,
    RequestedAction,
)

_KINDS: Mapping[str, type[RefreshRequest]] = {
    "installation": InstallationRefresh,
    "repository": RepositoryRefresh,
    "branches": BranchRefresh,
    "action": RequestedAction,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_KEY = "refresh_requests"


def to_stored(requests: Iterable[RefreshRequest]) -> dict[str, Any]:
    """Return requests as JSON; what only says the state of a pull request is left out."""
    kept = [(name, asdict(request)) for request in requests if (name := _NAMES.get(type(request)))]
    for _name, values in kept:
        if "names" in values:
            values["names"] = sorted(values["names"])
    return {_KEY: [{"kind": name, **values} for name, values in kept]} if kept else {}


def from_stored(stored: Mapping[str, Any]) -> list[RefreshRequest]:
    """Return the requests of a stored webhook."""
    return [_request(**values) for values in stored.get(_KEY, ())]


def _request(kind: str, **values: Any) -> RefreshRequest:
    if "names" in values:
        values["names"] = frozenset(values["names"])
    return _KINDS[kind](**values)
