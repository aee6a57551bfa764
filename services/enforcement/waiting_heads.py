"""Heads that GitHub merges by itself, as auto-merge and merge queues do, once a stop has ended that they waited for."""

from collections.abc import Collection
from typing import LiteralString

from sqlalchemy import text

from models.checks import mark_dirty
from rules.freezes.merge_rank import AUTO_MERGE
from services.core.unit_of_work import UnitOfWork

# GitHub looks at auto-merge, and at a merge queue that waits, when a check completes, and not when a rule is gone.
_WAITS: LiteralString = """
    b.repository_id = ANY(:repositories) AND h.repository_id = b.repository_id
    AND h.check_name IN (b.check_name, b.pattern_check_name) AND h.conclusion = 'success'
    AND (EXISTS (SELECT FROM pull_requests p
                 WHERE p.repository_id = h.repository_id AND p.head_sha = h.head_sha AND p.state = 'open'
                   AND p.merge_rank <= :auto_merge)
         OR EXISTS (SELECT FROM queue_entries q WHERE q.branch_id = b.id AND q.head_sha = h.head_sha))
"""
_WAITING = text(f"SELECT DISTINCT b.id FROM watched_branches b, head_checks h WHERE {_WAITS}")  # noqa: S608 - a constant
_WRITE_AGAIN = text(f"""
    UPDATE head_checks h SET unconfirmed = true FROM watched_branches b WHERE b.id = ANY(:branches) AND {_WAITS}
""")  # noqa: S608 - a constant


def write_waiting_again(uow: UnitOfWork, repository_ids: Collection[str]) -> None:
    """Have the checks of such heads in these repositories written again, so that GitHub looks at them."""
    values = {"repositories": list(repository_ids), "auto_merge": AUTO_MERGE}
    branch_ids = sorted(set(uow.session.scalars(_WAITING, values)))
    if branch_ids:
        mark_dirty(uow.session, branch_ids, uow.now, outdated=False)
        uow.session.execute(_WRITE_AGAIN, {**values, "branches": branch_ids})
        uow.wake("reconcile")
