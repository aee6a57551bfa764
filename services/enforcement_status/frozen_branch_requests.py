"""Requests for the rulesets of frozen branches: make repositories due whose ruleset may name other branches than these.

Requested wherever freezes begin or cease to cover branches, and after each probe, so that what people changed is put
right. Where more heads show `success` than `GitHubLimits.stop_above`, or any while no check may be written, a stop may
be needed, and goes before the rest.
What a ruleset must name is computed when the work is done. A row that is requested while it is worked on stays due.
"""

import secrets
from collections.abc import Collection
from datetime import datetime
from typing import Any, LiteralString, cast

from sqlalchemy import CursorResult, text

from models.freezes import IN_FORCE, INCOMPLETE
from rules.freezes.check_names import stop_context
from rules.rate_budget import GitHubLimits
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST

JOB = "frozen_branches"
STOPS_JOB = "stops"
WRITABLE = """
    r.rulesets_authorized_at IS NOT NULL AND r.removed_at IS NULL AND NOT r.archived
    AND i.state = 'active' AND i.permissions ->> 'administration' = 'write'
"""
"""SQL: the condition of repositories `r` of installations `i` in which the App may write rulesets, for its freezes."""

_PAUSED: LiteralString = "coalesce(i.paused_until > :now, false)"
_SHOWING: LiteralString = """
    FROM watched_branches b
    LEFT JOIN branch_enforcement seen ON seen.branch_id = b.id
    JOIN head_checks h ON h.repository_id = b.repository_id
         AND h.check_name = coalesce(seen.decisive_check, b.check_name)
         AND (h.conclusion = 'success' OR h.unconfirmed)
"""
# Of the frozen ones of these branches: how many heads show `success`, or may, up to one more than needs no stop.
_SHOWN = f"""
    SELECT count(*) AS heads FROM (
        SELECT {_SHOWING}
        WHERE b.id = ANY(:ids) AND EXISTS (
            SELECT FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
            WHERE t.branch_id = b.id AND t.operation = 'apply' AND {IN_FORCE})
        LIMIT :stop_above + 1) AS found
"""  # noqa: S608 - a constant
_REQUEST = text(f"""
    WITH shown AS MATERIALIZED ({_SHOWN})
    INSERT INTO frozen_branch_rulesets AS s (repository_id, organization_id, due_at, may_stop)
    SELECT r.id, r.organization_id, :now, shown.heads > CASE WHEN {_PAUSED} THEN 0 ELSE :stop_above END
    FROM repositories r
    CROSS JOIN shown
    JOIN installations i ON i.id = r.installation_id
    LEFT JOIN frozen_branch_rulesets known ON known.repository_id = r.id
    WHERE r.id IN (SELECT repository_id FROM watched_branches WHERE id = ANY(:ids))
      AND (known.due_at IS NOT NULL OR known.writing IS NOT NULL OR known.branch_names <> '{{}}'
           OR known.stop_context IS NOT NULL OR {WRITABLE}
           AND EXISTS (SELECT FROM watched_branches b JOIN freeze_targets t ON t.branch_id = b.id
                       JOIN freezes f ON f.id = t.freeze_id
                       WHERE b.repository_id = r.id AND t.operation = 'apply' AND {IN_FORCE}))
    ORDER BY r.id
    ON CONFLICT (repository_id) DO UPDATE
    SET attempts = 0, due_at = {REQUEST.format(row="s")}, may_stop = s.may_stop OR excluded.may_stop
    RETURNING may_stop OR stop_context IS NOT NULL OR stop_ending_at IS NOT NULL
""")  # noqa: S608 - a constant


