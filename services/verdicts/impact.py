"""What a freeze of some branches would block: how many of them, and of the open pull requests into them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import TextClause, text

from models.predicates import unseen_array
from rules.freezes.blocking import ENFORCED, BlockingCounts, BlockingFacts, State, blocking_of
from services.core.unit_of_work import UnitOfWork
from services.verdicts.blocking_facts import FROM, FROM_OF_ALL, KEY, KEY_OF_ALL, WAITS_FOR
from services.verdicts.lights import REACHED, present


@dataclass(slots=True)
class Impact:
    """How many branches GitHub would refuse changes of, and how many open pull requests lead into them."""

    branches: BlockingCounts = field(default_factory=BlockingCounts)
    pull_requests: Counter[tuple[State, str]] = field(default_factory=Counter)
    """By state and code of `GAPS`: those into branches with this gap."""
    total: int = 0
    """All open pull requests."""
    stopped: int = 0
    """Those that GitHub would refuse to merge."""


def _impact(key: str, rows: str, branches: str) -> TextClause:
    # One branch has few open pull requests, and an index finds them.
    return text(f"""
        SELECT {key} AS facts, {WAITS_FOR} AS waits_for, coalesce(seen.open_ways, '{{}}') AS ways,
               count(*) AS branches, sum(p.open)::int AS pull_requests
        FROM {rows} CROSS JOIN LATERAL (
            SELECT count(*) AS open FROM pull_requests
            WHERE repository_id = b.repository_id AND base_branch = b.name AND state = 'open') p
        WHERE {branches} GROUP BY 1, 2, 3
    """)  # noqa: S608 - constants of ours


_OF_ALL = _impact(KEY_OF_ALL, FROM_OF_ALL, REACHED)
_OF_SOME = _impact(KEY, FROM, f"b.id = ANY({unseen_array('branches')})")


def impact_on(uow: UnitOfWork, branch_ids: Sequence[str] | None) -> Impact:
    """Return what a freeze of these branches would block; None: of all that freezes can reach. One statement."""
    values = {"organization": uow.organization} if branch_ids is None else {"branches": list(branch_ids)}
    impact = Impact()
    statement = _OF_ALL if branch_ids is None else _OF_SOME
    for facts, waits_for, ways, branches, pull_requests in uow.session.execute(statement, {**values, **present(uow)}):
        blocking = blocking_of(BlockingFacts.of_key(facts), waits_for, ways)
        impact.branches.add(blocking, branches, late=False)
        impact.total += pull_requests
        impact.stopped += pull_requests if blocking.state in ENFORCED else 0
        for gap in blocking.gaps:
            impact.pull_requests[blocking.state, gap] += pull_requests
    return impact
