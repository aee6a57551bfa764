"""Invitations: how long one is good, and the state that follows from its instants."""

from datetime import datetime, timedelta
from typing import Literal, Protocol

InvitationState = Literal["pending", "accepted", "revoked", "expired"]
LIFETIME = timedelta(days=7)


class Instants(Protocol):
    """What an invitation's state follows from."""

    @property
    def accepted_at(self) -> datetime | None:
        """When it was accepted, if it was."""

    @property
    def revoked_at(self) -> datetime | None:
        """When it was revoked, if it was."""

    @property
    def expires_at(self) -> datetime:
        """From when on it is good no more."""


def state_at(now: datetime, invitation: Instants) -> InvitationState:
    """Return the state of an invitation at an instant; one that was decided upon does not expire."""
    if invitation.accepted_at is not None:
        return "accepted"
    if invitation.revoked_at is not None:
        return "revoked"
    return "pending" if now < invitation.expires_at else "expired"
