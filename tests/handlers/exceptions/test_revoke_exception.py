"""Revoking an exception, and withdrawing a request."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text as sql
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.pull_requests import HeadCheck, PullRequest
from models.repositories import WatchedBranch
from rules.ids import new_id
from rules.time.instants import format_instant
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.exceptions.requests import THIS, FrozenPull, decide, requested, rows
from tests.harness.wakeups import RecordedWakeups


class TestRevokeException:
    def test_revocation_ends_every_open_exception_of_the_group(
        self, case: FrozenPull, wakeups: RecordedWakeups
    ) -> None:
        group_id = new_id("exg")
        granted = case.grant(request_group_id=group_id)
        others = [factories.freeze(case.session, case.acme.organization, [case.web]) for _ in range(2)]
        waiting = requested(case.session, others[0], case.pull, case.web, request_group_id=group_id)
        denied = requested(case.session, others[1], case.pull, case.web, request_group_id=group_id, decision="denied")
        body = {"reason": "The fix went in another way"}
        shown = rows(case.acme.person("admin").post(f"/v1/exceptions/{denied.id}/revoke", body))
        assert [row["id"] for row in shown] == sorted([granted.id, waiting.id])
        assert {(row["state"], row["revokedBy"]["name"], row["effective"]) for row in shown} == {
            ("revoked", "Admin", False)
        }
        assert set(wakeups.sent) == {"reconcile"}
        (entry,) = factories.audit_entries(case.session)
        assert (entry.action, entry.details["reason"]) == ("exception.revoked", body["reason"])
        assert {row["id"]: row["before"]["state"] for row in entry.details["rows"]} == {
            granted.id: "granted",
            waiting.id: "pending",
        }
        refusal(case.acme.key().post(f"/v1/exceptions/{granted.id}/revoke"), 409, "invalid_state")

    @pytest.mark.parametrize("role", ["viewer", "member"])
    def test_requester_may_withdraw_a_pending_request(
        self, case: FrozenPull, role: str, wakeups: RecordedWakeups
    ) -> None:
        mine = rows(case.acme.person(role).post("/v1/exception-requests", THIS), 201)[0]["id"]
        assert rows(case.acme.person(role).post(f"/v1/exceptions/{mine}/revoke"))[0]["state"] == "revoked"
        assert wakeups.sent == []
        again = rows(case.acme.person(role).post("/v1/exception-requests", THIS), 201)[0]["id"]
        rows(decide(case.acme.person("admin"), again))
        refusal(case.acme.person(role).post(f"/v1/exceptions/{again}/revoke"), 403, "insufficient_permission")

    def test_revocation_without_body_has_no_reason(self, case: FrozenPull) -> None:
        asked = case.request()
        assert rows(decide(case.acme.key(), asked.id, reason="  "))[0]["decisionReason"] is None
        rows(case.acme.key().post(f"/v1/exceptions/{asked.id}/revoke", {"reason": "  "}))
        assert factories.audit_entries(case.session)[-1].details["reason"] is None

    def test_revocation_is_rejected_when_nothing_is_open(self, case: FrozenPull) -> None:
        over = factories.now() - timedelta(seconds=1)
        for columns in ({"expires_at": over}, {"decision": "denied"}, {"revoked_at": over}):
            row = case.grant(**columns)
            refusal(case.acme.key().post(f"/v1/exceptions/{row.id}/revoke"), 409, "invalid_state")
            row.expired_at = over
            case.session.flush()


class TestBlockedSince:
    @pytest.fixture
    def check(self, session: Session, web: WatchedBranch, pull: PullRequest) -> HeadCheck:
        """Return the success on the head of a pull request into a branch whose rule requires our check."""
        factories.branch_enforcement(session, web)
        return factories.head_check(session, web, pull.head_sha, "success", written_at=factories.now())

    @pytest.fixture
    def revoked(
        self, acme: Tenant, freeze: Freeze, pull: PullRequest, web: WatchedBranch, check: HeadCheck
    ) -> dict[str, Any]:
        """Return the answer to the revocation of the pull request's exception."""
        granted = factories.exception(acme.session, freeze, pull, web)
        [before] = acme.key().get("/v1/exceptions").json()["data"]
        assert (before["state"], before["blocking"], before["blockedSince"]) == ("granted", None, None)
        [shown] = rows(acme.key().post(f"/v1/exceptions/{granted.id}/revoke"))
        return shown

    def test_revocation_is_not_blocked_until_the_failing_check_is_written(
        self, acme: Tenant, revoked: dict[str, Any], check: HeadCheck
    ) -> None:
        assert (revoked["blocking"]["state"], revoked["blocking"]["gaps"]) == ("not_blocked", ["writing"])
        assert revoked["blockedSince"] is None
        check.conclusion, check.unconfirmed, check.written_at = "failure", True, factories.now()
        acme.session.flush()
        assert self.shown(acme, revoked)["blockedSince"] is None
        check.unconfirmed = False
        acme.session.flush()
        shown = self.shown(acme, revoked)
        assert (shown["blocking"]["state"], shown["blockedSince"]) == ("blocked", format_instant(check.written_at))
        assert acme.key().get("/v1/exceptions").json()["data"] == [shown]

    @pytest.mark.parametrize(
        ("statement", "gaps"),
        [
            ("UPDATE freezes SET ended_at = started_at", None),
            ("UPDATE pull_requests SET state = 'closed'", None),
            ("UPDATE pull_requests SET base_branch = 'next'", None),
            ("UPDATE branch_enforcement SET decisive_check = NULL", ["no_rule"]),
            ("UPDATE branch_enforcement SET rules_read_at = NULL", ["not_read"]),
            ("UPDATE installations SET state = 'removed'", ["removed"]),
        ],
    )
    def test_failing_check_that_nothing_requires_blocks_since_no_time(
        self, acme: Tenant, revoked: dict[str, Any], check: HeadCheck, statement: str, gaps: Any
    ) -> None:
        check.conclusion = "failure"
        acme.session.flush()
        assert self.shown(acme, revoked)["blockedSince"] is not None
        acme.session.execute(sql(statement))
        shown = self.shown(acme, revoked)
        assert shown["blockedSince"] is None
        assert (shown["blocking"] and shown["blocking"]["gaps"]) == gaps

    def test_exception_that_is_granted_again_is_not_blocked(
        self, case: FrozenPull, revoked: dict[str, Any], check: HeadCheck
    ) -> None:
        check.conclusion = "failure"
        case.grant()
        shown = self.shown(case.acme, revoked)
        assert (shown["blocking"], shown["blockedSince"]) == (None, None)

    def shown(self, acme: Tenant, revoked: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = acme.key().get(f"/v1/exceptions/{revoked['id']}").json()
        return found
