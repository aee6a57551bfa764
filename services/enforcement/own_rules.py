"""Rules of their own for branches that begin to be watched, in repositories where an administrator authorised us.

The pattern's rule protects a branch from the moment it is created, but only its own rule lets it be frozen without its
siblings. Where the App may write, a setup for it is queued as soon as a probe finds that it has none: once, so that one
that people remove stays removed. Elsewhere the light is amber until a person sets up enforcement.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import text

from rules.access.permissions import SYSTEM
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.enforcement.setups import queue_setup

PERMISSION = "administration"
"""What the App needs to write the rulesets of a repository."""

_MISSING = text("""
    UPDATE branch_enforcement e SET rule_requested_at = :now
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE b.id = e.branch_id AND e.branch_id = ANY(:ids) AND e.rule_requested_at IS NULL
      AND b.pattern_check_name IS NOT NULL AND e.required AND NOT e.own_rule AND b.unwatched_at IS NULL
      AND r.enabled AND NOT r.archived AND r.removed_at IS NULL AND r.rulesets_authorized_at IS NOT NULL
    RETURNING e.branch_id, r.owner || '/' || r.name, b.name
""")


def request_own_rules(
    uow_factory: UnitOfWorkFactory,
    organization_id: str,
    branch_ids: Collection[str],
    permissions: Mapping[str, str],
) -> None:
    """Queue setups for those of these branches that only the rule of their pattern protects."""
    if permissions.get(PERMISSION) != "write":
        return
    with uow_factory.open(Caller(organization_id, SYSTEM, SYSTEM_CALLER.source)) as uow:
        for branch_id, repository, branch in uow.session.execute(_MISSING, {"ids": list(branch_ids), "now": uow.now}):
            setup = queue_setup(uow, {"type": "branch", "branchId": branch_id}, 1)
            target = ("branch", branch_id, f"{repository}:{branch}")
            uow.audit("enforcement.setup_requested", target, scope=setup.scope, changes=1, setupId=setup.id)
