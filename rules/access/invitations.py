"""Lifetime and states of invitations."""

from datetime import timedelta
from typing import Literal

InvitationState = Literal["pending", "accepted", "revoked", "expired"]
LIFETIME = timedelta(days=7)
