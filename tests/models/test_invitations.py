"""The state of an invitation, which follows from its instants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from models.identity import Invitation

NOW = datetime(2026, 11, 20, 16, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({}, "pending"),
        ({"expires_at": NOW}, "expired"),
        ({"expires_at": NOW - SECOND}, "expired"),
        ({"accepted_at": NOW}, "accepted"),
        ({"accepted_at": NOW, "expires_at": NOW - SECOND}, "accepted"),
        ({"revoked_at": NOW}, "revoked"),
        ({"revoked_at": NOW, "expires_at": NOW - SECOND}, "revoked"),
    ],
    ids=str,
)
def test_invitation_state_follows_from_the_instants(columns: dict[str, Any], state: str) -> None:
    assert Invitation(**{"expires_at": NOW + SECOND, **columns}).state(NOW) == state
