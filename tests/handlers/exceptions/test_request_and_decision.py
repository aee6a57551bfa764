"""Asking for an exception, what waits for a decision, and the decision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from rules.time.instants import format_instant
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.exceptions.requests import (
    DENY,
    GRANT,
    LONG_AGO,
    REASON,
    THIS,
    FrozenPull,
    decide,
    ids,
    in_hours,
    requested,
    rows,
    settle,
)
from tests.harness.wakeups import RecordedWakeups


class TestCreateExceptionRequest:
    def test_request_waits_for_another_person(self, case: FrozenPull, wakeups: RecordedWakeups) -> None:
        answer = case.acme.person("viewer").post("/v1/exception-requests", {**THIS, "expiresAt": in_hours(3)})
        (shown,) = rows(answer, 201)
        assert answer.headers["location"] == f"/v1/exceptions/{shown['id']}"
        assert (shown["state"], shown["effective"], shown["ineffectiveReason"]) == ("pending", False, None)
        assert (shown["requestedBy"]["name"], shown["decidedBy"], shown["decidedAt"]) == ("Viewer", None, None)
        assert shown["requestedAt"] is not None
        assert wakeups.sent == []
        (entry,) = factories.audit_entries(case.session)
        assert (entry.action, entry.target["id"], entry.details["reason"]) == (
            "exception.requested",
            shown["id"],
            REASON,
        )
        assert ids(case.acme.key().get("/v1/exception-requests")) == [shown["id"]]

    def test_second_request_already_exists(self, case: FrozenPull) -> None:
        (shown,) = rows(case.acme.person("viewer").post("/v1/exception-requests", THIS), 201)
        error = refusal(case.acme.person("member").post("/v1/exception-requests", THIS), 409, "already_exists")
        assert shown["id"] in error["message"]

    def test_request_can_be_made_again_after_a_denial(self, acme: Tenant, pending: PullRequestException) -> None:
        rows(acme.person("admin").post(f"/v1/exception-requests/{pending.id}/decide", DENY))
        (again,) = rows(acme.person("viewer").post("/v1/exception-requests", THIS), 201)
        assert again["id"] != pending.id

    def test_request_with_a_stale_pin_is_replaced(self, case: FrozenPull) -> None:
        old = case.request(pin_to_head=True, head_sha=factories.sha("before"))
        (new,) = rows(case.acme.person("viewer").post("/v1/exception-requests", THIS), 201)
        shown = case.acme.key().get(f"/v1/exceptions/{old.id}").json()
        assert (new["state"], shown["state"], shown["revokedBy"]["type"]) == ("pending", "revoked", "system")


class TestDecideExceptionRequest:
    def group(
        self, acme: Tenant, session: Session, pull: PullRequest, web: WatchedBranch
    ) -> list[PullRequestException]:
        freezes = [factories.freeze(session, acme.organization, [web]) for _ in range(2)]
        group_id = new_id("exg")
        rows = [requested(session, freeze, pull, web, request_group_id=group_id) for freeze in freezes]
        return sorted(rows, key=lambda row: row.id)

    @pytest.mark.parametrize(("decision", "state"), [("grant", "granted"), ("deny", "denied")])
    def test_decision_covers_the_whole_group(
        self, acme: Tenant, pull: PullRequest, web: WatchedBranch, wakeups: RecordedWakeups, decision: str, state: str
    ) -> None:
        group = self.group(acme, acme.session, pull, web)
        shown = rows(decide(acme.person("admin"), group[1].id, decision=decision, reason=" As said on the call "))
        assert [(row["id"], row["state"]) for row in shown] == [(row.id, state) for row in group]
        assert {row["decisionReason"] for row in shown} == {"As said on the call"}
        assert {row["decidedBy"]["name"] for row in shown} == {"Admin"}
        assert set(wakeups.sent) == ({"reconcile"} if decision == "grant" else set())
        (entry,) = factories.audit_entries(acme.session)
        assert (entry.action, entry.target["id"]) == (f"exception.{state}", group[0].request_group_id)
        assert [(row["before"]["state"], row["after"]["state"]) for row in entry.details["rows"]] == [
            ("pending", state)
        ] * 2
        for other in (DENY, GRANT):
            refusal(decide(acme.key(), group[0].id, **other), 409, "invalid_state")

    def test_decision_covers_one_request_when_only_this_is_set(
        self, acme: Tenant, pull: PullRequest, web: WatchedBranch
    ) -> None:
        group = self.group(acme, acme.session, pull, web)
        assert [row["id"] for row in rows(decide(acme.key(), group[0].id, onlyThis=True))] == [group[0].id]
        refusal(decide(acme.key(), group[0].id, onlyThis=True), 409, "invalid_state")
        shown = rows(decide(acme.key(), group[0].id, decision="deny"))
        assert [(row["id"], row["state"]) for row in shown] == [(group[1].id, "denied")]

    @pytest.mark.parametrize("decision", ["grant", "deny"])
    def test_decision_on_an_own_request_is_forbidden_even_for_an_owner(self, case: FrozenPull, decision: str) -> None:
        owner, key = case.acme.person("owner"), case.acme.key()
        for caller in (owner, key):
            (mine,) = rows(caller.post("/v1/exception-requests", THIS), 201)
            refusal(decide(caller, mine["id"], decision=decision), 403, "insufficient_permission")
            rows(decide(case.acme.person("admin"), mine["id"], decision="deny"))

    def test_self_approval_is_audited_when_the_organization_allows_it(self, case: FrozenPull) -> None:
        settle(case.session, case.acme, selfApproval=True)
        owner = case.acme.person("owner")
        (mine,) = rows(owner.post("/v1/exception-requests", THIS), 201)
        assert rows(decide(owner, mine["id"]))[0]["state"] == "granted"
        assert factories.audit_entries(case.session)[-1].details["selfApproved"] is True

    def test_decision_keeps_the_requested_terms_unless_overridden(self, case: FrozenPull) -> None:
        end = factories.now() + timedelta(hours=1)
        asked = {"expires_at": end, "pin_to_head": True}
        later = in_hours(5)
        expected: list[tuple[dict[str, Any], tuple[str | None, bool]]] = [
            ({}, (format_instant(end), True)),
            ({"expiresAt": None}, (None, True)),
            ({"expiresAt": later, "pinToHead": False}, (later, False)),
        ]
        for said, outcome in expected:
            row = case.request(**asked)
            (shown,) = rows(decide(case.acme.person("admin"), row.id, **said))
            assert (shown["expiresAt"], shown["pinToHead"]) == outcome
            rows(case.acme.person("admin").post(f"/v1/exceptions/{row.id}/revoke"))

    def test_decision_on_a_pinned_request_is_rejected_after_a_push(self, case: FrozenPull) -> None:
        row = case.request(pin_to_head=True)
        case.pull.head_sha = factories.sha("pushed meanwhile")
        case.session.flush()
        assert case.pull.head_sha in refusal(decide(case.acme.key(), row.id), 409, "invalid_state")["message"]
        assert rows(decide(case.acme.key(), row.id, decision="deny"))[0]["state"] == "denied"

    def test_decision_pins_to_the_present_head(self, case: FrozenPull) -> None:
        row = case.request()
        case.pull.head_sha = factories.sha("pushed meanwhile")
        case.session.flush()
        (shown,) = rows(decide(case.acme.key(), row.id, pinToHead=True))
        assert (shown["pinToHead"], shown["headSha"]) == (True, case.pull.head_sha)

    @pytest.mark.parametrize("how", ["lifted", "its freeze's time", "its own time"])
    def test_decision_is_rejected_once_the_request_has_expired(
        self, acme: Tenant, pending: PullRequestException, freeze: Freeze, how: str
    ) -> None:
        over = factories.now() - timedelta(milliseconds=1)
        if how == "its own time":
            pending.expires_at = over
        elif how == "lifted":
            freeze.ended_at, freeze.end_reason = over, "lifted"
        else:
            freeze.ends_at = over
        acme.session.flush()
        assert "expired" in refusal(decide(acme.key(), pending.id), 409, "invalid_state")["message"]

    def test_decision_reports_what_is_invalid_and_where(self, acme: Tenant, pending: PullRequestException) -> None:
        cases: list[tuple[Any, int, str, list[str]]] = [
            ({}, 400, "missing_parameter", ["/decision"]),
            ({"decision": "maybe"}, 422, "validation_failed", ["/decision"]),
            ({"decision": "grant", "expiresAt": LONG_AGO}, 422, "invalid_parameter", ["/expiresAt"]),
            (
                {"decision": "deny", "expiresAt": None, "pinToHead": True},
                422,
                "invalid_parameter",
                ["/expiresAt", "/pinToHead"],
            ),
            ({"decision": "grant", "reason": ""}, 422, "validation_failed", ["/reason"]),
        ]
        for body, status, code, where in cases:
            answer = acme.key().post(f"/v1/exception-requests/{pending.id}/decide", body)
            assert [row["path"] for row in refusal(answer, status, code)["details"]] == where


class TestListExceptionRequests:
    def test_request_list_shows_pending_requests_only(
        self, acme: Tenant, freeze: Freeze, repository: Repository, web: WatchedBranch
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        ended = factories.freeze(acme.session, acme.organization, [web], ends_at=over)
        pulls = [factories.pull_request(acme.session, repository, number) for number in range(1, 7)]
        waiting = requested(acme.session, freeze, pulls[0], web)
        requested(acme.session, freeze, pulls[1], web, expires_at=over)
        requested(acme.session, freeze, pulls[2], web, revoked_at=over)
        requested(acme.session, freeze, pulls[3], web, decision="denied")
        requested(acme.session, freeze, pulls[4], web, decision="granted")
        requested(acme.session, ended, pulls[5], web)
        assert ids(acme.key("exception:read").get("/v1/exception-requests")) == [waiting.id]


def revoke(caller: Caller, exception_id: str) -> httpx.Response:
    return caller.post(f"/v1/exceptions/{exception_id}/revoke")


@pytest.mark.parametrize("call", [lambda caller, _id: caller.post("/v1/exceptions", THIS), decide, revoke])
def test_decision_is_open_to_members_when_the_organization_allows_it(
    acme: Tenant, pending: PullRequestException, call: Callable[[Caller, str], httpx.Response]
) -> None:
    settle(acme.session, acme, approval="member")
    refusal(call(acme.person("viewer"), pending.id), 403, "insufficient_permission")
    assert call(acme.person("member"), pending.id).status_code in {200, 201}


def test_exception_is_revoked_without_the_plan(acme: Tenant, pending: PullRequestException) -> None:
    change_plan(acme.session, acme.organization, "free")
    acme.session.flush()
    assert revoke(acme.key(), pending.id).status_code == 200


MAX_STATEMENTS = 21


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect the statements that are sent to PostgreSQL during the block."""
    sent: list[str] = []

    def collect(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", collect)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", collect)


@pytest.mark.parametrize("path", ["/v1/exceptions", "/v1/exception-requests"])
def test_exception_needs_few_statements(case: FrozenPull, path: str) -> None:
    key = case.acme.key("exception:write")
    with statements() as sent:
        answer = key.post(path, THIS)
    rows(answer, 201)
    assert len(sent) <= MAX_STATEMENTS
