"""Who may make, read, change and delete schedules, and that those of others are not found."""

from collections.abc import Callable
from datetime import UTC, datetime, time

import httpx
import pytest
from sqlalchemy.orm import Session

from rules.ids import new_id
from services.schedules.later_occurrences import occurrence_id
from tests import factories
from tests.handlers.access_checks import takes_credentials
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.requests import FIRST, SOON, UNKNOWN, created

Call = Callable[[Caller, str], httpx.Response]


def _call_on_the_first_window(caller: Caller, schedule_id: str, action: str) -> httpx.Response:
    first = occurrence_id(schedule_id, datetime.combine(SOON, time(22), UTC))
    return caller.post(f"/v1/schedules/{schedule_id}/occurrences/{first}/{action}")


CALLS: dict[str, tuple[str, str, Call]] = {
    "list_schedules": ("schedule:read", "viewer", lambda caller, _: caller.get("/v1/schedules")),
    "create_schedule": ("schedule:write", "member", lambda caller, _: caller.post("/v1/schedules", FIRST)),
    "get_schedule": ("schedule:read", "viewer", lambda caller, one: caller.get(f"/v1/schedules/{one}")),
    "update_schedule": (
        "schedule:write",
        "member",
        lambda caller, one: caller.patch(f"/v1/schedules/{one}", {"name": "Late"}),
    ),
    "delete_schedule": ("schedule:write", "member", lambda caller, one: caller.delete(f"/v1/schedules/{one}")),
    "skip_next_occurrence": (
        "schedule:write",
        "member",
        lambda caller, one: caller.post(f"/v1/schedules/{one}/skip-next"),
    ),
    "skip_occurrence": ("schedule:write", "member", lambda caller, one: _call_on_the_first_window(caller, one, "skip")),
    "unskip_occurrence": (
        "schedule:write",
        "member",
        lambda caller, one: _call_on_the_first_window(caller, one, "unskip"),
    ),
}
WRITES = [name for name, (scope, _, _) in CALLS.items() if scope == "schedule:write"]
OF_ONE = [name for name in CALLS if name not in {"list_schedules", "create_schedule"}]


class TestEveryOperation:
    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_on_schedules_requires_its_scope_or_role(self, acme: Tenant, operation: str) -> None:
        scope, least_role, call = CALLS[operation]
        made = created(acme.key())["id"]
        writes = operation in WRITES
        takes_credentials(acme, lambda caller: call(caller, made), scope=scope, least_role=least_role, writes=writes)

    @pytest.mark.parametrize("operation", OF_ONE)
    def test_operation_on_a_missing_schedule_is_not_found(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        foreign = factories.schedule(session, globex.organization)
        gone = factories.schedule(session, acme.organization, deleted_at=factories.now())
        for schedule_id in (UNKNOWN, foreign.id, gone.id, "nonsense", new_id("frz")):
            refusal(CALLS[operation][2](acme.key(), schedule_id), 404, "schedule_not_found")

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_on_schedules_works_after_an_uninstallation(
        self, acme: Tenant, session: Session, operation: str
    ) -> None:
        made = created(acme.key())["id"]
        acme.installation.state = "removed"
        session.flush()
        assert CALLS[operation][2](acme.key(), made).status_code < 300 or operation == "create_schedule"
