"""The order in which a pass writes checks, and how many of them go into one call."""

from collections import deque
from collections.abc import Sequence

from services.reconcile.evaluation import CheckUpdate

CHECKS_PER_COMMIT = 2
"""A branch that matches a pattern has two checks on each head. A commit that is open into many branches has more."""


def order_updates(updates: Sequence[CheckUpdate]) -> list[CheckUpdate]:
    """Return updates in the order of writing: by commit, so that its checks are in one call, the most urgent first."""
    place: dict[tuple[str, str], int] = {}
    best: dict[tuple[str, str], int] = {}
    for update in updates:
        commit = update.head.key.commit
        place.setdefault(commit, len(place))
        best[commit] = min(update.urgency, best.get(commit, update.urgency))
    return sorted(
        updates,
        key=lambda update: (best[update.head.key.commit], place[update.head.key.commit], update.urgency),
    )


def take_commits(planned: deque[CheckUpdate], limit: int) -> list[CheckUpdate]:
    """Take the updates of the first `limit` commits, two of each on average: its own check and that of a pattern."""
    taken: list[CheckUpdate] = []
    commits: set[tuple[str, str]] = set()
    while planned and len(taken) < CHECKS_PER_COMMIT * limit:
        commit = planned[0].head.key.commit
        if commit not in commits and len(commits) == limit:
            break
        commits.add(commit)
        taken.append(planned.popleft())
    return taken
