"""Moving the end of a freeze, and trying its failed targets again."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from models.freezes import Freeze
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.freezes.requests import in_hours, paths
from tests.harness.wakeups import RecordedWakeups


class TestExtendFreeze:
    def extend(self, acme: Tenant, freeze: Freeze, ends_at: Any) -> httpx.Response:
        return acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/extend", {"endsAt": ends_at})

    def test_open_end_can_be_set_to_any_future_end(
        self, acme: Tenant, freeze: Freeze, wakeups: RecordedWakeups
    ) -> None:
        ends_at = in_hours(1)
        shown = self.extend(acme, freeze, ends_at).json()
        assert datetime.fromisoformat(shown["endsAt"]) == datetime.fromisoformat(ends_at)
        assert shown["state"] == "in_force"
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.extended"]

    def test_bounded_end_can_be_moved_later_or_removed(self, acme: Tenant, web: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=2))
        assert paths(refusal(self.extend(acme, freeze, in_hours(1)), 422, "invalid_parameter")) == ["/endsAt"]
        assert self.extend(acme, freeze, in_hours(3)).status_code == 200
        assert self.extend(acme, freeze, None).json()["endsAt"] is None

    def test_end_in_the_past_is_rejected(self, acme: Tenant, freeze: Freeze) -> None:
        assert paths(refusal(self.extend(acme, freeze, in_hours(-1)), 422, "invalid_parameter")) == ["/endsAt"]

    @pytest.mark.parametrize(
        ("body", "status", "code", "where"),
        [
            ({}, 400, "missing_parameter", "/endsAt"),
            ({"endsAt": "soon"}, 422, "validation_failed", "/endsAt"),
            ({"endsAt": None, "reason": "x"}, 422, "validation_failed", "/reason"),
        ],
        ids=str,
    )
    def test_extension_rejects_another_body(
        self, acme: Tenant, freeze: Freeze, body: Any, status: int, code: str, where: str
    ) -> None:
        answer = acme.key().post(f"/v1/freezes/{freeze.id}/extend", body)
        assert paths(refusal(answer, status, code)) == [where]

    def test_extension_of_an_ended_freeze_is_rejected(self, acme: Tenant, later: Any) -> None:
        timed = factories.freeze(acme.session, acme.organization, ends_at=factories.now() + timedelta(hours=1))
        lifted = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        later(hours=1)
        for freeze in (timed, lifted):
            refusal(self.extend(acme, freeze, None), 409, "invalid_state")


class TestRetryFreeze:
    @pytest.mark.parametrize(("operation", "state"), [("apply", "pending"), ("release", "releasing")])
    def test_retry_makes_failed_targets_due_in_force_or_ended(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch, wakeups: RecordedWakeups, operation: str, state: str
    ) -> None:
        ended: dict[str, Any] = {"ended_at": factories.now(), "end_reason": "lifted"} if operation == "release" else {}
        freeze = factories.freeze(acme.session, acme.organization, **ended)
        factories.target(acme.session, freeze, web, operation=operation, state="failed", last_error_code="x")
        factories.target(acme.session, freeze, api, operation=operation, state="applied")
        shown = acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/retry").json()
        assert (shown["targets"][state], shown["targets"]["failed"], shown["targets"]["applied"]) == (1, 0, 1)
        acme.session.expire_all()
        assert [factories.check(acme.session, each).due_at is not None for each in (web, api)] == [True, False]
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.retried"]

    def test_retry_without_a_failed_target_is_rejected(self, acme: Tenant, freeze: Freeze) -> None:
        refusal(acme.key().post(f"/v1/freezes/{freeze.id}/retry"), 409, "invalid_state")
