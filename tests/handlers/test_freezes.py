"""Operations of the tag Freezes."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.freezes import Freeze, FreezeTarget
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.guards import takes_credentials

EVERYTHING = {"type": "organization"}
REASON = "Release 4.2 is being rolled out"
FIRST = {"scope": EVERYTHING, "reason": REASON, "impactAcknowledged": True}
UNKNOWN = "frz_00000000000000000000000000"
FIELDS = set(load_contract().document["components"]["schemas"]["Freeze"]["properties"])


@pytest.fixture
def web(acme: Tenant, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, acme.repository("web"))


@pytest.fixture
def api(acme: Tenant, session: Session) -> WatchedBranch:
    return factories.branch(session, acme.repository("api"))


@pytest.fixture
def freeze(acme: Tenant, session: Session, web: WatchedBranch) -> Freeze:
    """Return a freeze of the whole organisation, in force."""
    return factories.freeze(session, acme.organization, [web])


def text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def in_hours(hours: float) -> str:
    return text(factories.now() + timedelta(hours=hours))


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["data"]]


def paths(error: dict[str, Any]) -> list[str]:
    return [row["path"] for row in error["details"]]


def all_pages(caller: Caller, path: str, **params: Any) -> list[list[dict[str, Any]]]:
    pages, cursor = [], None
    while True:
        page = caller.get(path, **params, **({"cursor": cursor} if cursor else {})).json()
        pages.append(page["data"])
        cursor = page["nextCursor"]
        if cursor is None:
            return pages


CALLS: dict[str, Callable[[Caller, str], httpx.Response]] = {
    "preview_scope": lambda caller, _id: caller.post("/v1/scope/preview", {"scope": EVERYTHING}),
    "list_freezes": lambda caller, _id: caller.get("/v1/freezes"),
    "create_freeze": lambda caller, _id: caller.post("/v1/freezes", FIRST),
    "lift_freezes": lambda caller, _id: caller.post("/v1/freezes/lift", {"scope": EVERYTHING}),
    "get_freeze": lambda caller, freeze_id: caller.get(f"/v1/freezes/{freeze_id}"),
    "list_freeze_targets": lambda caller, freeze_id: caller.get(f"/v1/freezes/{freeze_id}/targets"),
    "lift_freeze": lambda caller, freeze_id: caller.post(f"/v1/freezes/{freeze_id}/lift"),
    "extend_freeze": lambda caller, freeze_id: caller.post(f"/v1/freezes/{freeze_id}/extend", {"endsAt": None}),
    "thaw_override_freeze": lambda caller, freeze_id: caller.post(
        f"/v1/freezes/{freeze_id}/thaw-override", {"reason": REASON}
    ),
    "retry_freeze": lambda caller, freeze_id: caller.post(f"/v1/freezes/{freeze_id}/retry"),
    "get_freeze_state": lambda caller, _id: caller.get("/v1/freeze-state", organization="current"),
}
WRITES = ("create_freeze", "lift_freezes", "lift_freeze", "extend_freeze", "thaw_override_freeze", "retry_freeze")
every_operation = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
every_write = pytest.mark.parametrize("call", [CALLS[name] for name in WRITES], ids=WRITES)


class TestEveryOperation:
    def test_all_of_the_tag_are_asked_here(self) -> None:
        operations = load_contract().operations.values()
        assert set(CALLS) == {operation.id for operation in operations if operation.tag == "Freezes"}

    @pytest.mark.parametrize("operation", CALLS)
    def test_takes_its_scope_or_its_role(self, acme: Tenant, freeze: Freeze, operation: str) -> None:
        writes = operation in WRITES
        takes_credentials(
            acme,
            lambda caller: CALLS[operation](caller, freeze.id),
            scope="freeze:write" if writes else "freeze:read",
            least_role="member" if writes else "viewer",
            writes=writes,
        )

    @every_operation
    def test_is_refused_to_somebody_without_an_organisation(
        self, acme: Tenant, session: Session, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        token = factories.session_token(session, factories.user(session), None)
        refusal(call(Caller(acme.http, token), UNKNOWN), 403, "organization_not_provisioned")

    @every_operation
    def test_is_refused_until_an_organisation_is_selected(
        self, acme: Tenant, session: Session, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        member = factories.user(session)
        factories.membership(session, acme.organization, member)
        token = factories.session_token(session, member, None)
        refusal(call(Caller(acme.http, token), UNKNOWN), 403, "no_organization_selected")

    @every_operation
    def test_is_gone_with_its_organisation(
        self, acme: Tenant, session: Session, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        key = acme.key()
        acme.organization.deleted_at = factories.now()
        session.flush()
        refusal(call(key, UNKNOWN), 410, "organization_deleted")

    @pytest.mark.parametrize("state", ["removed", "suspended"])
    @pytest.mark.parametrize("operation", ["create_freeze", "retry_freeze"])
    def test_that_needs_the_code_host_is_gone_with_the_installation(
        self, acme: Tenant, session: Session, freeze: Freeze, operation: str, state: str
    ) -> None:
        acme.installation.state = state
        session.flush()
        refusal(CALLS[operation](acme.key(), freeze.id), 410, "installation_removed")

    @pytest.mark.parametrize("operation", sorted(set(CALLS) - {"create_freeze", "retry_freeze"}))
    def test_that_does_not_need_the_code_host_outlives_the_installation(
        self, acme: Tenant, session: Session, freeze: Freeze, operation: str
    ) -> None:
        acme.installation.state = "removed"
        freeze.source = "schedule"  # so that it can be overridden
        session.flush()
        assert CALLS[operation](acme.key(), freeze.id).status_code == 200

    @every_write
    def test_that_writes_refuses_a_key_that_was_used_for_another_request(
        self, acme: Tenant, freeze: Freeze, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        key = acme.key()
        keyed = {"headers": {"Idempotency-Key": "once"}}
        assert key.post("/v1/freezes/lift", {"scope": EVERYTHING, "reason": "over"}, **keyed).status_code == 200

        class Keyed(Caller):
            def send(self, method: str, path: str, **request: Any) -> httpx.Response:
                return super().send(method, path, **{**request, **keyed})

        refusal(call(Keyed(key.http, key.token), freeze.id), 409, "idempotency_key_reuse")

    @pytest.mark.parametrize(
        "operation",
        ["get_freeze", "list_freeze_targets", "lift_freeze", "extend_freeze", "thaw_override_freeze", "retry_freeze"],
    )
    def test_of_an_unknown_freeze_finds_none(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        foreign = factories.freeze(session, globex.organization)
        for freeze_id in (UNKNOWN, foreign.id, "nonsense", new_id("rep")):
            refusal(CALLS[operation](acme.key(), freeze_id), 404, "freeze_not_found")


SCOPE_FAULTS: list[tuple[Any, int, str, list[str]]] = [
    (None, 422, "validation_failed", ["/scope"]),
    ({}, 400, "missing_parameter", ["/scope/type"]),
    ({"type": "galaxy"}, 422, "validation_failed", ["/scope/type"]),
    ({"type": "organization", "patterns": ["*/*"]}, 422, "validation_failed", ["/scope/patterns"]),
    ({"type": "glob"}, 400, "missing_parameter", ["/scope/patterns"]),
    ({"type": "glob", "patterns": []}, 422, "validation_failed", ["/scope/patterns"]),
    ({"type": "glob", "patterns": ["acme/*", "acme/[a-z]"]}, 422, "invalid_glob", ["/scope/patterns/1"]),
    ({"type": "glob", "patterns": ["", "a/b/c"]}, 422, "invalid_glob", ["/scope/patterns/0", "/scope/patterns/1"]),
    ({"type": "glob", "patterns": ["a b/*", "a/b/c"]}, 422, "invalid_glob", ["/scope/patterns/0", "/scope/patterns/1"]),
    ({"type": "glob", "patterns": ["!acme/docs"]}, 422, "invalid_glob", ["/scope/patterns"]),
    ({"type": "glob", "patterns": ["*/*"] * 101}, 422, "validation_failed", ["/scope/patterns"]),
    ({"type": "glob", "patterns": ["a" * 257]}, 422, "invalid_glob", ["/scope/patterns/0"]),
    ({"type": "organization", "branches": ["release/?"]}, 422, "invalid_glob", ["/scope/branches/0"]),
    ({"type": "organization", "branches": ["main"] * 51}, 422, "validation_failed", ["/scope/branches"]),
    ({"type": "repositories"}, 400, "missing_parameter", ["/scope/repositories"]),
    ({"type": "repositories", "repositories": ["acme/web"] * 1001}, 422, "validation_failed", ["/scope/repositories"]),
    ({"type": "repositories", "repositories": [7]}, 422, "validation_failed", ["/scope/repositories/0"]),
    (
        {"type": "repositories", "repositories": ["acme/web", "acme/nothing", "rep_00000000000000000000000000"]},
        422,
        "invalid_parameter",
        ["/scope/repositories/1", "/scope/repositories/2"],
    ),
    ({"type": "branch", "branchId": "wbr_00000000000000000000000000"}, 422, "invalid_parameter", ["/scope/branchId"]),
    ({"type": "branch", "branchId": "rep_1"}, 422, "invalid_parameter", ["/scope/branchId"]),
    ({"type": "branch", "repository": "acme/web"}, 400, "missing_parameter", ["/scope/branch"]),
    (
        {"type": "branch", "repository": "acme/nothing", "branch": "main"},
        422,
        "invalid_parameter",
        ["/scope/repository"],
    ),
]
SCOPED: dict[str, Callable[[Caller, Any], httpx.Response]] = {
    "preview_scope": lambda caller, scope: caller.post("/v1/scope/preview", {"scope": scope}),
    "create_freeze": lambda caller, scope: caller.post("/v1/freezes", {**FIRST, "scope": scope}),
    "lift_freezes": lambda caller, scope: caller.post("/v1/freezes/lift", {"scope": scope}),
}


class TestScopes:
    @pytest.mark.parametrize(("scope", "status", "code", "where"), SCOPE_FAULTS)
    @pytest.mark.parametrize("operation", SCOPED)
    def test_a_fault_is_told_by_code_and_place(
        self, acme: Tenant, freeze: Freeze, operation: str, scope: Any, status: int, code: str, where: list[str]
    ) -> None:
        assert paths(refusal(SCOPED[operation](acme.key(), scope), status, code)) == where

    @pytest.mark.parametrize(
        ("scope", "reached"),
        [
            ({"type": "organization"}, {"api:main", "web:main", "web:release/1"}),
            ({"type": "organization", "branches": ["release/*"]}, {"web:release/1"}),
            ({"type": "organization", "branches": ["**", "!main"]}, {"web:release/1"}),
            ({"type": "organization", "branches": ["MAIN"]}, set()),
            ({"type": "glob", "patterns": ["ACME/W*"]}, {"web:main", "web:release/1"}),
            ({"type": "glob", "patterns": ["**", "!acme/web"]}, {"api:main"}),
            ({"type": "glob", "patterns": ["acme/*"], "branches": ["main"]}, {"api:main", "web:main"}),
            ({"type": "repositories", "repositories": ["Acme/API"]}, {"api:main"}),
            ({"type": "repositories", "repositories": ["acme/web"], "branches": ["main"]}, {"web:main"}),
            ({"type": "branch", "repository": "acme/web", "branch": "release/1"}, {"web:release/1"}),
            ({"type": "branch", "repository": "acme/web", "branch": "nowhere"}, set()),
            ({"type": "repositories", "repositories": ["acme/off"]}, set()),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_reach_watched_branches_of_enabled_repositories(
        self,
        acme: Tenant,
        session: Session,
        web: WatchedBranch,
        api: WatchedBranch,
        scope: dict[str, Any],
        reached: set[str],
    ) -> None:
        repository = session.get_one(Repository, web.repository_id)
        factories.branch(session, repository, "release/1")
        factories.branch(session, repository, "old", unwatched_at=factories.now())
        factories.branch(session, acme.repository("off", enabled=False))
        factories.branch(session, acme.repository("gone", removed_at=factories.now()))
        preview = SCOPED["preview_scope"](acme.key(), scope).json()
        shown = {
            f"{repository['fullName'].removeprefix('acme/')}:{branch['name']}"
            for repository in preview["repositories"]
            for branch in repository["branches"]
        }
        assert shown == reached
        created = SCOPED["create_freeze"](acme.key(), scope)
        if reached:
            assert created.json()["targets"]["total"] == preview["branchCount"] == len(reached)
            assert created.json()["scope"] == scope
        else:
            assert paths(refusal(created, 422, "no_targets_in_scope")) == ["/scope"]


class TestPreviewScope:
    def test_counts_what_a_freeze_would_reach_and_changes_nothing(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        factories.freeze(session, acme.organization, [web])
        for number in (1, 2):
            factories.pull_request(session, session.get_one(Repository, web.repository_id), number)
        preview = acme.key("freeze:read").post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert preview == {
            "repositoryCount": 2,
            "branchCount": 2,
            "openPullRequestCount": 2,
            "frozenBranchCount": 1,
            "unenforcedBranchCount": 2,
            "repositories": [
                {
                    "id": api.repository_id,
                    "fullName": "acme/api",
                    "branches": [{"id": api.id, "name": "main", "frozen": False}],
                },
                {
                    "id": web.repository_id,
                    "fullName": "acme/web",
                    "branches": [{"id": web.id, "name": "main", "frozen": True}],
                },
            ],
            "truncated": False,
        }
        assert acme.audit() == []

    def test_counts_branches_that_a_freeze_is_not_known_to_block(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        lights = {web: "green", api: "red", factories.watched(session, acme.organization, "acme/docs"): "amber"}
        for branch, light in lights.items():
            factories.branch_enforcement(session, branch, light)
        never = factories.watched(session, acme.organization, "acme/new")
        asked = factories.watched(session, acme.organization, "acme/newer")
        factories.branch_enforcement(session, asked, "amber", verified_at=None)
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert preview["branchCount"] == len([*lights, never, asked])
        assert preview["unenforcedBranchCount"] == len([api, never, asked])

    def test_of_a_scope_that_reaches_nothing_is_empty(self, acme: Tenant) -> None:
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["repositoryCount"], preview["branchCount"], preview["repositories"]) == (0, 0, [])

    def test_names_a_hundred_repositories_and_counts_them_all(self, acme: Tenant, session: Session) -> None:
        for number in range(101):
            factories.watched(session, acme.organization, f"acme/r{number}")
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["repositoryCount"], len(preview["repositories"]), preview["truncated"]) == (101, 100, True)


class TestCreateFreeze:
    def test_starts_a_freeze_at_once_and_leaves_the_code_host_to_workers(
        self, acme: Tenant, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        ends_at = in_hours(2)
        body = {**FIRST, "endsAt": ends_at, "previewedRepoCount": 1, "exceptionsAllowed": False}
        answer = acme.person("member").post("/v1/freezes", body)
        assert answer.status_code == 201, answer.text
        shown = answer.json()
        assert answer.headers["location"] == f"/v1/freezes/{shown['id']}"
        assert re.fullmatch("frz_[0-9a-v]{26}", shown["id"])
        assert set(shown) == FIELDS
        assert shown["createdBy"]["type"] == "user"
        started_at = datetime.fromisoformat(shown.pop("startedAt"))
        assert abs((started_at - factories.now()).total_seconds()) < 30
        assert datetime.fromisoformat(shown.pop("endsAt")) == datetime.fromisoformat(ends_at)
        for name in ("id", "createdBy"):
            shown.pop(name)
        assert shown == {
            "state": "in_force",
            "reason": REASON,
            "scope": EVERYTHING,
            "source": "manual",
            "endedAt": None,
            "endReason": None,
            "exceptionsAllowed": False,
            "previewedRepoCount": 1,
            "impactAcknowledged": True,
            "scheduleId": None,
            "occurrenceId": None,
            "endedBy": None,
            "enforcedAt": None,
            "releasedAt": None,
            "targets": {"total": 1, "pending": 1, "applied": 0, "releasing": 0, "released": 0, "failed": 0},
        }
        assert wakeups.sent == {"reconcile"}
        assert acme.audit() == ["freeze.started"]
        assert acme.key().get(answer.headers["location"]).json()["id"] == answer.json()["id"]

    def test_by_a_key_is_by_that_key(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        shown = acme.key("freeze:write", name="deploys").post("/v1/freezes", FIRST).json()
        assert (shown["createdBy"]["type"], shown["createdBy"]["name"]) == ("api_key", "deploys")
        assert session.scalars(select(AuditEntry.source)).one() == "api"

    def test_trims_the_reason_before_counting_it(self, acme: Tenant, web: WatchedBranch) -> None:
        padded = {**FIRST, "reason": f" \t\n{'r' * 8}\u2003 "}
        assert acme.key().post("/v1/freezes", padded).json()["reason"] == "r" * 8

    @pytest.mark.parametrize("reason", ["", "short", "       x       ", "\u2003" * 8, "r" * 1001, 12345678, None])
    def test_refuses_a_reason_of_no_use(self, acme: Tenant, session: Session, web: WatchedBranch, reason: Any) -> None:
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, "reason": reason}), 422, "reason_required")
        assert paths(error) == ["/reason"]
        assert session.scalar(select(func.count()).select_from(Freeze)) == 0

    def test_needs_a_reason(self, acme: Tenant, web: WatchedBranch) -> None:
        body = {name: value for name, value in FIRST.items() if name != "reason"}
        assert paths(refusal(acme.key().post("/v1/freezes", body), 422, "reason_required")) == ["/reason"]

    def test_needs_a_scope(self, acme: Tenant) -> None:
        error = refusal(acme.key().post("/v1/freezes", {"reason": REASON}), 400, "missing_parameter")
        assert paths(error) == ["/scope"]

    @pytest.mark.parametrize("hours", [-1, -0.001])
    def test_refuses_an_end_in_the_past(self, acme: Tenant, web: WatchedBranch, hours: float) -> None:
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, "endsAt": in_hours(hours)}), 422, "invalid_parameter")
        assert paths(error) == ["/endsAt"]

    @pytest.mark.parametrize("ends_at", ["tomorrow", "2099-01-01", "2099-01-01T00:00:00", 7])
    def test_refuses_an_end_that_is_no_instant(self, acme: Tenant, web: WatchedBranch, ends_at: Any) -> None:
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, "endsAt": ends_at}), 422, "validation_failed")
        assert paths(error) == ["/endsAt"]

    def test_reads_an_end_of_any_offset(self, acme: Tenant, web: WatchedBranch) -> None:
        shown = acme.key().post("/v1/freezes", {**FIRST, "endsAt": "2099-01-04T08:00:00+01:00"}).json()
        assert shown["endsAt"] == "2099-01-04T07:00:00Z"

    @pytest.mark.parametrize("scope", [EVERYTHING, {"type": "glob", "patterns": ["acme/*"]}], ids=str)
    def test_of_an_open_ended_scope_needs_a_preview_or_an_acknowledgement(
        self, acme: Tenant, web: WatchedBranch, scope: dict[str, Any]
    ) -> None:
        body: dict[str, Any] = {"scope": scope, "reason": REASON}
        for not_enough in ({}, {"impactAcknowledged": False}):
            error = refusal(acme.key().post("/v1/freezes", {**body, **not_enough}), 422, "impact_preview_required")
            assert paths(error) == ["/previewedRepoCount"]
        for enough in ({"previewedRepoCount": 0}, {"impactAcknowledged": True}):
            assert acme.key().post("/v1/freezes", {**body, **enough}).status_code == 201

    def test_of_a_fixed_set_needs_neither(self, acme: Tenant, web: WatchedBranch) -> None:
        body = {"scope": {"type": "branch", "branchId": web.id}, "reason": REASON}
        shown = acme.key().post("/v1/freezes", body).json()
        assert (shown["previewedRepoCount"], shown["impactAcknowledged"]) == (None, False)

    def test_tells_every_fault_of_the_body_in_one_answer_the_first_property_first(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        body = {"id": "frz_1", "reason": "no", "scope": {"type": "glob"}, "exceptionsAllowed": "yes"}
        error = refusal(acme.key().post("/v1/freezes", body), 400, "missing_parameter")
        assert paths(error) == ["/scope/patterns", "/reason", "/exceptionsAllowed", "/id"]
        assert [row["code"] for row in error["details"]] == [
            "missing_parameter",
            "reason_required",
            "validation_failed",
            "validation_failed",
        ]

    def test_judges_the_scope_before_what_comes_after_it(self, acme: Tenant, web: WatchedBranch) -> None:
        scope = {"type": "repositories", "repositories": ["acme/nothing"]}
        body = {"scope": scope, "reason": "x       x", "endsAt": in_hours(-1)}
        assert paths(refusal(acme.key().post("/v1/freezes", body), 422, "invalid_parameter"))[0].startswith("/scope")

    @pytest.mark.parametrize("field", ["organizationId", "state", "startedAt", "source", "createdBy"])
    def test_takes_no_field_that_is_not_the_callers_to_set(self, acme: Tenant, web: WatchedBranch, field: str) -> None:
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, field: "x"}), 422, "validation_failed")
        assert paths(error) == [f"/{field}"]

    def test_refuses_more_branches_than_one_request_takes(self, acme: Tenant, session: Session) -> None:
        repository = acme.repository("web")
        session.connection().exec_driver_sql(
            "INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at) "
            "SELECT 'wbr_' || lpad(n::text, 26, '0'), %s, %s, 'b' || n, 'change-freeze/b' || n, now() "
            "FROM generate_series(1, 10001) n",
            (acme.id, repository.id),
        )
        message = refusal(acme.key().post("/v1/freezes", FIRST), 413, "too_many_targets")["message"]
        assert "10001" in message
        assert "10000" in message
        assert session.scalar(select(func.count()).select_from(Freeze)) == 0

    def test_with_a_key_happens_once_and_is_told_again(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        caller, keyed = acme.key(), {"headers": {"Idempotency-Key": "8e03978e"}}
        first = caller.post("/v1/freezes", FIRST, **keyed)
        again = caller.post("/v1/freezes", FIRST, **keyed)
        assert (again.status_code, again.json(), again.headers["location"]) == (
            201,
            first.json(),
            first.headers["location"],
        )
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["x-request-id"] != first.headers["x-request-id"]
        assert session.scalar(select(func.count()).select_from(Freeze)) == 1
        assert acme.audit() == ["freeze.started"]


class TestListFreezes:
    def test_shows_the_one_started_last_first(self, acme: Tenant, session: Session) -> None:
        made = [
            factories.freeze(session, acme.organization, started_at=factories.now() - timedelta(days=age)).id
            for age in range(3)
        ]
        answer = acme.key().get("/v1/freezes")
        assert ids(answer) == made
        assert answer.json()["nextCursor"] is None
        assert set(answer.json()["data"][0]) == FIELDS

    def test_pages_lead_through_all_of_them_once(self, acme: Tenant, session: Session) -> None:
        same = factories.now()
        made = {factories.freeze(session, acme.organization, started_at=same).id for _ in range(7)}
        pages = all_pages(acme.key(), "/v1/freezes", limit=3)
        assert [len(page) for page in pages] == [3, 3, 1]
        assert {row["id"] for page in pages for row in page} == made

    @pytest.mark.parametrize("limit", ["0", "101", "many", "1_0", ""])
    def test_refuses_a_limit_out_of_range(self, acme: Tenant, limit: str) -> None:
        assert paths(refusal(acme.key().get("/v1/freezes", limit=limit), 400, "invalid_parameter")) == ["limit"]

    def test_refuses_an_unknown_parameter(self, acme: Tenant) -> None:
        assert paths(refusal(acme.key().get("/v1/freezes", page=2), 400, "invalid_parameter")) == ["page"]

    def test_refuses_a_cursor_of_another_list(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        for tenant in (acme, globex):
            for _ in range(3):
                factories.freeze(session, tenant.organization)
        cursor = acme.key().get("/v1/freezes", limit=1).json()["nextCursor"]
        foreign = globex.key().get("/v1/freezes", limit=1).json()["nextCursor"]
        for wrong in (
            {"cursor": cursor, "state": "in_force"},
            {"cursor": foreign},
            {"cursor": cursor[:-2] + "AA"},
            {"cursor": "x"},
        ):
            refusal(acme.key().get("/v1/freezes", **wrong), 400, "invalid_cursor")

    def test_by_state_follows_the_clock(self, acme: Tenant, session: Session, later: Any) -> None:
        running = factories.freeze(session, acme.organization, ends_at=factories.now() + timedelta(hours=1))
        ended = factories.freeze(session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        key = acme.key()
        assert ids(key.get("/v1/freezes", state="in_force")) == [running.id]
        assert ids(key.get("/v1/freezes", state="ended")) == [ended.id]
        later(hours=1)
        assert ids(key.get("/v1/freezes", state="in_force")) == []
        assert set(ids(key.get("/v1/freezes", state="ended"))) == {running.id, ended.id}

    def test_by_repository_and_branch_shows_what_has_a_target_there(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        of_web, of_both = (factories.freeze(session, acme.organization, rows) for rows in ([web], [web, api]))
        key = acme.key()
        assert set(ids(key.get("/v1/freezes", repo="Acme/Web"))) == {of_web.id, of_both.id}
        assert ids(key.get("/v1/freezes", repo=api.repository_id)) == [of_both.id]
        assert ids(key.get("/v1/freezes", branchId=api.id)) == [of_both.id]

    def test_by_schedule_and_source(self, acme: Tenant, session: Session) -> None:
        by_hand = factories.freeze(session, acme.organization)
        planned = factories.freeze(
            session,
            acme.organization,
            source="schedule",
            schedule_id=factories.schedule(session, acme.organization).id,
        )
        key = acme.key()
        assert ids(key.get("/v1/freezes", source="manual")) == [by_hand.id]
        assert ids(key.get("/v1/freezes", source="schedule")) == [planned.id]
        assert ids(key.get("/v1/freezes", scheduleId=planned.schedule_id)) == [planned.id]

    def test_by_start_takes_in_the_first_instant_and_leaves_out_the_last(self, acme: Tenant, session: Session) -> None:
        start = factories.now().replace(microsecond=0)
        made = [
            factories.freeze(session, acme.organization, started_at=start - timedelta(days=age)).id for age in range(3)
        ]
        asked = {"startedAfter": text(start - timedelta(days=1)), "startedBefore": text(start)}
        assert ids(acme.key().get("/v1/freezes", **asked)) == [made[1]]

    def test_by_something_unknown_finds_nothing(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        foreign = factories.watched(session, globex.organization, "globex/secret")
        foreign_schedule = factories.schedule(session, globex.organization)
        key = acme.key()
        for name, code, values in (
            ("repo", "repository_not_found", ["acme/nothing", "globex/secret", foreign.repository_id, new_id("rep")]),
            ("branchId", "branch_not_found", [foreign.id, new_id("wbr"), "main"]),
            ("scheduleId", "schedule_not_found", [foreign_schedule.id, new_id("sch"), "x"]),
        ):
            for value in values:
                refusal(key.get("/v1/freezes", **{name: value}), 404, code)

    def test_another_organisations_freezes_are_not_listed(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        factories.freeze(session, globex.organization)
        assert ids(acme.key().get("/v1/freezes")) == []


class TestGetFreeze:
    def test_reads_an_ended_one(self, acme: Tenant, session: Session, web: WatchedBranch, freeze: Freeze) -> None:
        assert acme.key().post(f"/v1/freezes/{freeze.id}/lift").status_code == 200
        shown = acme.key("freeze:read").get(f"/v1/freezes/{freeze.id}").json()
        assert (shown["state"], shown["endReason"]) == ("ended", "lifted")

    def test_says_that_its_time_has_passed_before_that_is_recorded(
        self, acme: Tenant, session: Session, later: Any
    ) -> None:
        ends_at = factories.now() + timedelta(hours=1)
        by_hand = factories.freeze(session, acme.organization, ends_at=ends_at)
        planned = factories.freeze(session, acme.organization, ends_at=ends_at, source="schedule")
        later(hours=1)
        for freeze, reason in ((by_hand, "expired"), (planned, "schedule_ended")):
            shown = acme.key().get(f"/v1/freezes/{freeze.id}").json()
            assert (shown["state"], shown["endReason"], shown["endedBy"]["type"]) == ("ended", reason, "system")
            assert datetime.fromisoformat(shown["endedAt"]) == ends_at


class TestListFreezeTargets:
    def test_shows_every_field(self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch) -> None:
        freeze = factories.freeze(session, acme.organization)
        target = factories.target(
            session,
            freeze,
            web,
            state="failed",
            heads_total=3,
            heads_written=1,
            attempts=2,
            last_error_code="github_unavailable",
            last_error_message="It did not answer",
        )
        [shown] = acme.key().get(f"/v1/freezes/{freeze.id}/targets").json()["data"]
        assert shown == {
            "id": target.id,
            "freezeId": freeze.id,
            "branchId": web.id,
            "repository": "acme/web",
            "branch": "main",
            "state": "failed",
            "operation": "apply",
            "heads": {"total": 3, "written": 1},
            "attempts": 2,
            "lastError": {"code": "github_unavailable", "message": "It did not answer"},
            "nextAttemptAt": None,
            "appliedAt": None,
            "releasedAt": None,
        }

    def test_pages_lead_through_all_of_them_once(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        repository = session.get_one(Repository, web.repository_id)
        branches = [factories.branch(session, repository, f"release/{number}") for number in range(5)]
        freeze = factories.freeze(session, acme.organization, branches)
        pages = all_pages(acme.key(), f"/v1/freezes/{freeze.id}/targets", limit=2)
        assert [len(page) for page in pages] == [2, 2, 1]
        assert {row["branchId"] for page in pages for row in page} == {branch.id for branch in branches}

    def test_by_state(self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch) -> None:
        freeze = factories.freeze(session, acme.organization, [web])
        failed = factories.target(session, freeze, api, state="failed")
        assert ids(acme.key().get(f"/v1/freezes/{freeze.id}/targets", state="failed")) == [failed.id]
        wrong = acme.key().get(f"/v1/freezes/{freeze.id}/targets", state="lost")
        assert paths(refusal(wrong, 400, "invalid_parameter")) == ["state"]

    def test_refuses_a_cursor_of_another_freeze(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        first, second = (factories.freeze(session, acme.organization, [web, api]) for _ in range(2))
        cursor = acme.key().get(f"/v1/freezes/{first.id}/targets", limit=1).json()["nextCursor"]
        refusal(acme.key().get(f"/v1/freezes/{second.id}/targets", cursor=cursor), 400, "invalid_cursor")


class TestLiftFreeze:
    def test_ends_it_and_leaves_the_code_host_to_workers(
        self, acme: Tenant, session: Session, freeze: Freeze, wakeups: RecordedWakeups
    ) -> None:
        answer = acme.person("member").post(f"/v1/freezes/{freeze.id}/lift", {"reason": " The release is out "})
        shown = answer.json()
        assert answer.status_code == 200, answer.text
        assert (shown["state"], shown["endReason"], shown["endedBy"]["type"]) == ("ended", "lifted", "user")
        assert shown["endedAt"] is not None
        assert shown["releasedAt"] is None
        assert shown["targets"] == {"total": 1, "pending": 0, "applied": 0, "releasing": 1, "released": 0, "failed": 0}
        assert wakeups.sent == {"reconcile"}
        assert acme.audit() == ["freeze.lifted"]
        assert session.scalars(select(AuditEntry.details)).one()["reason"] == "The release is out"

    @pytest.mark.parametrize("body", [None, {}, {"reason": "over"}])
    def test_takes_a_body_or_none(self, acme: Tenant, freeze: Freeze, body: Any) -> None:
        assert acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/lift", body).status_code == 200

    @pytest.mark.parametrize(
        ("body", "where"),
        [({"reason": ""}, "/reason"), ({"reason": "r" * 1001}, "/reason"), ({"force": True}, "/force"), ([], "")],
        ids=str,
    )
    def test_refuses_another_body(self, acme: Tenant, freeze: Freeze, body: Any, where: str) -> None:
        answer = acme.key().post(f"/v1/freezes/{freeze.id}/lift", body)
        assert paths(refusal(answer, 422, "validation_failed")) == [where]

    def test_of_an_ended_one_is_refused(self, acme: Tenant, session: Session, web: WatchedBranch, later: Any) -> None:
        timed = factories.freeze(session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        lifted = factories.freeze(session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        later(hours=1)
        for freeze in (timed, lifted):
            refusal(acme.key().post(f"/v1/freezes/{freeze.id}/lift"), 409, "not_frozen")
        assert acme.audit() == []

    def test_never_ends_another(self, acme: Tenant, session: Session, web: WatchedBranch, freeze: Freeze) -> None:
        other = factories.freeze(session, acme.organization, [web])
        key = acme.key()
        key.post(f"/v1/freezes/{freeze.id}/lift")
        assert key.get(f"/v1/freezes/{other.id}").json()["state"] == "in_force"
        assert key.get("/v1/freeze-state", branchId=web.id).json()["frozen"] is True
        assert key.get(f"/v1/branches/{web.id}").json()["freezeIds"] == [other.id]


class TestExtendFreeze:
    def extend(self, acme: Tenant, freeze: Freeze, ends_at: Any) -> httpx.Response:
        return acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/extend", {"endsAt": ends_at})

    def test_of_an_open_end_takes_any_future_one(self, acme: Tenant, freeze: Freeze, wakeups: RecordedWakeups) -> None:
        ends_at = in_hours(1)
        shown = self.extend(acme, freeze, ends_at).json()
        assert datetime.fromisoformat(shown["endsAt"]) == datetime.fromisoformat(ends_at)
        assert shown["state"] == "in_force"
        assert wakeups.sent == {"reconcile"}
        assert acme.audit() == ["freeze.extended"]

    def test_of_a_bounded_end_moves_it_later_or_away(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        freeze = factories.freeze(session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=2))
        assert paths(refusal(self.extend(acme, freeze, in_hours(1)), 422, "invalid_parameter")) == ["/endsAt"]
        assert self.extend(acme, freeze, in_hours(3)).status_code == 200
        assert self.extend(acme, freeze, None).json()["endsAt"] is None

    def test_into_the_past_is_refused(self, acme: Tenant, freeze: Freeze) -> None:
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
    def test_refuses_another_body(
        self, acme: Tenant, freeze: Freeze, body: Any, status: int, code: str, where: str
    ) -> None:
        answer = acme.key().post(f"/v1/freezes/{freeze.id}/extend", body)
        assert paths(refusal(answer, status, code)) == [where]

    def test_of_an_ended_one_is_refused(self, acme: Tenant, session: Session, later: Any) -> None:
        timed = factories.freeze(session, acme.organization, ends_at=factories.now() + timedelta(hours=1))
        lifted = factories.freeze(session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        later(hours=1)
        for freeze in (timed, lifted):
            refusal(self.extend(acme, freeze, None), 409, "invalid_state")


class TestRetryFreeze:
    @pytest.mark.parametrize(("operation", "state"), [("apply", "pending"), ("release", "releasing")])
    def test_makes_failed_targets_due_in_force_or_ended(
        self,
        acme: Tenant,
        session: Session,
        web: WatchedBranch,
        api: WatchedBranch,
        wakeups: RecordedWakeups,
        operation: str,
        state: str,
    ) -> None:
        ended: dict[str, Any] = {"ended_at": factories.now(), "end_reason": "lifted"} if operation == "release" else {}
        freeze = factories.freeze(session, acme.organization, **ended)
        factories.target(session, freeze, web, operation=operation, state="failed", last_error_code="x")
        factories.target(session, freeze, api, operation=operation, state="applied")
        shown = acme.key("freeze:write").post(f"/v1/freezes/{freeze.id}/retry").json()
        assert (shown["targets"][state], shown["targets"]["failed"], shown["targets"]["applied"]) == (1, 0, 1)
        session.expire_all()
        assert (web.due_at is not None, api.due_at is not None) == (True, False)
        assert wakeups.sent == {"reconcile"}
        assert acme.audit() == ["freeze.retried"]

    def test_without_a_failure_has_nothing_to_do(self, acme: Tenant, freeze: Freeze) -> None:
        refusal(acme.key().post(f"/v1/freezes/{freeze.id}/retry"), 409, "invalid_state")


class TestLiftFreezes:
    def lift(self, acme: Tenant, **scope: Any) -> httpx.Response:
        return acme.key("freeze:write").post("/v1/freezes/lift", {"scope": scope, "reason": " over "})

    def test_ends_what_lies_inside_and_tells_what_stays_frozen(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        everything = factories.freeze(session, acme.organization, [web, api])
        of_web = factories.freeze(
            session,
            acme.organization,
            [web],
            scope={"type": "repositories", "repositories": ["acme/web"]},
        )
        answer = self.lift(acme, type="repositories", repositories=["acme/web"])
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert [(row["id"], row["state"], row["endReason"]) for row in shown["data"]] == [
            (of_web.id, "ended", "lifted")
        ]
        assert shown["stillFrozen"] == [{"branchId": web.id, "freezeIds": [everything.id]}]
        assert shown["stillFrozenCount"] == 1
        assert wakeups.sent == {"reconcile"}
        assert acme.audit() == ["freeze.lifted"]
        assert session.scalars(select(AuditEntry.details)).one()["reason"] == "over"

    def test_of_the_organisation_ends_every_freeze(
        self, acme: Tenant, globex: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        scopes: list[dict[str, Any]] = [
            EVERYTHING,
            {"type": "glob", "patterns": ["acme/w*"]},
            {"type": "repositories", "repositories": ["acme/web"]},
            {"type": "branch", "branchId": web.id},
        ]
        made = {factories.freeze(session, acme.organization, [web], scope=scope).id for scope in scopes}
        foreign = factories.freeze(session, globex.organization)
        shown = self.lift(acme, type="organization").json()
        assert {row["id"] for row in shown["data"]} == made
        assert (shown["stillFrozen"], shown["stillFrozenCount"]) == ([], 0)
        session.refresh(foreign)
        assert foreign.ended_at is None

    def test_where_only_wider_freezes_cover_it_names_them_and_changes_nothing(
        self, acme: Tenant, session: Session, web: WatchedBranch, freeze: Freeze
    ) -> None:
        for scope in ({"type": "branch", "branchId": web.id}, {"type": "glob", "patterns": ["*/*"]}):
            assert freeze.id in refusal(self.lift(acme, **scope), 409, "invalid_state")["message"]
        session.refresh(freeze)
        assert freeze.ended_at is None

    def test_where_nothing_is_frozen_has_nothing_to_lift(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        refusal(self.lift(acme, type="organization"), 409, "not_frozen")
        factories.freeze(session, acme.organization, [web], scope={"type": "branch", "branchId": web.id})
        refusal(self.lift(acme, type="repositories", repositories=["acme/api"]), 409, "not_frozen")

    def test_of_a_scope_that_reaches_no_watched_branch_has_nothing_to_lift(
        self, acme: Tenant, session: Session
    ) -> None:
        acme.repository("web")
        refusal(self.lift(acme, type="organization"), 409, "not_frozen")
        refusal(self.lift(acme, type="repositories", repositories=["acme/web"]), 409, "not_frozen")

    def test_of_the_organisation_ends_also_what_no_scope_reaches_any_more(
        self, acme: Tenant, session: Session, web: WatchedBranch, freeze: Freeze
    ) -> None:
        session.get_one(Repository, web.repository_id).removed_at = factories.now()
        session.flush()
        assert [row["id"] for row in self.lift(acme, type="organization").json()["data"]] == [freeze.id]

    def test_needs_a_scope(self, acme: Tenant) -> None:
        assert paths(refusal(acme.key().post("/v1/freezes/lift", {}), 400, "missing_parameter")) == ["/scope"]


class TestGetFreezeState:
    def ask(self, acme: Tenant, **asked: str) -> dict[str, Any]:
        answer = acme.key("freeze:read").get("/v1/freeze-state", **asked)
        assert answer.status_code == 200, answer.text
        state: dict[str, Any] = answer.json()
        return state

    def test_of_a_branch_tells_which_freezes_cover_it(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        soon, late = (factories.now().replace(microsecond=0) + timedelta(hours=hours) for hours in (1, 2))
        first = factories.freeze(session, acme.organization, [web], ends_at=late, exceptions_allowed=False)
        second = factories.freeze(session, acme.organization, [web], ends_at=soon, started_at=factories.now())
        expected = {
            "frozen": True,
            "coverage": "all",
            "frozenBranchCount": 1,
            "watchedBranchCount": 1,
            "subject": {"type": "branch", "id": web.id, "name": "acme/web:main"},
            "freezes": [
                {
                    "id": freeze.id,
                    "reason": freeze.reason,
                    "startedAt": text(freeze.started_at).replace("000Z", "Z"),
                    "endsAt": text(freeze.ends_at or soon),
                    "exceptionsAllowed": freeze.exceptions_allowed,
                }
                for freeze in (second, first)
            ],
            "freezesTruncated": False,
            "branches": [],
            "branchesTruncated": False,
            "nextChangeAt": text(soon),
        }
        assert self.ask(acme, branchId=web.id) == expected
        assert self.ask(acme, repo="acme/web", branch="main") == expected
        assert self.ask(acme, repo=web.repository_id, branch="main") == expected
        assert self.ask(acme, repo="acme/api", branch="main")["frozen"] is False

    def test_of_a_repository_tells_of_each_branch(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        release = factories.branch(session, session.get_one(Repository, web.repository_id), "release/1")
        factories.branch(session, session.get_one(Repository, web.repository_id), "old", unwatched_at=factories.now())
        freeze = factories.freeze(session, acme.organization, [web])
        state = self.ask(acme, repo="ACME/Web")
        assert state["subject"] == {"type": "repository", "id": web.repository_id, "name": "acme/web"}
        assert (state["frozen"], state["coverage"]) == (True, "some")
        assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (1, 2)
        assert [row["id"] for row in state["freezes"]] == [freeze.id]
        assert state["branches"] == [
            {"branchId": web.id, "name": "main", "frozen": True},
            {"branchId": release.id, "name": "release/1", "frozen": False},
        ]
        factories.freeze(session, acme.organization, [release])
        assert self.ask(acme, repo="acme/web")["coverage"] == "all"

    def test_of_a_repository_without_a_watched_branch_is_none(self, acme: Tenant) -> None:
        acme.repository("web")
        state = self.ask(acme, repo="acme/web")
        assert (state["frozen"], state["coverage"], state["watchedBranchCount"]) == (False, "none", 0)

    def test_of_the_organisation_counts_all_its_branches(
        self, acme: Tenant, globex: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        foreign = factories.watched(session, globex.organization, "globex/secret")
        factories.freeze(session, globex.organization, [foreign])
        assert self.ask(acme, organization="current")["coverage"] == "none"
        freeze = factories.freeze(session, acme.organization, [web])
        state = self.ask(acme, organization="current")
        assert state["subject"] == {"type": "organization", "id": acme.id, "name": "Acme"}
        assert (state["coverage"], state["frozenBranchCount"], state["watchedBranchCount"]) == ("some", 1, 2)
        assert [row["id"] for row in state["freezes"]] == [freeze.id]
        assert state["branches"] == []

    def test_of_the_organisation_names_no_freeze_of_what_is_no_longer_covered(
        self, acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        factories.freeze(session, acme.organization, [web])
        session.get_one(Repository, web.repository_id).removed_at = factories.now()
        session.flush()
        state = self.ask(acme, organization="current")
        assert (state["frozen"], state["freezes"], state["watchedBranchCount"]) == (False, [], 1)

    def test_follows_the_clock_and_not_the_sweeper(
        self, acme: Tenant, session: Session, web: WatchedBranch, later: Any
    ) -> None:
        factories.freeze(session, acme.organization, [web], ends_at=factories.now() + timedelta(hours=1))
        for asked in ({"branchId": web.id}, {"repo": "acme/web"}, {"organization": "current"}):
            assert self.ask(acme, **asked)["frozen"] is True
        later(hours=1)
        for asked in ({"branchId": web.id}, {"repo": "acme/web"}, {"organization": "current"}):
            state = self.ask(acme, **asked)
            assert (state["frozen"], state["freezes"], state["nextChangeAt"]) == (False, [], None)

    def test_names_twenty_freezes_and_a_hundred_branches(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        repository = session.get_one(Repository, web.repository_id)
        branches = [factories.branch(session, repository, f"release/{number}") for number in range(100)]
        for _ in range(21):
            factories.freeze(session, acme.organization, [web, branches[0]])
        state = self.ask(acme, repo="acme/web")
        assert (len(state["freezes"]), state["freezesTruncated"]) == (20, True)
        assert (len(state["branches"]), state["branchesTruncated"]) == (100, True)
        assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (2, 101)

    def test_follows_renames(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        repository = session.get_one(Repository, web.repository_id)
        repository.name = "website"
        session.flush()
        for name in ("acme/Web", "acme/website"):
            assert self.ask(acme, repo=name)["subject"]["name"] == "acme/website"
            assert self.ask(acme, repo=name, branch="main")["subject"]["id"] == web.id
        new = factories.repository(session, acme.organization, "acme/web")
        assert self.ask(acme, repo="acme/web")["subject"]["id"] == new.id

    def test_of_a_disabled_repository_finds_none(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        session.get_one(Repository, web.repository_id).enabled = False
        session.flush()
        for asked in ({"repo": "acme/web"}, {"repo": web.repository_id, "branch": "main"}, {"branchId": web.id}):
            refusal(acme.key().get("/v1/freeze-state", **asked), 404, "repository_not_found")

    def test_of_a_repository_that_is_no_longer_covered_finds_none(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        session.get_one(Repository, web.repository_id).removed_at = factories.now()
        session.flush()
        for asked in ({"repo": "acme/web"}, {"repo": web.repository_id}, {"branchId": web.id}):
            refusal(acme.key().get("/v1/freeze-state", **asked), 404, "repository_not_found")

    def test_of_an_unwatched_branch_finds_none(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        old = factories.branch(
            session, session.get_one(Repository, web.repository_id), "old", unwatched_at=factories.now()
        )
        asked: list[dict[str, str]] = [
            {"branchId": old.id},
            {"repo": "acme/web", "branch": "old"},
            {"repo": "acme/web", "branch": "MAIN"},
            {"branchId": new_id("wbr")},
        ]
        for form in asked:
            refusal(acme.key().get("/v1/freeze-state", **form), 404, "branch_not_found")

    def test_of_another_organisation_finds_none(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        foreign = factories.watched(session, globex.organization, "globex/secret")
        key = acme.key()
        refusal(key.get("/v1/freeze-state", repo="globex/secret"), 404, "repository_not_found")
        refusal(key.get("/v1/freeze-state", repo=foreign.repository_id), 404, "repository_not_found")
        refusal(key.get("/v1/freeze-state", branchId=foreign.id), 404, "branch_not_found")

    @pytest.mark.parametrize("asked", [{}, {"branch": "main"}], ids=str)
    def test_needs_a_form(self, acme: Tenant, asked: dict[str, str]) -> None:
        assert paths(refusal(acme.key().get("/v1/freeze-state", **asked), 400, "missing_parameter")) == ["repo"]

    @pytest.mark.parametrize(
        ("asked", "where"),
        [
            ({"repo": "acme/web", "branchId": "wbr_1"}, ["branchId"]),
            ({"repo": "acme/web", "organization": "current"}, ["organization"]),
            ({"branchId": "wbr_1", "branch": "main"}, ["branch"]),
            ({"organization": "current", "branch": "main"}, ["branch"]),
            ({"repo": "acme/web", "branchId": "wbr_1", "organization": "current"}, ["branchId", "organization"]),
            ({"organization": "acme"}, ["organization"]),
        ],
        ids=str,
    )
    def test_takes_one_form_only(
        self, acme: Tenant, web: WatchedBranch, asked: dict[str, str], where: list[str]
    ) -> None:
        assert paths(refusal(acme.key().get("/v1/freeze-state", **asked), 400, "invalid_parameter")) == where

    def test_is_not_sent_twice_while_nothing_changes(
        self, acme: Tenant, session: Session, web: WatchedBranch, later: Any
    ) -> None:
        key = acme.key("freeze:read")

        def poll(tag: str) -> httpx.Response:
            headers = {"If-None-Match": tag}
            return key.send("GET", "/v1/freeze-state", params={"branchId": web.id}, headers=headers)

        first = poll('"never"')
        assert first.status_code == 200
        assert first.headers["etag"].startswith('"')
        assert (first.headers["cache-control"], first.headers["vary"]) == ("private, no-cache", "Authorization")
        later(minutes=5)
        for tag in (first.headers["etag"], "*", f'W/{first.headers["etag"]}, "other"'):
            again = poll(tag)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
            assert (again.headers["cache-control"], again.headers["vary"]) == ("private, no-cache", "Authorization")
            assert "ratelimit-remaining" in again.headers
            assert "ratelimit-reset" in again.headers
        factories.freeze(session, acme.organization, [web])
        changed = poll(first.headers["etag"])
        assert (changed.status_code, changed.json()["frozen"]) == (200, True)
        assert changed.headers["etag"] != first.headers["etag"]


def test_every_read_agrees_that_a_branch_is_frozen(
    acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch
) -> None:
    pull = factories.pull_request(session, session.get_one(Repository, web.repository_id), 7)
    key = acme.key()

    def told() -> list[bool]:
        branch, repository = key.get(f"/v1/branches/{web.id}").json(), key.get("/v1/repos/acme%2Fweb").json()
        preview = key.post("/v1/scope/preview", {"scope": {"type": "branch", "branchId": web.id}}).json()
        pulls = key.get("/v1/repos/acme%2Fweb/pulls").json()["data"]
        return [
            key.get("/v1/freeze-state", branchId=web.id).json()["frozen"],
            key.get("/v1/freeze-state", repo="acme/web").json()["frozen"],
            key.get("/v1/freeze-state", organization="current").json()["frozen"],
            branch["frozen"],
            repository["frozen"],
            preview["repositories"][0]["branches"][0]["frozen"],
            [row["verdict"] for row in pulls if row["id"] == pull.id] == ["blocked"],
            key.get("/v1/pulls/lookup", ref="acme/web#7").json()["verdict"] == "blocked",
            len(key.get("/v1/freezes", branchId=web.id, state="in_force").json()["data"]) > 0,
            len(key.get("/v1/branches", frozen="true").json()["data"]) > 0,
        ]

    assert set(told()) == {False}
    body = {"scope": {"type": "branch", "branchId": web.id}, "reason": REASON}
    first, second = (key.post("/v1/freezes", body).json()["id"] for _ in range(2))
    assert set(told()) == {True}
    key.post(f"/v1/freezes/{first}/lift")
    assert set(told()) == {True}
    key.post(f"/v1/freezes/{second}/lift")
    assert set(told()) == {False}


def test_a_target_is_one_row_for_each_freeze_and_branch(acme: Tenant, session: Session, web: WatchedBranch) -> None:
    acme.key().post("/v1/freezes", {**FIRST, "scope": {"type": "repositories", "repositories": ["acme/web"] * 3}})
    assert session.scalar(select(func.count()).select_from(FreezeTarget)) == 1
