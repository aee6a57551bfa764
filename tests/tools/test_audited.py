"""What the audit has of a success is compared with what the contract says: shown by operations that do wrong."""

from typing import Any

import pytest

from rules.audit.actions import ACTIONS, EVENTS
from schemas.contract import load_contract
from tools.fuzz.audited import MAY_CHANGE_NOTHING, AuditedAction, audit_error

OPERATIONS = load_contract().operations
WRITES = [one for one in OPERATIONS.values() if one.effect == "write"]
UNRECORDED = {
    "receive_github_webhook",
    "receive_slack_webhook",
    "receive_stripe_webhook",
    "sign_up",
    "verify_email",
    "forgot_password",
    "device_code",
    "device_lookup",
}
"""Webhooks are worked on later, and what is done for them is recorded then; the others happen before there is an
organisation to record them in."""
CHANGE = {"before": {"endsAt": None}, "after": {"endsAt": "2027-01-04T08:00:00Z"}}
BEFORE_AND_AFTER: dict[str, Any] = {"before": None, "after": {}}


def entry(action: str = "freeze.extended", target: str = "frz_1", **details: Any) -> AuditedAction:
    return AuditedAction(action, "org_1", target, details or CHANGE)


def error_of(operation_id: str, *entries: AuditedAction) -> str | None:
    return audit_error(OPERATIONS[operation_id], entries)


def test_every_write_within_an_organization_is_audited() -> None:
    assert {one.id for one in WRITES if not one.audit} == UNRECORDED


def test_success_without_an_audit_entry_is_a_fault() -> None:
    for operation in [one for one in WRITES if one.audit]:
        found = audit_error(operation, [])
        may = operation.id in MAY_CHANGE_NOTHING or operation.database_role == "identity"
        assert (found is None) is may


def test_success_with_another_audit_action_is_a_fault() -> None:
    for operation in [one for one in WRITES if one.audit]:
        for action in sorted(ACTIONS.keys() - set(operation.audit)):
            assert audit_error(operation, [entry(action, "x_1", **BEFORE_AND_AFTER)]) is not None


def test_success_with_the_audit_action_of_the_contract_is_accepted() -> None:
    for operation in [one for one in WRITES if one.audit]:
        for action in operation.audit:
            assert audit_error(operation, [entry(action, "x_1", **BEFORE_AND_AFTER)]) is None


def test_read_with_an_audit_entry_is_a_fault() -> None:
    found = error_of("list_freezes", entry("freeze.started", "x_1", **BEFORE_AND_AFTER))
    assert found == "list_freezes recorded freeze.started, which its x-audit does not name"


@pytest.mark.parametrize("instant", ["2027-01-04T08:00:00+00:00", "2027-01-04T08:00:00", "2027-01-04T08:00:00.5+01:00"])
def test_instant_in_another_format_than_the_api_is_a_fault(instant: str) -> None:
    found = error_of("extend_freeze", entry(before={"endsAt": None}, after={"rows": [{"endsAt": instant}]}))
    assert found == f"extend_freeze recorded instants in another format than the API's: {instant}"
    assert error_of("extend_freeze", entry(before={"endsAt": None}, after={"endsAt": "2027-01-04T08:00:00.5Z"})) is None


def test_repeated_audit_entry_of_a_target_is_a_fault() -> None:
    assert error_of("lift_freezes", *(entry("freeze.lifted", target) for target in ("frz_1", "frz_2"))) is None
    twice = error_of("lift_freezes", entry("freeze.lifted"), entry("freeze.lifted"))
    assert twice == "lift_freezes recorded freeze.lifted of one target more than once"


def test_change_without_before_and_after_is_a_fault() -> None:
    found = error_of("extend_freeze", entry(reason="none"))
    assert found is not None
    assert found.startswith("extend_freeze recorded freeze.extended without before= and after=; ")
    assert error_of("extend_freeze", entry()) is None


def test_every_row_of_an_audit_entry_requires_before_and_after() -> None:
    assert error_of("create_exception", entry("exception.granted", rows=[CHANGE, CHANGE])) is None
    assert error_of("create_exception", entry("exception.granted", rows=[CHANGE, {"after": {}}])) is not None


def test_event_requires_no_before_and_after() -> None:
    assert "freeze.retried" in EVENTS
    assert error_of("retry_freeze", entry("freeze.retried", targets=1)) is None
