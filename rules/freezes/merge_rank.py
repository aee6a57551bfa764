"""The order in which heads are written: what can be merged first is blocked first."""

from typing import Final

GROUP: Final = -1
"""A commit of a merge queue: it merges by itself, as soon as nothing fails."""
QUEUED: Final = 0
AUTO_MERGE: Final = 1
APPROVED: Final = 2
OPEN: Final = 3
DRAFT: Final = 4
SUPERSEDED: Final = 8
NOTHING_OPEN: Final = 9


def merge_rank(*, draft: bool, auto_merge: bool, review_decision: str | None, in_queue: bool) -> int:
    """Return how soon a pull request can be merged, 0 first: queued, auto-merge, approved, open, draft.

    `review_decision` is `approved`, `changes_requested`, `review_required`, or None if no review is required.
    """
    if in_queue:
        return QUEUED
    if auto_merge:
        return AUTO_MERGE
    if draft:
        return DRAFT
    return APPROVED if review_decision in {None, "approved"} else OPEN
