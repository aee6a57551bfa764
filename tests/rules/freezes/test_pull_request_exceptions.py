"""The states of exceptions, and why one that was granted may have no effect."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.freezes.pull_request_exceptions import (
    OPEN_STATES,
    STATES,
    Effect,
    ExceptionState,
    ineffective_reason,
    state_of,
)

NOW = datetime(2026, 11, 20, 17, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
instants = st.none() | st.sampled_from([NOW - MOMENT, NOW, NOW + MOMENT])
decisions = st.sampled_from([None, "granted", "denied"])


def state(now: datetime = NOW, **facts: Any) -> ExceptionState:
    nothing: dict[str, Any] = {"decision": None, "revoked_at": None, "expired_at": None, "expires_at": None}
    return state_of(**{**nothing, "freeze_in_force": True, **facts}, now=now)


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
def test_an_exception_is(facts: dict[str, Any], expected: str) -> None:
    assert state(**facts) == expected


@given(decisions, instants, instants, instants)
def test_what_is_over_stays_over(
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
def test_recording_an_end_changes_nothing_that_is_shown(decision: str | None, expires_at: datetime | None) -> None:
    ended = state(decision=decision, expires_at=expires_at, freeze_in_force=False)
    assert state(decision=decision, expires_at=expires_at, freeze_in_force=False, expired_at=NOW) == ended


GOOD = Effect(
    open=True,
    on_its_base=True,
    on_its_head=True,
    covering={"frz_1"},
    excepted={"frz_1", "frz_2"},
    sharing_blocked=False,
    written=True,
)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, None),
        ({"covering": ()}, None),
        ({"open": False}, "closed"),
        ({"on_its_base": False}, "other_base"),
        ({"on_its_head": False}, "head_moved"),
        ({"excepted": {"frz_2"}}, "other_freeze"),
        ({"sharing_blocked": True}, "shared_head"),
        ({"written": False}, "not_written"),
        ({"written": False, "covering": ("frz_1", "frz_3")}, "other_freeze"),
        ({"written": False, "sharing_blocked": True}, "shared_head"),
    ],
    ids=str,
)
def test_a_granted_one_has_effect_unless(facts: dict[str, Any], reason: str | None) -> None:
    assert ineffective_reason(replace(GOOD, **facts)) == reason
