"""Requests for probes: make branches due after a change of what is watched, or of rules on GitHub.

A branch that is requested during a probe of it stays due, because that probe may have read too early.
"""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import text

from models.freezes import IN_FORCE
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST

_SCHEDULE = """
    INSERT INTO branch_enforcement AS e (branch_id, organization_id, due_at, rules_reported_at)
    SELECT b.id, b.organization_id, :now, CAST(:reported_at AS timestamptz)
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id
    WHERE {which}
    ORDER BY b.id
    ON CONFLICT (branch_id) DO UPDATE
    SET attempts = 0, due_at = {request},
        rules_reported_at = coalesce(excluded.rules_reported_at, e.rules_reported_at)
"""
_REQUEST = REQUEST.format(row="e")
_THESE = text(_SCHEDULE.format(request=_REQUEST, which="b.id = ANY(:ids)"))
_OF_REPOSITORY = text(_SCHEDULE.format(request=_REQUEST, which="r.github_id = :github_id AND r.removed_at IS NULL"))
_OF_INSTALLATION = text(_SCHEDULE.format(request=_REQUEST, which="i.id = :installation AND r.removed_at IS NULL"))
_OF_FROZEN = text(
    _SCHEDULE.format(
        request=_REQUEST,
        which=f"""
        i.state = 'active' AND r.removed_at IS NULL AND b.id IN (
            SELECT t.branch_id FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id AND t.operation = 'apply'
            WHERE f.ended_at IS NULL AND {IN_FORCE})
        AND NOT EXISTS (SELECT FROM branch_enforcement seen WHERE seen.branch_id = b.id
                        AND (seen.rules_read_at > :read_before OR seen.due_at IS NOT NULL))
        """,  # noqa: S608 - a constant
    )
)
_RESOLVE_ALERTS = text("""
    WITH gone AS (
        SELECT a.id FROM attention_items a
        JOIN watched_branches b ON b.id = a.subject ->> 'id' AND b.organization_id = a.organization_id
        JOIN repositories r ON r.id = b.repository_id
        JOIN installations i ON i.id = r.installation_id
        WHERE a.cleared_at IS NULL AND a.type IN ('unenforced_branch', 'orphaned_requirement')
          AND (r.removed_at IS NOT NULL OR i.state = 'removed')
        ORDER BY a.key FOR UPDATE OF a
    )
    UPDATE attention_items a SET cleared_at = :now FROM gone WHERE a.id = gone.id
""")


def schedule_probes(uow: UnitOfWork, branch_ids: Collection[str], *, rules_changed: bool = False) -> None:
    """Schedule probes of these branches now; `rules_changed`: what was read of their rules may be wrong."""
    if branch_ids:
        uow.session.execute(_THESE, {"ids": list(branch_ids), **_values(uow, rules_changed=rules_changed)})
        uow.wake("verify")


def schedule_repository_probes(uow: UnitOfWork, github_id: int, *, rules_changed: bool) -> None:
    """Schedule probes of every branch of a repository that we know, watched or not."""
    uow.session.execute(_OF_REPOSITORY, {"github_id": github_id, **_values(uow, rules_changed=rules_changed)})
    uow.wake("verify")


def schedule_installation_probes(uow: UnitOfWork, installation_id: int, *, rules_changed: bool) -> None:
    """Schedule probes of every branch of an installation that we know, watched or not."""
    uow.session.execute(
        _OF_INSTALLATION, {"installation": installation_id, **_values(uow, rules_changed=rules_changed)}
    )
    uow.wake("verify")


def _values(uow: UnitOfWork, *, rules_changed: bool = False) -> dict[str, datetime | None]:
    return {"now": uow.now, "reported_at": uow.now if rules_changed else None}


def schedule_probes_of_frozen(uow: UnitOfWork, read_before: datetime) -> None:
    """Schedule probes of frozen branches whose rules were last read before an instant, or never."""
    if uow.session.execute(_OF_FROZEN, {"read_before": read_before, **_values(uow)}).rowcount:  # type: ignore[attr-defined]
        uow.wake("verify")


def resolve_unprobed_alerts(uow: UnitOfWork) -> None:
    """Resolve the alerts of branches that cannot be probed any more."""
    uow.session.execute(_RESOLVE_ALERTS, {"now": uow.now})
