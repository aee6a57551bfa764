"""Operations of the tag Members."""

from typing import Any

from rules.access.invitations import InvitationState
from schemas.replies import SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import Unit
from services.organizations import invitations, inviting, members


def list_members(unit: Unit, limit: int, cursor: str | None) -> Page:
    """List members by name."""
    return members.list_members(unit, cursor, limit)


def update_member(unit: Unit, user_id: str, body: dict[str, Any]) -> object:
    """Give a member another role."""
    return members.change_role(unit, user_id, body["role"])


def remove_member(unit: Unit, user_id: str) -> None:
    """End a membership."""
    members.remove(unit, user_id)


def list_invitations(unit: Unit, state: InvitationState | None, limit: int, cursor: str | None) -> Page:
    """List the organisation's invitations, the newest first."""
    return inviting.list_invitations(unit, state, cursor, limit)


def create_invitation(unit: Unit, body: dict[str, Any]) -> object:
    """Invite somebody by e-mail."""
    return inviting.invite(unit, body["email"], body["role"])


def revoke_invitation(unit: Unit, invitation_id: str) -> None:
    """Take a pending invitation back."""
    inviting.revoke(unit, invitation_id)


def get_invitation_link(unit: Unit, invitation_id: str) -> SecretReply:
    """Mint a link to a pending invitation."""
    return SecretReply(inviting.link(unit, invitation_id))


def list_pending_invitations(unit: Unit, limit: int, cursor: str | None) -> Page:
    """List the pending invitations to the address of the person who asks."""
    return invitations.list_pending(unit, cursor, limit)


def preview_invitation(unit: Unit, token: str) -> object:
    """Show the invitation that a mailed token is for."""
    return invitations.preview(unit, token)


def accept_invitation(unit: Unit, invitation_id: str) -> object:
    """Become a member."""
    return invitations.accept(unit, invitation_id)
