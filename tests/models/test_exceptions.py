"""The states of exceptions, which follow from their instants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.exceptions import PullRequestException
from rules.freezes.pull_request_exceptions import OPEN_STATES, STATES, ExceptionState

NOW = datetime(2026, 11, 20, 17, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
instants = st.none() | st.sampled_from([NOW - MOMENT, NOW, NOW + MOMENT])
decisions = st.sampled_from([None, "granted", "denied"])


def state(now: datetime = NOW, **facts: Any) -> ExceptionState:
    freeze_in_force = facts.pop("freeze_in_force", True)
    return PullRequestException(**facts).state(now, freeze_in_force=freeze_in_force)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "pending"),
        ({"decision": "granted"}, "granted"),
        ({"decision": "denied"}, "denied"),
        ({"revoked_at": NOW}, "revoked"),
        ({"decision": "granted", "revoked_at": NOW}, "revoked"),
        ({"expires_at": NOW}, "expired"),
        ({"expires_at": NOW + MOMENT}, "pending"),
        ({"decision": "granted", "expires_at": NOW}, "expired"),
        ({"decision": "granted", "expires_at": NOW + MOMENT}, "granted"),
        ({"decision": "granted", "freeze_in_force": False}, "expired"),
        ({"freeze_in_force": False}, "expired"),
        ({"decision": "granted", "expired_at": NOW}, "expired"),
        ({"decision": "denied", "freeze_in_force": False, "expires_at": NOW}, "denied"),
        ({"decision": "granted", "revoked_at": NOW, "freeze_in_force": False}, "revoked"),
    ],
    ids=str,
)
def test_state_follows_from_the_instants(facts: dict[str, Any], expected: str) -> None:
    assert state(**facts) == expected


@given(decisions, instants, instants, instants)
def test_final_state_never_changes(
    decision: str | None, revoked_at: datetime | None, expired_at: datetime | None, expires_at: datetime | None
) -> None:
    facts: dict[str, Any] = {
        "decision": decision,
        "revoked_at": revoked_at,
        "expired_at": expired_at,
        "expires_at": expires_at,
    }
    before, later = state(**facts), state(NOW + timedelta(days=1), **facts)
    assert before in STATES
    if before not in OPEN_STATES:
        assert later == before
    else:
        assert later in {before, "expired"}


@given(decisions, instants)
def test_state_does_not_change_when_the_end_is_recorded(decision: str | None, expires_at: datetime | None) -> None:
    ended = state(decision=decision, expires_at=expires_at, freeze_in_force=False)
    assert state(decision=decision, expires_at=expires_at, freeze_in_force=False, expired_at=NOW) == ended
