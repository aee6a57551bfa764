"""The restriction of new accounts to the policy of the service.

The decision depends only on the address and on its invitations, never on whether an account exists. A stranger is not
shown either whether an address has been invited: the sign-up needs the token of the invitation's mail. A person who
follows the link in the mail of the sign-up has the address, so that a pending invitation is enough then.
"""

from sqlalchemy import exists, select

from models.identity import Invitation
from models.organizations import Organization
from rules.access.sign_up import SignUpPolicy
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens


def require_permitted(uow: UnitOfWork, email: str, invitation_token: str | None) -> None:
    """Raise `sign_up_restricted` unless the policy or the invitation of a token permits an account of this address."""
    if uow.ports[SignUpPolicy].permits(email):
        return
    link = one_time_tokens.peek(uow, "invitation", invitation_token) if invitation_token is not None else None
    if link is None or not _is_invited(uow, email, link.subject):
        raise _restricted(uow)


def require_still_permitted(uow: UnitOfWork, email: str) -> None:
    """Raise `sign_up_restricted` unless the policy or an invitation permits an account of a confirmed address."""
    if not uow.ports[SignUpPolicy].permits(email) and not _is_invited(uow, email):
        raise _restricted(uow)


def _is_invited(uow: UnitOfWork, email: str, invitation_id: str | None = None) -> bool:
    """True if an invitation of the address is pending: the one with this id, or without an id any."""
    pending = exists().where(
        Invitation.email == email,
        Invitation.has_state("pending", uow.now),
        Organization.id == Invitation.organization_id,
        Organization.deleted_at.is_(None),
    )
    if invitation_id is not None:
        pending = pending.where(Invitation.id == invitation_id)
    return bool(uow.session.scalar(select(pending)))


def _restricted(uow: UnitOfWork) -> ServiceError:
    message = f"{uow.ports[SignUpPolicy].summary} Sign up with the link in the mail of your invitation."
    return ServiceError("sign_up_restricted", message)
