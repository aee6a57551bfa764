"""Operations of the tag Exceptions: who may ask, grant, decide and revoke, and what each of them is told."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.guards import takes_credentials
from tests.support.clocks import MovableClock

REASON = "Payments fail since 08:40"
THIS = {"pullRequest": "acme/web#7", "reason": REASON}
GRANT = {"decision": "grant"}
DENY = {"decision": "deny"}
UNKNOWN = "exc_00000000000000000000000000"
FIELDS = set(load_contract().document["components"]["schemas"]["PullRequestException"]["properties"])


def decide(caller: Caller, exception_id: str, **body: Any) -> httpx.Response:
    return caller.post(f"/v1/exception-requests/{exception_id}/decide", {**GRANT, **body})


CALLS: dict[str, Callable[[Caller, str], httpx.Response]] = {
    "list_exceptions": lambda caller, _id: caller.get("/v1/exceptions"),
    "create_exception": lambda caller, _id: caller.post("/v1/exceptions", THIS),
    "get_exception": lambda caller, exception_id: caller.get(f"/v1/exceptions/{exception_id}"),
    "revoke_exception": lambda caller, exception_id: caller.post(f"/v1/exceptions/{exception_id}/revoke"),
    "list_exception_requests": lambda caller, _id: caller.get("/v1/exception-requests"),
    "create_exception_request": lambda caller, _id: caller.post("/v1/exception-requests", THIS),
    "decide_exception_request": decide,
}
DECIDING = ("create_exception", "decide_exception_request", "revoke_exception")
WRITES = ("create_exception", "revoke_exception", "create_exception_request", "decide_exception_request")
each_write = pytest.mark.parametrize("operation", WRITES)
asking = pytest.mark.parametrize("path", ["/v1/exceptions", "/v1/exception-requests"])


@pytest.fixture
def repository(acme: Tenant) -> Repository:
    return acme.repository("web")


@pytest.fixture
def web(repository: Repository, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, repository)


@pytest.fixture
def pull(session: Session, web: WatchedBranch, repository: Repository) -> PullRequest:
    """Return acme/web#7, into `main`."""
    return factories.pull_request(session, repository)


@pytest.fixture
def freeze(acme: Tenant, session: Session, web: WatchedBranch) -> Freeze:
    """Return a freeze of `main`."""
    return factories.freeze(session, acme.organization, [web])


@pytest.fixture
def pending(session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch) -> PullRequestException:
    """Return a request of somebody else's."""
    return requested(session, freeze, pull, web)


def requested(
    session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, **columns: Any
) -> PullRequestException:
    by = {"type": "user", "id": new_id("usr"), "name": "Somebody else"}
    asked = {"requested_by": by, "requested_at": factories.now(), "decision": None, "decided_by": None}
    return factories.exception(session, freeze, pull, web, **{**asked, "decided_at": None, **columns})


def rows(answer: httpx.Response, status: int = 200) -> list[dict[str, Any]]:
    assert answer.status_code == status, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def ids(answer: httpx.Response) -> list[str]:
    return [row["id"] for row in rows(answer)]


