"""Who may decide on exceptions: a key by its scope, a person by the role that the organisation asks for.

Nobody decides on a request of their own, unless the organisation has allowed that; the audit then says so.
"""

from collections.abc import Iterable

from models.exceptions import PullRequestException
from models.organizations import Membership, Organization
from rules.access.organization_settings import OrganizationSettings
from rules.access.permissions import ROLES, role_reaches
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork


def settings_of(uow: UnitOfWork) -> OrganizationSettings:
    """Return what the organisation has set for itself."""
    return OrganizationSettings.from_json(uow.session.get_one(Organization, uow.organization).settings)


def may_decide(uow: UnitOfWork) -> bool:
    """Tell whether the caller may grant, deny and revoke; a key that got this far has the scope for it."""
    if uow.actor.type == "api_key":
        return True
    membership = uow.session.get(Membership, (uow.organization, uow.caller.principal_id))
    role = next((role for role in ROLES if membership is not None and role == membership.role), None)
    return role_reaches(role, settings_of(uow).approval)


def require_decider(uow: UnitOfWork) -> None:
    """Raise `insufficient_permission` unless the caller may grant, deny and revoke."""
    if not may_decide(uow):
        raise ServiceError(
            "insufficient_permission",
            f"Granting, denying and revoking exceptions needs the role {settings_of(uow).approval} in this "
            "organisation.",
        )


def is_own(uow: UnitOfWork, row: PullRequestException) -> bool:
    """Tell whether the caller made this request."""
    asked = row.requested_by or {}
    return uow.actor.id is not None and (asked.get("type"), asked.get("id")) == (uow.actor.type, uow.actor.id)


def check_own(uow: UnitOfWork, rows: Iterable[PullRequestException]) -> bool:
    """Tell whether one of the requests that are to be decided is the caller's own.

    Raises `insufficient_permission` if it is, unless the organisation has set `selfApproval`.
    """
    own = any(is_own(uow, row) for row in rows)
    if own and not settings_of(uow).self_approval:
        raise ServiceError(
            "insufficient_permission",
            "Nobody decides on a request of their own here; somebody else has to, or you revoke it.",
        )
    return own
