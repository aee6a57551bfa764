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
    """A window of an enabled schedule that has not begun; all windows of a schedule have its scope."""

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


def windows_by_branch(branches: Iterable[NamedBranch], windows: Iterable[Window]) -> dict[str, Sequence[Window]]:
    """Return the windows that cover each branch, by its id, earliest first.

    Branches that the same schedules cover have one list in common: there may be hundreds of windows and of branches.
    """
    in_order = sorted(windows, key=lambda window: window.starts_at)
    matcher = _Matcher(branches, in_order)
    covering: dict[str, list[str]] = defaultdict(list)
    for window in {window.schedule_id: window for window in in_order}.values():
        for branch in matcher.covered(window):
            covering[branch.branch_id].append(window.schedule_id)
    lists: dict[frozenset[str], Sequence[Window]] = {}
    found: dict[str, Sequence[Window]] = {}
    for branch_id, listed in covering.items():
        schedules = frozenset(listed)
        if schedules not in lists:
            lists[schedules] = [window for window in in_order if window.schedule_id in schedules]
        found[branch_id] = lists[schedules]
    return found


def end_of_cover(since: datetime, spans: Iterable[tuple[datetime, datetime | None]]) -> datetime | None:
    """Return the first instant from `since` on that no span covers; None if an open-ended one covers all of them.

    Spans that begin later than `since` come last, in the order of their starts: those after a gap are not looked at.
    """
    until = since
    for start, end in spans:
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