_PAUSED_OPEN = text(f"""
    SELECT DISTINCT b.id {_SHOWING}
    JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id
    JOIN freeze_targets t ON t.branch_id = b.id AND t.operation = 'apply'
    JOIN freezes f ON f.id = t.freeze_id
    LEFT JOIN frozen_branch_rulesets known ON known.repository_id = r.id
    WHERE {_PAUSED} AND {INCOMPLETE} AND {IN_FORCE} AND f.blocked_at IS NULL AND {WRITABLE}
      AND NOT coalesce(known.may_stop, false)
    ORDER BY b.id LIMIT 1000
""")
_IS_LOST: LiteralString = (
    "s.stop_context IS NULL AND s.stop_ending_at IS NULL AND coalesce(s.written_at < :enforced, true)"
)
# Of what is known nothing is inserted, since a conflict locks its row, also where nothing has to be updated.
_LOST_STOPS = text(f"""
    INSERT INTO frozen_branch_rulesets AS s (repository_id, organization_id, due_at, stop_context, stop_written_at)
    SELECT DISTINCT r.id, r.organization_id, CAST(:now AS timestamptz), :context, CAST(:seen_at AS timestamptz)
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    LEFT JOIN frozen_branch_rulesets s ON s.repository_id = r.id
    WHERE b.id = ANY(:ids) AND {_IS_LOST} ORDER BY r.id
    ON CONFLICT (repository_id) DO UPDATE
    SET attempts = 0, due_at = {REQUEST.format(row="s")}, stop_context = excluded.stop_context,
        stop_written_at = excluded.stop_written_at, stop_in_force_at = NULL, stop_passed = '{{}}'
    WHERE {_IS_LOST}
    RETURNING repository_id
""")  # noqa: S608 - a constant
_LOST_STOPS_ABOVE = text("""
    INSERT INTO organization_stops (id, organization_id, installation_id, due_at, stop_context, stop_written_at)
    SELECT DISTINCT ON (r.installation_id) :id || r.installation_id, r.organization_id, r.installation_id,
        CAST(:now AS timestamptz), :context, CAST(:seen_at AS timestamptz)
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE b.id = ANY(:ids) AND NOT EXISTS (
        SELECT FROM organization_stops o WHERE o.installation_id = r.installation_id
          AND (o.stop_context IS NOT NULL OR o.stop_ending_at IS NOT NULL OR o.written_at >= :enforced))
    ON CONFLICT (id) DO UPDATE
    SET due_at = excluded.due_at, stop_context = excluded.stop_context, stop_written_at = excluded.stop_written_at,
        ruleset_id = NULL, node_id = NULL, stop_in_force_at = NULL, stop_passed = '{}'
    RETURNING id
""")
# Of the organisation, to which repositories of these branches left their stop: locked before the rows of repositories.
_REQUEST_ABOVE = text(f"""
    UPDATE organization_stops o SET attempts = 0, due_at = {REQUEST.format(row="o")}
    WHERE (o.may_stop OR o.stop_context IS NOT NULL) AND o.id IN (
        SELECT organization_stop_id FROM frozen_branch_rulesets WHERE repository_id IN (
            SELECT repository_id FROM watched_branches WHERE id = ANY(:ids)))
""")  # noqa: S608 - a constant
_HAS_STOP = text("""
    SELECT EXISTS (
        SELECT FROM watched_branches b JOIN frozen_branch_rulesets s ON s.repository_id = b.repository_id
        WHERE b.id = ANY(:ids) AND (s.stop_context IS NOT NULL OR s.organization_stop_id IS NOT NULL))
""")
_REQUEST_STOPS = text(f"""
    UPDATE frozen_branch_rulesets s SET due_at = {REQUEST.format(row="s")}
    WHERE s.stop_context IS NOT NULL AND s.repository_id IN (
        SELECT repository_id FROM watched_branches WHERE id = ANY(:ids))
""")  # noqa: S608 - a constant


def request_stops(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Have the stops of these branches looked at, if any is on: an exception may let a commit in, or not any more."""
    values = {"ids": list(branch_ids), "now": uow.now}
    if uow.session.scalar(_HAS_STOP, values):
        for statement in (_REQUEST_ABOVE, _REQUEST_STOPS):
            if cast(CursorResult[Any], uow.session.execute(statement, values)).rowcount:
                uow.wake(STOPS_JOB)


def record_lost_stops(uow: UnitOfWork, branch_ids: Collection[str], seen_at: datetime, level: str) -> None:
    """Record that repositories, or their organisation, have a stop whose record is lost, so that it ends.

    Rules of this level that were read from `seen_at` on required one of these branches: the database was restored. It
    gets a context that GitHub never had: no commit that passed the lost one may pass again. A write that GitHub may not
    have enforced at that time is no loss.
    """
    delay = uow.ports[GitHubLimits].ruleset_delay
    values = {"ids": sorted(branch_ids), "now": uow.now, "seen_at": seen_at, "enforced": seen_at - delay}
    statement = _LOST_STOPS if level == "repository" else _LOST_STOPS_ABOVE
    context = stop_context(secrets.token_hex(8))
    if branch_ids and uow.session.scalars(statement, {**values, "context": context, "id": "ost_lost_"}).all():
        uow.wake(STOPS_JOB)


def request_stops_while_paused(uow: UnitOfWork) -> None:
    """Have branches stopped on which heads show `success` while their checks may not be written for some time."""
    request_frozen_rulesets(uow, uow.session.scalars(_PAUSED_OPEN, {"now": uow.now}).all())


def request_frozen_rulesets(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Make the rulesets of these branches' repositories due, where they name branches, or must, or may do so.

    The rows are locked in the order of their ids: a transaction that ends several freezes calls this for the branches
    of all of them at once, before it ends the first.
    """
    if branch_ids:
        limit = uow.ports[GitHubLimits].stop_above
        values = {"ids": list(branch_ids), "now": uow.now, "stop_above": limit}
        if cast(CursorResult[Any], uow.session.execute(_REQUEST_ABOVE, values)).rowcount:
            uow.wake(STOPS_JOB)
        for stops in set(uow.session.scalars(_REQUEST, values)):
            uow.wake(STOPS_JOB if stops else JOB)
