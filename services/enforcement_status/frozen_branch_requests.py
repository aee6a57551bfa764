"""Requests for the rulesets of frozen branches: make repositories due whose ruleset may name other branches than these.

Requested wherever freezes begin or cease to cover branches, and after each probe, so that what people changed is put
right. What a ruleset must name is computed when the work is done. A row that is requested while it is worked on stays
due.
"""

from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import CursorResult, text

from models.freezes import IN_FORCE
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST

JOB = "frozen_branches"
WRITABLE = """
    r.rulesets_authorized_at IS NOT NULL AND r.removed_at IS NULL AND NOT r.archived
    AND i.state = 'active' AND i.permissions ->> 'administration' = 'write'
"""
"""SQL: the condition of repositories `r` of installations `i` in which the App may write rulesets, for its freezes."""

_REQUEST = text(f"""
    INSERT INTO frozen_branch_rulesets AS s (repository_id, organization_id, due_at)
    SELECT r.id, r.organization_id, :now
    FROM repositories r
    JOIN installations i ON i.id = r.installation_id
    LEFT JOIN frozen_branch_rulesets known ON known.repository_id = r.id
    WHERE r.id IN (SELECT repository_id FROM watched_branches WHERE id = ANY(:ids))
      AND (known.due_at IS NOT NULL OR known.writing IS NOT NULL OR known.branch_names <> '{{}}' OR {WRITABLE}
           AND EXISTS (SELECT FROM watched_branches b JOIN freeze_targets t ON t.branch_id = b.id
                       JOIN freezes f ON f.id = t.freeze_id
                       WHERE b.repository_id = r.id AND t.operation = 'apply' AND {IN_FORCE}))
    ORDER BY r.id
    ON CONFLICT (repository_id) DO UPDATE SET attempts = 0, due_at = {REQUEST.format(row="s")}
""")  # noqa: S608 - a constant


def request_frozen_rulesets(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Make the rulesets of these branches' repositories due, where they name branches, or must, or may do so.

    The rows are locked in the order of their ids: a transaction that ends several freezes calls this for the branches
    of all of them at once, before it ends the first.
    """
    if branch_ids:
        requested = uow.session.execute(_REQUEST, {"ids": list(branch_ids), "now": uow.now})
        if cast(CursorResult[Any], requested).rowcount:
            uow.wake(JOB)
