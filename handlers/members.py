"""Operations of the tag Members."""

from typing import Any

from handlers.entity_tags import tagged
from rules.access.invitations import InvitationState
from schemas.replies import SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.notifications import mail_choices
from services.organizations import members, received_invitations, sent_invitations


def list_members(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List members by name."""
    return members.list_members(uow, cursor, limit)


def update_member(uow: UnitOfWork, user_id: str, body: dict[str, Any]) -> object:
    """Change a member's role."""
    return members.change_role(uow, user_id, body.get("role"))


def remove_member(uow: UnitOfWork, user_id: str) -> None:
    """End a membership."""
    members.remove(uow, user_id)


def list_invitations(uow: UnitOfWork, state: InvitationState | None, limit: int, cursor: str | None) -> Page:
    """List the organisation's invitations, newest first."""
    return sent_invitations.list_invitations(uow, state, cursor, limit)


def create_invitation(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Invite an e-mail address."""
    return sent_invitations.invite(uow, body["email"], body["role"])


def revoke_invitation(uow: UnitOfWork, invitation_id: str) -> None:
    """Revoke a pending invitation."""
    sent_invitations.revoke(uow, invitation_id)


def get_invitation_link(uow: UnitOfWork, invitation_id: str) -> SecretReply:
    """Create a link for a pending invitation."""
    return SecretReply(sent_invitations.create_link(uow, invitation_id))


def list_pending_invitations(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the pending invitations to the current user's address."""
    return received_invitations.list_pending(uow, cursor, limit)


def preview_invitation(uow: UnitOfWork, token: str) -> object:
    """Return the invitation of a mailed token."""
    return received_invitations.preview(uow, token)


def accept_invitation(uow: UnitOfWork, invitation_id: str) -> object:
    """Accept an invitation."""
    return received_invitations.accept(uow, invitation_id)


def get_my_notifications(uow: UnitOfWork) -> object:
    """Return what the current user gets mails of."""
    return tagged(mail_choices.show(uow))


def update_my_notifications(uow: UnitOfWork, body: dict[str, Any], if_match: str | None) -> object:
    """Change what the current user gets mails of."""
    return tagged(mail_choices.change(uow, body.get("kinds"), body.get("remind_before"), if_match))
