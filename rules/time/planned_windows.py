"""Planned windows: which branches they cover, so that a change that they bring is known beforehand.

The freeze state, pull requests and the text of checks read the same rows and match them here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from rules.freezes.scope import FreezableBranch
from rules.ids import has_prefix
from rules.time.schedule_overlaps import BranchIndex, named_repositories


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window of an enabled schedule that has not begun."""

    id: str
    """The id of its occurrence."""
    schedule_id: str
    scope: Mapping[str, Any]
    starts_at: datetime
    ends_at: datetime


Window = TypeVar("Window", bound=PlannedWindow)


@dataclass(frozen=True, slots=True)
class NamedBranch:
    """A watched branch, and what scopes may name its repository by: ids, and names in lower case."""

    branch: FreezableBranch
    references: Sequence[str]


def first_start(branches: Iterable[NamedBranch], windows: Iterable[PlannedWindow]) -> datetime | None:
    """Return when the first of the windows begins that covers one of the branches; None if there is none."""
    in_order = sorted(windows, key=lambda window: window.starts_at)
    matcher = _Matcher(branches, in_order)
    return next((window.starts_at for window in in_order if any(True for _ in matcher.covered(window))), None)


def windows_by_branch(branches: Iterable[NamedBranch], windows: Iterable[Window]) -> dict[str, list[Window]]:
    """Return the windows that cover each branch, by its id, earliest first."""
    in_order = sorted(windows, key=lambda window: window.starts_at)
    matcher = _Matcher(branches, in_order)
    found: dict[str, list[Window]] = defaultdict(list)
    for window in in_order:
        for branch in matcher.covered(window):
            found[branch.branch_id].append(window)
    return found


def end_of_cover(since: datetime, spans: Iterable[tuple[datetime, datetime | None]]) -> datetime | None:
    """Return the first instant from `since` on that no span covers; None if an open-ended one covers all of them."""
    until = since
    for start, end in sorted(spans, key=lambda span: span[0]):
        if start > until:
            break
        if end is None:
            return None
        until = max(until, end)
    return until


class _Matcher:
    """Branches and the repositories that the scopes of windows name."""

    def __init__(self, branches: Iterable[NamedBranch], windows: Sequence[PlannedWindow]) -> None:
        listed = list(branches)
        self._index = BranchIndex(one.branch for one in listed)
        ids = {reference: one.branch.repository_id for one in listed for reference in one.references}
        named = named_repositories(window.scope for window in windows)
        keys = {name: name if has_prefix(name, "rep") else name.lower() for name in named}
        self._repositories = {name: ids[key] for name, key in keys.items() if key in ids}

    def covered(self, window: PlannedWindow) -> Iterable[FreezableBranch]:
        return self._index.reached(window.scope, self._repositories)
