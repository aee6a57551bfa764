"""Due windows that no process has begun: they freeze from their start on, whoever looks.

The freeze of such a window is no row yet. It has the id that the row will have, and covers the branches that the scope
reaches now.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.scope import OPEN_ENDED, compile_scope
from rules.ids import id_of_freeze
from rules.time.planned_windows import NamedBranch, PlannedWindow, windows_by_branch


@dataclass(frozen=True, slots=True)
class DueWindow(PlannedWindow):
    """A window that is due (`Occurrence.is_due`) and has not begun."""

    schedule_name: str
    reason: str
    exceptions_allowed: bool
    public_text: str | None = None
    exception_rules_allowed: bool = True

    @property
    def freeze_id(self) -> str:
        """The id of the freeze that it starts."""
        return id_of_freeze(self.id)

    @property
    def actor(self) -> Actor:
        """Who starts it."""
        return Actor("schedule", self.schedule_id, self.schedule_name)


def due_by_branch(branches: Iterable[NamedBranch], windows: Iterable[DueWindow]) -> dict[str, Sequence[DueWindow]]:
    """Return the windows that cover each branch, by its id, earliest first."""
    return windows_by_branch(branches, filter(_can_begin, windows))


def covered_by_window(
    branches: Iterable[NamedBranch], windows: Sequence[DueWindow]
) -> list[tuple[DueWindow, list[str]]]:
    """Return the windows that freeze, each with the ids of the branches that it covers.

    These may be none: branches that match an open-ended scope later are covered then.
    """
    covered: dict[str, list[str]] = defaultdict(list)
    for branch_id, covering in due_by_branch(branches, windows).items():
        for window in covering:
            covered[window.id].append(branch_id)
    return [
        (window, covered[window.id])
        for window in windows
        if covered[window.id] or (window.scope["type"] in OPEN_ENDED and _can_begin(window))
    ]


def _can_begin(window: DueWindow) -> bool:
    """True if the scope can be read; a window of another one never begins."""
    try:
        compile_scope(dict(window.scope))
    except ServiceError:
        return False
    return True
