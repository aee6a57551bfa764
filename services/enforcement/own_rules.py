"""Rules of their own for watched branches, in repositories where an administrator authorised us.

Only its own rule lets a branch be frozen without its siblings, and a branch that was watched by name has no other.
Where the App may write, a setup for it is queued as soon as a probe finds that it has none, however it came to be
watched: once, so that one that people remove stays removed. Elsewhere its light tells people to set up enforcement.

While a setup of more than one branch is under way, which may write the rule as well, none is queued; at its end the
branches that still have no rule are probed again.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import text

from rules.access.permissions import SYSTEM
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.setups import queue_setup

PERMISSION = "administration"
"""What the App needs to write the rulesets of a repository."""

_WITHOUT_RULE = """
    b.id = e.branch_id AND e.rule_requested_at IS NULL AND NOT e.own_rule AND b.unwatched_at IS NULL
    AND r.enabled AND NOT r.archived AND r.removed_at IS NULL AND r.rulesets_authorized_at IS NOT NULL
"""
_REQUEST = text(f"""
    UPDATE branch_enforcement e SET rule_requested_at = :now
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE {_WITHOUT_RULE} AND e.branch_id = ANY(:ids) AND NOT EXISTS (
        SELECT FROM enforcement_setups s WHERE s.organization_id = e.organization_id AND s.due_at IS NOT NULL
          AND s.scope ->> 'type' <> 'branch')
    RETURNING e.branch_id, r.owner || '/' || r.name, b.name
""")  # noqa: S608 - a constant
_FIND = text(f"""
    SELECT b.id FROM branch_enforcement e, watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE {_WITHOUT_RULE} AND e.organization_id = :organization
""")  # noqa: S608 - a constant


def request_own_rules(
    uow_factory: UnitOfWorkFactory,
    organization_id: str,
    branch_ids: Collection[str],
    permissions: Mapping[str, str],
) -> None:
    """Queue setups for those of these branches that have no rule of their own."""
    if permissions.get(PERMISSION) != "write":
        return
    with uow_factory.open(Caller(organization_id, SYSTEM, SYSTEM_CALLER.source)) as uow:
        requested = uow.session.execute(_REQUEST, {"ids": list(branch_ids), "now": uow.now}).all()
        for branch_id, repository, branch in requested:
            setup = queue_setup(uow, {"type": "branch", "branchId": branch_id}, 1)
            target = ("branch", branch_id, f"{repository}:{branch}")
            scope = {**setup.scope, "repository": repository, "branch": branch}
            uow.audit("enforcement.setup_requested", target, scope=scope, changes=1, setupId=setup.id)


def branches_without_rule(uow: UnitOfWork) -> Sequence[str]:
    """Return the ids of the organisation's branches for which no rule of their own was requested or found yet."""
    return uow.session.scalars(_FIND, {"organization": uow.organization}).all()