def text(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


LONG_AGO = "2026-01-01T00:00:00Z"


def in_hours(hours: float) -> str:
    return text(factories.now() + timedelta(hours=hours))


def settle(session: Session, acme: Tenant, **settings: Any) -> None:
    session.get_one(Organization, acme.id).settings = settings
    session.flush()


def entries(session: Session) -> list[AuditEntry]:
    query = select(AuditEntry).order_by(AuditEntry.at, AuditEntry.id)
    return list(session.scalars(query.execution_options(populate_existing=True)))


class TestEveryOperation:
    def test_all_of_the_tag_are_asked_here(self) -> None:
        operations = load_contract().operations.values()
        assert set(CALLS) == {operation.id for operation in operations if operation.tag == "Exceptions"}

    @pytest.mark.parametrize("operation", CALLS)
    def test_takes_a_scope_or_a_role_an_administrators_where_something_is_decided(
        self, acme: Tenant, pending: PullRequestException, operation: str
    ) -> None:
        writes = operation in WRITES
        takes_credentials(
            acme,
            lambda caller: CALLS[operation](caller, pending.id),
            scope="exception:write" if writes else "exception:read",
            least_role="admin" if operation in DECIDING else "viewer",
            writes=writes,
        )

    @pytest.mark.parametrize("operation", DECIDING)
    def test_that_decides_takes_a_member_where_the_organisation_says_so(
        self, acme: Tenant, session: Session, pending: PullRequestException, operation: str
    ) -> None:
        settle(session, acme, approval="member")
        refusal(CALLS[operation](acme.person("viewer"), pending.id), 403, "insufficient_permission")
        assert CALLS[operation](acme.person("member"), pending.id).status_code in {200, 201}

    @pytest.mark.parametrize("operation", CALLS)
    def test_is_refused_to_somebody_without_an_organisation(
        self, acme: Tenant, session: Session, operation: str
    ) -> None:
        token = factories.session_token(session, factories.user(session), None)
        refusal(CALLS[operation](Caller(acme.http, token), UNKNOWN), 403, "organization_not_provisioned")

    @pytest.mark.parametrize("operation", CALLS)
    def test_is_refused_until_an_organisation_is_selected(self, acme: Tenant, session: Session, operation: str) -> None:
        member = factories.user(session)
        factories.membership(session, acme.organization, member, "admin")
        token = factories.session_token(session, member, None)
        refusal(CALLS[operation](Caller(acme.http, token), UNKNOWN), 403, "no_organization_selected")

    @pytest.mark.parametrize("operation", CALLS)
    def test_is_gone_with_its_organisation(self, acme: Tenant, session: Session, operation: str) -> None:
        key = acme.key()
        acme.organization.deleted_at = factories.now()
        session.flush()
        refusal(CALLS[operation](key, UNKNOWN), 410, "organization_deleted")

    @pytest.mark.parametrize("operation", CALLS)
    def test_outlives_the_installation(
        self, acme: Tenant, session: Session, pending: PullRequestException, operation: str
    ) -> None:
        acme.installation.state = "removed"
        if operation == "create_exception_request":
            session.delete(pending)
        session.flush()
        assert CALLS[operation](acme.key(), pending.id).status_code in {200, 201}

    @pytest.mark.parametrize("operation", WRITES)
    def test_needs_the_plan_unless_it_revokes(
        self, acme: Tenant, session: Session, pending: PullRequestException, operation: str
    ) -> None:
        acme.organization.plan = "free"
        session.flush()
        answer = CALLS[operation](acme.key(), pending.id)
        if operation == "revoke_exception":
            assert answer.status_code == 200
        else:
            assert "pr_exceptions" in refusal(answer, 403, "feature_not_available")["message"]

    @each_write
    def test_that_writes_refuses_a_key_that_was_used_for_another_request(
        self, acme: Tenant, pending: PullRequestException, operation: str
    ) -> None:
        key = acme.key()
        keyed = {"headers": {"Idempotency-Key": "once"}}
        key.post("/v1/exceptions", {**THIS, "reason": "Another reason"}, **keyed)

        class Keyed(Caller):
            def send(self, method: str, path: str, **request: Any) -> httpx.Response:
                return super().send(method, path, **{**request, **keyed})

        refusal(CALLS[operation](Keyed(key.http, key.token), pending.id), 409, "idempotency_key_reuse")

    @pytest.mark.parametrize("operation", ["get_exception", "revoke_exception", "decide_exception_request"])
    def test_of_an_unknown_exception_finds_none(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        elsewhere = factories.watched(session, globex.organization, "globex/web")
        theirs = factories.exception(
            session,
            factories.freeze(session, globex.organization, [elsewhere]),
            factories.pull_request(session, session.get_one(Repository, elsewhere.repository_id)),
            elsewhere,
        )
        for exception_id in (UNKNOWN, theirs.id, "nonsense", new_id("frz")):
            refusal(CALLS[operation](acme.key(), exception_id), 404, "exception_not_found")


class TestCreateException:
    def test_lets_a_pull_request_through_every_covering_freeze(
        self, acme: Tenant, session: Session, pull: PullRequest, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        freezes = [factories.freeze(session, acme.organization, [web], reason=f"Freeze {n}") for n in (1, 2)]
        expires_at = in_hours(2)
        answer = acme.person("admin").post("/v1/exceptions", {**THIS, "expiresAt": expires_at})
        shown = rows(answer, 201)
        assert [row["freezeId"] for row in shown] == [freeze.id for freeze in freezes]
        assert len({row["requestGroupId"] for row in shown}) == 1
        assert answer.headers["location"] == f"/v1/exceptions/{shown[0]['id']}"
        first = shown[0]
        assert set(first) == FIELDS
        assert (first["decidedBy"]["name"], first["decidedBy"]["type"]) == ("Admin", "user")
        assert datetime.fromisoformat(first["expiresAt"]) == datetime.fromisoformat(expires_at)
        assert {name: first[name] for name in ("state", "reason", "headSha", "pinToHead", "requestedBy", "usedAt")} == {
            "state": "granted",
            "reason": REASON,
            "headSha": pull.head_sha,
            "pinToHead": False,
            "requestedBy": None,
            "usedAt": None,
        }
        assert first["pullRequest"] == {
            "id": pull.id,
            "repository": "acme/web",
            "number": 7,
            "url": pull.url,
            "title": "Change 7",
        }
        assert wakeups.sent == {"reconcile"}
        assert session.get_one(WatchedBranch, web.id, populate_existing=True).wanted_generation == 1
        assert set(ids(acme.key().get("/v1/exceptions"))) == {row["id"] for row in shown}

    def test_is_told_once_in_the_audit_with_every_row(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        factories.freeze(session, acme.organization, [web])
        shown = rows(acme.person("admin").post("/v1/exceptions", THIS), 201)
        (entry,) = entries(session)
        assert entry.action == "exception.granted"
        assert entry.target == {"type": "exception", "id": shown[0]["requestGroupId"], "name": "acme/web#7"}
        assert [row["id"] for row in entry.details["rows"]] == [row["id"] for row in shown]
        assert entry.details["rows"][0]["before"] is None
        assert entry.details["rows"][0]["after"]["state"] == "granted"
        assert (entry.details["reason"], "selfApproved" in entry.details) == (REASON, False)

    @asking
    @pytest.mark.parametrize(
        "named",
        [
            {"pullRequest": "https://github.com/acme/web/pull/7/files"},
            {"pullRequest": "Acme/Web#7"},
            {"pullRequest": "7", "repo": "acme/web"},
            {"pullRequest": "#7"},
            {"pullRequest": "acme/web#7", "repo": "acme/web"},
        ],
        ids=str,
    )
    def test_takes_a_pull_request_by_address_name_or_number(
        self, acme: Tenant, freeze: Freeze, pull: PullRequest, path: str, named: dict[str, str]
    ) -> None:
        shown = rows(acme.key().post(path, {"reason": REASON, **named}), 201)
        assert [row["pullRequest"]["id"] for row in shown] == [pull.id]

    @asking
    @pytest.mark.parametrize(
        ("named", "status", "code", "where"),
        [
            ({"pullRequest": "acme/web#8"}, 404, "pull_request_not_found", None),
            ({"pullRequest": "acme/nothing#7"}, 404, "repository_not_found", None),
            ({"pullRequest": "7", "repo": "acme/nothing"}, 404, "repository_not_found", None),
            ({"pullRequest": "nonsense"}, 422, "invalid_parameter", ["/pullRequest"]),
            ({"pullRequest": "acme/web#7", "repo": "acme/api"}, 422, "invalid_parameter", ["/repo"]),
            ({"pullRequest": "7"}, 400, "missing_parameter", ["/repo"]),
            ({"pullRequest": 7}, 422, "validation_failed", ["/pullRequest"]),
            ({}, 400, "missing_parameter", ["/pullRequest"]),
            ({"pullRequest": "acme/web#7", "reason": "   short   "}, 422, "reason_required", ["/reason"]),
            ({"pullRequest": "acme/web#7", "expiresAt": "soon"}, 422, "validation_failed", ["/expiresAt"]),
            (
                {"pullRequest": "acme/web#7", "expiresAt": LONG_AGO},
                422,
                "invalid_parameter",
                ["/expiresAt"],
            ),
            ({"pullRequest": "acme/web#7", "state": "granted"}, 422, "validation_failed", ["/state"]),
            (
                {"pullRequest": "nonsense", "expiresAt": LONG_AGO},
                422,
                "invalid_parameter",
                ["/pullRequest", "/expiresAt"],
            ),
            ({"pullRequest": "7", "expiresAt": LONG_AGO}, 400, "missing_parameter", ["/repo", "/expiresAt"]),
            ({"pullRequest": "acme/web#8", "expiresAt": LONG_AGO}, 404, "pull_request_not_found", None),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_tells_what_is_wrong_with_a_request_and_where(
        self,
        acme: Tenant,
        session: Session,
        freeze: Freeze,
        pull: PullRequest,
        path: str,
        named: dict[str, Any],
        status: int,
        code: str,
        where: list[str] | None,
    ) -> None:
        factories.branch(session, acme.repository("api"))
        error = refusal(acme.key().post(path, {"reason": REASON, **named}), status, code)
        assert [row["path"] for row in error.get("details", ())] == (where or [])
        assert session.query(PullRequestException).count() == 0
        assert acme.audit() == []

    @asking
    def test_of_an_untracked_pull_request_finds_none(
        self, acme: Tenant, session: Session, freeze: Freeze, repository: Repository, web: WatchedBranch, path: str
    ) -> None:
        factories.pull_request(session, repository, base_branch="nobody-watches")
        refusal(acme.key().post(path, THIS), 404, "pull_request_not_found")

    @asking
    def test_needs_a_freeze(
        self, acme: Tenant, session: Session, pull: PullRequest, web: WatchedBranch, path: str
    ) -> None:
        refusal(acme.key().post(path, THIS), 409, "not_frozen")
        over = factories.now() - timedelta(seconds=1)
        factories.freeze(session, acme.organization, [web], ends_at=over)
        refusal(acme.key().post(path, THIS), 409, "not_frozen")

    @asking
    def test_is_all_or_nothing_where_a_freeze_takes_none(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, path: str
    ) -> None:
        strict = factories.freeze(session, acme.organization, [web], exceptions_allowed=False)
        error = refusal(acme.key().post(path, THIS), 409, "exceptions_not_permitted")
        assert strict.id in error["message"]
        assert freeze.id not in error["message"]
        assert session.query(PullRequestException).count() == 0

    @asking
    def test_is_refused_where_the_branch_takes_none(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, path: str
    ) -> None:
        web.exceptions_allowed = False
        session.flush()
        error = refusal(acme.key().post(path, THIS), 409, "exceptions_not_permitted")
        assert web.id in error["message"]
        assert "acme/web:main" in error["message"]

    def test_is_there_once(self, acme: Tenant, freeze: Freeze, pull: PullRequest) -> None:
        granted = rows(acme.key().post("/v1/exceptions", THIS), 201)
        for path in ("/v1/exceptions", "/v1/exception-requests"):
            assert granted[0]["id"] in refusal(acme.key().post(path, THIS), 409, "already_exists")["message"]

    def test_covers_a_freeze_that_has_begun_since(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        rows(acme.key().post("/v1/exceptions", THIS), 201)
        later = factories.freeze(session, acme.organization, [web])
        assert [row["freezeId"] for row in rows(acme.key().post("/v1/exceptions", THIS), 201)] == [later.id]

    def test_decides_what_was_requested(
        self, acme: Tenant, session: Session, pending: PullRequestException, web: WatchedBranch
    ) -> None:
        other = factories.freeze(session, acme.organization, [web])
        shown = rows(acme.person("admin").post("/v1/exceptions", {**THIS, "reason": "On the incident call"}), 201)
        assert [(row["freezeId"], row["reason"], row["decisionReason"]) for row in shown] == [
            (pending.freeze_id, pending.reason, "On the incident call"),
            (other.id, "On the incident call", None),
        ]
        assert {row["requestGroupId"] for row in shown} == {pending.request_group_id}
        assert {row["state"] for row in shown} == {"granted"}
        (entry,) = entries(session)
        assert [(row["before"] or {}).get("state") for row in entry.details["rows"]] == ["pending", None]

    def test_never_grants_a_request_of_ones_own(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest
    ) -> None:
        admin, key = acme.person("admin"), acme.key()
        for caller in (admin, key):
            (mine,) = rows(caller.post("/v1/exception-requests", THIS), 201)
            refusal(caller.post("/v1/exceptions", THIS), 403, "insufficient_permission")
            rows(caller.post(f"/v1/exceptions/{mine['id']}/revoke"))

    @pytest.mark.parametrize(
        ("by_key", "asked", "pinned"),
        [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
    )
    def test_is_pinned_to_the_head_for_keys_and_where_asked(
        self, acme: Tenant, freeze: Freeze, pull: PullRequest, by_key: bool, asked: bool | None, pinned: bool
    ) -> None:
        caller = acme.key() if by_key else acme.person("admin")
        body = THIS if asked is None else {**THIS, "pinToHead": asked}
        (row,) = rows(caller.post("/v1/exceptions", body), 201)
        assert (row["pinToHead"], row["headSha"]) == (pinned, pull.head_sha)

    def test_replaces_one_whose_time_has_passed(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        over = factories.now() - timedelta(seconds=5)
        old = factories.exception(session, freeze, pull, web, expires_at=over)
        (new,) = rows(acme.person("admin").post("/v1/exceptions", THIS), 201)
        assert new["id"] != old.id
        shown = acme.key().get(f"/v1/exceptions/{old.id}").json()
        assert (shown["state"], shown["expiredAt"]) == ("expired", text(over))
        assert [(entry.action, entry.actor["type"]) for entry in entries(session)] == [
            ("exception.expired", "system"),
            ("exception.granted", "user"),
        ]

    @asking
    def test_replaces_one_for_a_commit_that_was_left(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, path: str
    ) -> None:
        left = {"pin_to_head": True, "head_sha": factories.sha("before")}
        old = factories.exception(session, freeze, pull, web, **left)
        (new,) = rows(acme.person("admin").post(path, THIS), 201)
        shown = acme.key().get(f"/v1/exceptions/{old.id}").json()
        assert (new["headSha"], shown["state"], shown["revokedBy"]["type"]) == (pull.head_sha, "revoked", "system")


class TestCreateExceptionRequest:
    def test_waits_for_somebody_else(
        self,
        acme: Tenant,
        session: Session,
        freeze: Freeze,
        pull: PullRequest,
        web: WatchedBranch,
        wakeups: RecordedWakeups,
    ) -> None:
        answer = acme.person("viewer").post("/v1/exception-requests", {**THIS, "expiresAt": in_hours(3)})
        (shown,) = rows(answer, 201)
        assert answer.headers["location"] == f"/v1/exceptions/{shown['id']}"
        assert (shown["state"], shown["effective"], shown["ineffectiveReason"]) == ("pending", False, None)
        assert (shown["requestedBy"]["name"], shown["decidedBy"], shown["decidedAt"]) == ("Viewer", None, None)
        assert shown["requestedAt"] is not None
        assert wakeups.sent == set()
        (entry,) = entries(session)
        assert (entry.action, entry.target["id"], entry.details["reason"]) == (
            "exception.requested",
            shown["id"],
            REASON,
        )
        assert ids(acme.key().get("/v1/exception-requests")) == [shown["id"]]

    def test_is_there_once(self, acme: Tenant, freeze: Freeze, pull: PullRequest) -> None:
        (shown,) = rows(acme.person("viewer").post("/v1/exception-requests", THIS), 201)
        error = refusal(acme.person("member").post("/v1/exception-requests", THIS), 409, "already_exists")
        assert shown["id"] in error["message"]

    def test_can_be_made_again_once_it_was_denied(self, acme: Tenant, pending: PullRequestException) -> None:
        rows(acme.person("admin").post(f"/v1/exception-requests/{pending.id}/decide", DENY))
        (again,) = rows(acme.person("viewer").post("/v1/exception-requests", THIS), 201)
        assert again["id"] != pending.id

    def test_for_a_commit_that_was_left_makes_way_for_a_new_one(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        old = requested(session, freeze, pull, web, pin_to_head=True, head_sha=factories.sha("before"))
        (new,) = rows(acme.person("viewer").post("/v1/exception-requests", THIS), 201)
        shown = acme.key().get(f"/v1/exceptions/{old.id}").json()
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
    def test_decides_the_whole_group(
        self,
        acme: Tenant,
        session: Session,
        pull: PullRequest,
        web: WatchedBranch,
        wakeups: RecordedWakeups,
        decision: str,
        state: str,
    ) -> None:
        group = self.group(acme, session, pull, web)
        shown = rows(decide(acme.person("admin"), group[1].id, decision=decision, reason=" As said on the call "))
        assert [(row["id"], row["state"]) for row in shown] == [(row.id, state) for row in group]
        assert {row["decisionReason"] for row in shown} == {"As said on the call"}
        assert {row["decidedBy"]["name"] for row in shown} == {"Admin"}
        assert wakeups.sent == ({"reconcile"} if decision == "grant" else set())
        (entry,) = entries(session)
        assert (entry.action, entry.target["id"]) == (f"exception.{state}", group[0].request_group_id)
        assert [(row["before"]["state"], row["after"]["state"]) for row in entry.details["rows"]] == [
            ("pending", state)
        ] * 2
        for other in (DENY, GRANT):
            refusal(decide(acme.key(), group[0].id, **other), 409, "invalid_state")

    def test_decides_on_one_alone_where_asked(
        self, acme: Tenant, session: Session, pull: PullRequest, web: WatchedBranch
    ) -> None:
        group = self.group(acme, session, pull, web)
        assert [row["id"] for row in rows(decide(acme.key(), group[0].id, onlyThis=True))] == [group[0].id]
        refusal(decide(acme.key(), group[0].id, onlyThis=True), 409, "invalid_state")
        shown = rows(decide(acme.key(), group[0].id, decision="deny"))
        assert [(row["id"], row["state"]) for row in shown] == [(group[1].id, "denied")]

    @pytest.mark.parametrize("decision", ["grant", "deny"])
    def test_is_for_somebody_else_even_for_an_owner(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, decision: str
    ) -> None:
        owner, key = acme.person("owner"), acme.key()
        for caller in (owner, key):
            (mine,) = rows(caller.post("/v1/exception-requests", THIS), 201)
            refusal(decide(caller, mine["id"], decision=decision), 403, "insufficient_permission")
            rows(decide(acme.person("admin"), mine["id"], decision="deny"))

    def test_of_ones_own_is_possible_where_the_organisation_says_so_and_the_audit_tells(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest
    ) -> None:
        settle(session, acme, selfApproval=True)
        owner = acme.person("owner")
        (mine,) = rows(owner.post("/v1/exception-requests", THIS), 201)
        assert rows(decide(owner, mine["id"]))[0]["state"] == "granted"
        assert entries(session)[-1].details["selfApproved"] is True

    def test_keeps_what_was_requested_unless_it_says_otherwise(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        end = factories.now() + timedelta(hours=1)
        asked = {"expires_at": end, "pin_to_head": True}
        later = in_hours(5)
        expected: list[tuple[dict[str, Any], tuple[str | None, bool]]] = [
            ({}, (text(end), True)),
            ({"expiresAt": None}, (None, True)),
            ({"expiresAt": later, "pinToHead": False}, (later, False)),
        ]
        for said, outcome in expected:
            row = requested(session, freeze, pull, web, **asked)
            (shown,) = rows(decide(acme.person("admin"), row.id, **said))
            assert (shown["expiresAt"], shown["pinToHead"]) == outcome
            rows(acme.person("admin").post(f"/v1/exceptions/{row.id}/revoke"))

    def test_of_a_pinned_one_is_refused_after_a_push(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        row = requested(session, freeze, pull, web, pin_to_head=True)
        pull.head_sha = factories.sha("pushed meanwhile")
        session.flush()
        assert pull.head_sha in refusal(decide(acme.key(), row.id), 409, "invalid_state")["message"]
        assert rows(decide(acme.key(), row.id, decision="deny"))[0]["state"] == "denied"

    def test_pins_to_the_head_that_is_there_now(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        row = requested(session, freeze, pull, web)
        pull.head_sha = factories.sha("pushed meanwhile")
        session.flush()
        (shown,) = rows(decide(acme.key(), row.id, pinToHead=True))
        assert (shown["pinToHead"], shown["headSha"]) == (True, pull.head_sha)

    def test_grants_nothing_that_the_branch_no_longer_takes(
        self, acme: Tenant, session: Session, pending: PullRequestException, web: WatchedBranch
    ) -> None:
        web.exceptions_allowed = False
        session.flush()
        refusal(decide(acme.key(), pending.id), 409, "exceptions_not_permitted")
        assert rows(decide(acme.key(), pending.id, decision="deny"))[0]["state"] == "denied"

    @pytest.mark.parametrize("how", ["lifted", "its freeze's time", "its own time"])
    def test_is_too_late_once_it_has_expired(
        self, acme: Tenant, session: Session, pending: PullRequestException, freeze: Freeze, how: str
    ) -> None:
        over = factories.now() - timedelta(milliseconds=1)
        if how == "its own time":
            pending.expires_at = over
        elif how == "lifted":
            freeze.ended_at, freeze.end_reason = over, "lifted"
        else:
            freeze.ends_at = over
        session.flush()
        assert "expired" in refusal(decide(acme.key(), pending.id), 409, "invalid_state")["message"]

    @pytest.mark.parametrize(
        ("body", "status", "code", "where"),
        [
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
        ],
        ids=str,
    )
    def test_tells_what_is_wrong_with_a_decision(
        self, acme: Tenant, pending: PullRequestException, body: Any, status: int, code: str, where: list[str]
    ) -> None:
        answer = acme.key().post(f"/v1/exception-requests/{pending.id}/decide", body)
        assert [row["path"] for row in refusal(answer, status, code)["details"]] == where


class TestRevokeException:
    def test_ends_what_is_open_of_the_group(
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
        assert wakeups.sent == {"reconcile"}
        (entry,) = entries(session)
        assert (entry.action, entry.details["reason"]) == ("exception.revoked", body["reason"])
        assert {row["id"]: row["before"]["state"] for row in entry.details["rows"]} == {
            granted.id: "granted",
            waiting.id: "pending",
        }
        refusal(acme.key().post(f"/v1/exceptions/{granted.id}/revoke"), 409, "invalid_state")

    @pytest.mark.parametrize("role", ["viewer", "member"])
    def test_takes_back_a_request_of_ones_own_while_it_is_pending(
        self, acme: Tenant, freeze: Freeze, pull: PullRequest, role: str, wakeups: RecordedWakeups
    ) -> None:
        mine = rows(acme.person(role).post("/v1/exception-requests", THIS), 201)[0]["id"]
        assert rows(acme.person(role).post(f"/v1/exceptions/{mine}/revoke"))[0]["state"] == "revoked"
        assert wakeups.sent == set()
        again = rows(acme.person(role).post("/v1/exception-requests", THIS), 201)[0]["id"]
        rows(decide(acme.person("admin"), again))
        refusal(acme.person(role).post(f"/v1/exceptions/{again}/revoke"), 403, "insufficient_permission")

    def test_without_a_word_has_no_reason(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        asked = requested(session, freeze, pull, web)
        assert rows(decide(acme.key(), asked.id, reason="  "))[0]["decisionReason"] is None
        rows(acme.key().post(f"/v1/exceptions/{asked.id}/revoke", {"reason": "  "}))
        assert entries(session)[-1].details["reason"] is None

    def test_of_what_is_over_is_refused(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        for columns in ({"expires_at": over}, {"decision": "denied"}, {"revoked_at": over}):
            row = factories.exception(session, freeze, pull, web, **columns)
            refusal(acme.key().post(f"/v1/exceptions/{row.id}/revoke"), 409, "invalid_state")
            row.expired_at = over
            session.flush()


class TestGetException:
    def test_stays_readable_whatever_became_of_it(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        became: dict[str, dict[str, Any]] = {
            "denied": {"decision": "denied"},
            "revoked": {"revoked_at": over, "revoked_by": factories.SYSTEM},
            "expired": {"expires_at": over},
        }
        for state, columns in became.items():
            row = factories.exception(session, freeze, pull, web, **columns)
            assert acme.key("exception:read").get(f"/v1/exceptions/{row.id}").json()["state"] == state
            row.expired_at = over
            session.flush()

    def test_ends_to_the_second_before_anybody_records_it(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, clock: MovableClock
    ) -> None:
        end = factories.now() + timedelta(hours=1)
        row = factories.exception(session, freeze, pull, web, expires_at=end)
        key = acme.key()
        for at, state, expired_at in (
            (end - timedelta(milliseconds=1), "granted", None),
            (end, "expired", text(end)),
        ):
            clock.at = at
            shown = key.get(f"/v1/exceptions/{row.id}").json()
            assert (shown["state"], shown["expiredAt"]) == (state, expired_at)
        assert session.get_one(PullRequestException, row.id, populate_existing=True).expired_at is None

    @pytest.mark.parametrize("granted", [True, False])
    def test_ends_with_its_freeze(
        self, acme: Tenant, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, granted: bool
    ) -> None:
        row = (factories.exception if granted else requested)(session, freeze, pull, web)
        key = acme.key()
        lifted = key.post(f"/v1/freezes/{freeze.id}/lift").json()["endedAt"]
        shown = key.get(f"/v1/exceptions/{row.id}").json()
        assert (shown["state"], shown["expiredAt"], shown["effective"]) == ("expired", lifted, False)


class TestEffect:
    def shown(self, acme: Tenant, row: PullRequestException) -> tuple[bool, str | None]:
        shown = acme.key().get(f"/v1/exceptions/{row.id}").json()
        return shown["effective"], shown["ineffectiveReason"]

    @pytest.fixture
    def granted(self, session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch) -> PullRequestException:
        return factories.exception(session, freeze, pull, web)

    def test_is_there_once_the_check_is_written(
        self, acme: Tenant, session: Session, granted: PullRequestException, pull: PullRequest, web: WatchedBranch
    ) -> None:
        assert self.shown(acme, granted) == (False, "not_written")
        check = factories.head_check(session, web, pull.head_sha, "failure")
        assert self.shown(acme, granted) == (False, "not_written")
        check.conclusion = "success"
        session.flush()
        assert self.shown(acme, granted) == (True, None)

    def test_is_none_while_another_freeze_covers_the_base(
        self, acme: Tenant, session: Session, granted: PullRequestException, web: WatchedBranch
    ) -> None:
        factories.freeze(session, acme.organization, [web])
        assert self.shown(acme, granted) == (False, "other_freeze")

    def test_is_none_while_a_pull_request_on_the_same_head_is_blocked(
        self,
        acme: Tenant,
        session: Session,
        granted: PullRequestException,
        freeze: Freeze,
        pull: PullRequest,
        web: WatchedBranch,
        repository: Repository,
    ) -> None:
        twin = factories.pull_request(session, repository, 8, head_sha=pull.head_sha)
        assert self.shown(acme, granted) == (False, "shared_head")
        factories.exception(session, freeze, twin, web)
        factories.head_check(session, web, pull.head_sha, "success")
        assert self.shown(acme, granted) == (True, None)

    def test_is_none_for_another_head_base_or_a_closed_one(
        self, acme: Tenant, session: Session, granted: PullRequestException, pull: PullRequest, repository: Repository
    ) -> None:
        granted.pin_to_head = True
        pull.head_sha = factories.sha("pushed")
        session.flush()
        assert self.shown(acme, granted) == (False, "head_moved")
        factories.branch(session, repository, "release/1")
        pull.base_branch = "release/1"
        session.flush()
        assert self.shown(acme, granted) == (False, "other_base")
        pull.state = "closed"
        session.flush()
        assert self.shown(acme, granted) == (False, "closed")

    def test_is_of_granted_ones_alone(self, acme: Tenant, pending: PullRequestException) -> None:
        assert self.shown(acme, pending) == (False, None)


class TestListExceptions:
    def test_shows_the_newest_first_in_pages(
        self, acme: Tenant, session: Session, freeze: Freeze, repository: Repository, web: WatchedBranch
    ) -> None:
        pulls = [factories.pull_request(session, repository, number) for number in range(1, 6)]
        made = [
            factories.exception(session, freeze, pull, web, created_at=factories.now() + timedelta(seconds=index // 2))
            for index, pull in enumerate(pulls)
        ]
        newest_first = sorted(made, key=lambda row: (row.created_at, row.id), reverse=True)
        seen, cursor = [], None
        while True:
            answer = acme.key().get("/v1/exceptions", limit=2, **({"cursor": cursor} if cursor else {}))
            seen += ids(answer)
            cursor = answer.json()["nextCursor"]
            if cursor is None:
                break
        assert seen == [row.id for row in newest_first]

    def test_narrows_by_state_repository_branch_freeze_pull_request_and_group(
        self,
        acme: Tenant,
        session: Session,
        freeze: Freeze,
        pull: PullRequest,
        web: WatchedBranch,
        repository: Repository,
    ) -> None:
        api = factories.branch(session, acme.repository("api"), "trunk")
        elsewhere = factories.pull_request(session, session.get_one(Repository, api.repository_id), base_branch="trunk")
        wide = factories.freeze(session, acme.organization, [web, api])
        group_id = new_id("exg")
        rows = {
            "granted": factories.exception(session, freeze, pull, web, request_group_id=group_id),
            "pending": requested(session, wide, pull, web, request_group_id=group_id),
            "denied": factories.exception(session, wide, elsewhere, api, decision="denied"),
        }
        expected: list[tuple[dict[str, str], set[str]]] = [
            ({"state": "granted"}, {"granted"}),
            ({"state": "pending"}, {"pending"}),
            ({"state": "denied"}, {"denied"}),
            ({"state": "expired"}, set()),
            ({"state": "revoked"}, set()),
            ({"repo": "Acme/Web"}, {"granted", "pending"}),
            ({"repo": api.repository_id}, {"denied"}),
            ({"branchId": api.id}, {"denied"}),
            ({"freezeId": wide.id}, {"pending", "denied"}),
            ({"pullRequestId": pull.id}, {"granted", "pending"}),
            ({"requestGroupId": group_id, "state": "granted"}, {"granted"}),
        ]
        names = {row.id: name for name, row in rows.items()}
        for params, found in expected:
            assert {names[row_id] for row_id in ids(acme.key().get("/v1/exceptions", **params))} == found
            if "state" not in params:
                shown = {names[row_id] for row_id in ids(acme.key().get("/v1/exception-requests", **params))}
                assert shown == found & {"pending"}

    @pytest.mark.parametrize("path", ["/v1/exceptions", "/v1/exception-requests"])
    @pytest.mark.parametrize(
        ("name", "prefix", "code"),
        [
            ("repo", "rep", "repository_not_found"),
            ("branchId", "wbr", "branch_not_found"),
            ("freezeId", "frz", "freeze_not_found"),
            ("pullRequestId", "pul", "pull_request_not_found"),
            ("requestGroupId", "exg", "exception_not_found"),
        ],
    )
    def test_of_something_unknown_is_not_found(
        self, acme: Tenant, pending: PullRequestException, path: str, name: str, prefix: str, code: str
    ) -> None:
        for value in (new_id(prefix), "nonsense"):
            refusal(acme.key().get(path, **{name: value}), 404, code)

    def test_takes_only_states_and_cursors_that_there_are(self, acme: Tenant, pending: PullRequestException) -> None:
        refusal(acme.key().get("/v1/exceptions", state="open"), 400, "invalid_parameter")
        refusal(acme.key().get("/v1/exception-requests", state="pending"), 400, "invalid_parameter")
        refusal(acme.key().get("/v1/exceptions", cursor="nonsense"), 400, "invalid_cursor")


class TestListExceptionRequests:
    def test_shows_what_waits_for_a_decision_and_nothing_else(
        self, acme: Tenant, session: Session, freeze: Freeze, repository: Repository, web: WatchedBranch
    ) -> None:
        over = factories.now() - timedelta(seconds=1)
        ended = factories.freeze(session, acme.organization, [web], ends_at=over)
        pulls = [factories.pull_request(session, repository, number) for number in range(1, 7)]
        waiting = requested(session, freeze, pulls[0], web)
        requested(session, freeze, pulls[1], web, expires_at=over)
        requested(session, freeze, pulls[2], web, revoked_at=over)
        requested(session, freeze, pulls[3], web, decision="denied")
        requested(session, freeze, pulls[4], web, decision="granted")
        requested(session, ended, pulls[5], web)
        assert ids(acme.key("exception:read").get("/v1/exception-requests")) == [waiting.id]
