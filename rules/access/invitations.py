"""Invitations: how long one is good, and the states that it can have."""

from datetime import timedelta
from typing import Literal

InvitationState = Literal["pending", "accepted", "revoked", "expired"]
LIFETIME = timedelta(days=7)
