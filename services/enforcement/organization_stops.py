"""Stops of organisations: which repositories leave their stop to one ruleset of their organisation.

Where the App may write rulesets of the organisation, and the same branches are frozen in more repositories that need a
stop than `GitHubLimits.shared_above`, they leave it to one row of `organization_stops`. From then on that row is a
place as a repository is (`stops.py`): its need and its branches follow from the repositories that left it their stop.

A repository has a stop of its own again (`recall`) where the organisation's ruleset cannot be written, or where other
branches are frozen there now, also where some were freed (`begin_own_stops`). Once that is in force, the organisation's
ruleset names the repository no more.
"""

from collections.abc import Sequence
from typing import LiteralString

from sqlalchemy import select, text

from models.enforcement import OrganizationStop
from models.installations import Installation
from rules.freezes.stops import Names, shared_stops
from rules.ids import new_id
from rules.rate_budget import GitHubLimits
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import REQUEST
from services.enforcement.ruleset_facts import read_facts
from services.enforcement.stop_steps import HELD_FOR

MAX_RULESETS = 5
"""How many rulesets of ours an organisation has for stops at most: GitHub accepts 75 of it."""

# Those that the queue of stops would give away.
_CANDIDATES: LiteralString = """
    SELECT s.repository_id FROM frozen_branch_rulesets s
    JOIN repositories r ON r.id = s.repository_id
    WHERE r.installation_id = :installation AND r.removed_at IS NULL AND NOT r.archived
      AND r.rulesets_authorized_at IS NOT NULL
      AND s.may_stop AND s.due_at <= :now AND s.stop_context IS NULL AND s.organization_stop_id IS NULL
      AND (s.lease_until IS NULL OR s.lease_until <= :now)
"""
_FIND = text(_CANDIDATES)
_LOCK = text(f"""{_CANDIDATES} AND s.repository_id = ANY(:chosen)
    ORDER BY s.repository_id FOR NO KEY UPDATE OF s SKIP LOCKED
""")
_LEAVE = text("""
    UPDATE frozen_branch_rulesets SET organization_stop_id = :stop, due_at = :due WHERE repository_id = ANY(:chosen)
""")
_REQUEST = text(f"UPDATE organization_stops s SET due_at = {REQUEST.format(row='s')}, attempts = 0 WHERE id = :stop")  # noqa: S608 - a constant


def leave_to_organization(uow_factory: UnitOfWorkFactory, installation_id: int) -> bool:
    """Have repositories leave the stop that they need to rulesets of their organisation; False if none does."""
    above = uow_factory.ports[GitHubLimits].shared_above
    with uow_factory.open(SYSTEM_CALLER) as uow:
        installation = uow.session.get_one(Installation, installation_id)
        if installation.permissions.get("organization_administration") != "write":
            return False
        if len(_find(uow, installation_id)) <= above:
            return False
        acquire_lock(uow, f"stops of installation {installation_id}")
        ids = _find(uow, installation_id)
        needing = [facts for facts in read_facts(uow, ids) if facts.needs_stop]
        shared = shared_stops({facts.key: frozenset(each.name for each in facts.frozen) for facts in needing}, above)
        if not shared:
            return False
        stops = _locked(uow, installation_id)
        left = [_leave(uow, installation, stops, names, ids) for names, ids in shared]
    return any(left)


def _find(uow: UnitOfWork, installation_id: int) -> Sequence[str]:
    return uow.session.scalars(_FIND, {"installation": installation_id, "now": uow.now}).all()


def _locked(uow: UnitOfWork, installation_id: int) -> list[OrganizationStop]:
    """Return the stops of an organisation, the oldest first; they are locked before rows of repositories are."""
    query = select(OrganizationStop).where(OrganizationStop.installation_id == installation_id)
    return list(uow.session.scalars(query.order_by(OrganizationStop.id).with_for_update(key_share=True)))


def _leave(
    uow: UnitOfWork, installation: Installation, stops: list[OrganizationStop], names: Names, ids: Sequence[str]
) -> bool:
    stop = _chosen(uow, installation, stops, names)
    if stop is None:
        return False
    values = {"installation": installation.id, "now": uow.now, "chosen": list(ids)}
    chosen = uow.session.scalars(_LOCK, values).all()
    if len(chosen) <= uow.ports[GitHubLimits].shared_above:
        return False
    stop.branch_names, stop.may_stop = sorted(names), True
    uow.session.flush()
    uow.session.execute(_LEAVE, {"stop": stop.id, "due": uow.now + HELD_FOR, "chosen": list(chosen)})
    uow.session.execute(_REQUEST, {"stop": stop.id, "now": uow.now})
    return True


def _chosen(
    uow: UnitOfWork, installation: Installation, stops: list[OrganizationStop], names: Names
) -> OrganizationStop | None:
    """Return the stop of these branches, or one that is free; None if all are used, or GitHub refused the last one."""
    works = [each for each in stops if each.last_error_code is None]
    same = [each for each in works if (each.may_stop or each.stop_context) and set(each.branch_names) == names]
    free = [each for each in works if not (each.may_stop or each.stop_context or each.stop_ending_at)]
    if same or free:
        return (same or free)[0]
    if len(stops) >= MAX_RULESETS or len(works) < len(stops):
        return None
    made = OrganizationStop(
        id=new_id("ost"), organization_id=installation.organization_id, installation_id=installation.id
    )
    uow.session.add(made)
    uow.session.flush()
    stops.append(made)
    return made
