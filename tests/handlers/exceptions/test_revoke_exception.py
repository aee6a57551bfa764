"""Revoking an exception, and withdrawing a request."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.exceptions.requests import THIS, decide, entries, requested, rows
from tests.harness.wakeups import RecordedWakeups


class TestRevokeException:
    def test_revocation_ends_every_open_exception_of_the_group(
        self,
        acme: Tenant,
        session: Session,
        freeze: Freeze,
        pull: PullRequest,
        web: WatchedBranch,
        wakeups: RecordedWakeups,
    ) -> None:
        group_id = new_id("exg")
        granted = factories.exception(session, freeze, pull, web, request_group_id=group_id)
        others = [factories.freeze(session, acme.organization, [web]) for _ in range(2)]
        waiting = requested(session, others[0], pull, web, request_group_id=group_id)
        denied = requested(session, others[1], pull, web, request_group_id=group_id, decision="denied")
        body = {"reason": "The fix went in another way"}
        shown = rows(acme.person("admin").post(f"/v1/exceptions/{denied.id}/revoke", body))
        assert [row["id"] for row in shown] == sorted([granted.id, waiting.id])
        assert {(row["state"], row["revokedBy"]["name"], row["effective"]) for row in shown} == {
            ("revoked", "Admin", False)
        }
        assert set(wakeups.sent) == {"reconcile"}
        (entry,) = entries(session)
        assert (entry.action, entry.details["reason"]) == ("exception.revoked", body["reason"])
        assert {row["id"]: row["before"]["state"] for row in entry.details["rows"]} == {
            granted.id: "granted",
            waiting.id: "pending",
        }
        refusal(acme.key().post(f"/v1/exceptions/{granted.id}/revoke"), 409, "invalid_state")

    @pytest.mark.parametrize("role", ["viewer", "member"])
    def test_requester_may_withdraw_a_pending_request(
        self, acme: Tenant, freeze: Freeze, pull: PullRequest, role: str, wakeups: RecordedWakeups
    ) -> None:
        mine = rows(acme.person(role).post("/v1/exception-requests", THIS), 201)[0]["id"]
        assert rows(acme.person(role).post(f"/v1/exceptions/{mine}/revoke"))[0]["state"] == "revoked"
        assert wakeups.sent == []
        again = rows(acme.person(role).post("/v1/exception-requests", THIS), 201)[0]["id"]
        rows(decide(acme.person("admin"), again))
        refusal(acme.person(role).post(f"/v1/exceptions/{again}/revoke"), 403, "insufficient_permission")

    def test_revocation_without_body_has_no_reason(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        asked = requested(session, freeze, pull, web)
        assert rows(decide(acme.key(), asked.id, reason="  "))[0]["decisionReason"] is None
        rows(acme.key().post(f"/v1/exceptions/{asked.id}/revoke", {"reason": "  "}))
        assert entries(session)[-1].details["reason"] is None

    def test_revocation_is_rejected_when_nothing_is_open(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        for columns in ({"expires_at": over}, {"decision": "denied"}, {"revoked_at": over}):
            row = factories.exception(session, freeze, pull, web, **columns)
            refusal(acme.key().post(f"/v1/exceptions/{row.id}/revoke"), 409, "invalid_state")
            row.expired_at = over
            session.flush()
