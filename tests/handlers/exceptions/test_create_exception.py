"""Granting an exception without a request; a request reports the same errors of its body."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.time.instants import format_instant
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.exceptions.requests import (
    FIELDS,
    LONG_AGO,
    REASON,
    THIS,
    FrozenPull,
    decide,
    ids,
    in_hours,
    rows,
)
from tests.harness.wakeups import RecordedWakeups
from tools.fake_github import Handle

ASKING = ("/v1/exceptions", "/v1/exception-requests")


class TestCreateException:
    def test_grant_covers_every_covering_freeze(
        self, acme: Tenant, pull: PullRequest, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        freezes = [factories.freeze(acme.session, acme.organization, [web], reason=f"Freeze {n}") for n in (1, 2)]
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
        assert set(wakeups.sent) == {"reconcile"}
        assert factories.check(acme.session, web).wanted_generation > 0
        assert set(ids(acme.key().get("/v1/exceptions"))) == {row["id"] for row in shown}

    def test_grant_is_audited_once_with_every_row(self, case: FrozenPull) -> None:
        factories.freeze(case.session, case.acme.organization, [case.web])
        shown = rows(case.acme.person("admin").post("/v1/exceptions", THIS), 201)
        (entry,) = factories.audit_entries(case.session)
        assert entry.action == "exception.granted"
        assert entry.target == {"type": "exception", "id": shown[0]["requestGroupId"], "name": "acme/web#7"}
        assert [row["id"] for row in entry.details["rows"]] == [row["id"] for row in shown]
        assert entry.details["rows"][0]["before"] is None
        assert entry.details["rows"][0]["after"]["state"] == "granted"
        assert (entry.details["reason"], "selfApproved" in entry.details) == (REASON, False)
        assert "sharedHeadWith" not in entry.details

    @pytest.mark.parametrize("is_request", [False, True])
    def test_grant_names_the_other_pull_requests_that_its_commit_lets_in(
        self, case: FrozenPull, is_request: bool
    ) -> None:
        same = {"head_sha": case.pull.head_sha}
        other = factories.pull_request(case.session, case.repository, 9, **same)
        factories.pull_request(case.session, case.repository, 8)
        factories.pull_request(case.session, case.repository, 10, **same, base_branch="next")
        factories.pull_request(case.session, case.repository, 11, **same, state="closed")
        if is_request:
            asked = case.request()
            [shown] = rows(case.acme.key().get("/v1/exception-requests"))
            assert [each["number"] for each in shown["sharedHeadWith"]] == [9]
            [shown] = rows(decide(case.acme.key(), asked.id))
        else:
            [shown] = rows(case.acme.key().post("/v1/exceptions", THIS), 201)
        assert shown["sharedHeadWith"] == [
            {"id": other.id, "repository": "acme/web", "number": 9, "url": other.url, "baseBranch": "main"}
        ]
        assert factories.audit_entries(case.session)[-1].details["sharedHeadWith"] == ["acme/web#9"]
        [ended] = rows(case.acme.key().post(f"/v1/exceptions/{shown['id']}/revoke"))
        assert ended["sharedHeadWith"] == []
        assert "sharedHeadWith" not in factories.audit_entries(case.session)[-1].details

    @pytest.mark.parametrize(
        ("path", "named"),
        [
            ("/v1/exceptions", {"pullRequest": "{github}/acme/web/pull/7/files"}),
            ("/v1/exceptions", {"pullRequest": "Acme/Web#7"}),
            ("/v1/exceptions", {"pullRequest": "7", "repo": "acme/web"}),
            ("/v1/exceptions", {"pullRequest": "#7"}),
            ("/v1/exception-requests", {"pullRequest": "acme/web#7", "repo": "acme/web"}),
        ],
    )
    def test_grant_accepts_a_pull_request_by_address_name_or_number(
        self, case: FrozenPull, served_fake_github: Handle, path: str, named: dict[str, str]
    ) -> None:
        named["pullRequest"] = named["pullRequest"].replace("{github}", served_fake_github.base_url)
        shown = rows(case.acme.key().post(path, {"reason": REASON, **named}), 201)
        assert [row["pullRequest"]["id"] for row in shown] == [case.pull.id]

    def test_grant_reports_what_is_invalid_and_where(self, case: FrozenPull) -> None:
        cases: list[tuple[dict[str, Any], int, str, list[str] | None]] = [
            ({"pullRequest": "acme/web#8"}, 404, "pull_request_not_found", None),
            ({"pullRequest": "acme/nothing#7"}, 404, "repository_not_found", None),
            ({"pullRequest": "7", "repo": "acme/nothing"}, 404, "repository_not_found", None),
            ({"pullRequest": "nonsense"}, 422, "invalid_parameter", ["/pullRequest"]),
            ({"pullRequest": "acme/web#7", "repo": "acme/api"}, 422, "invalid_parameter", ["/repo"]),
            ({"pullRequest": "7"}, 400, "missing_parameter", ["/repo"]),
            ({"pullRequest": 7}, 422, "validation_failed", ["/pullRequest"]),
            ({}, 400, "missing_parameter", ["/pullRequest"]),
            ({"pullRequest": "acme/web#7", "reason": "   short   "}, 422, "validation_failed", ["/reason"]),
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
        ]
        factories.branch(case.session, case.acme.repository("api"))
        for (named, status, code, where), path in product(cases, ASKING):
            error = refusal(case.acme.key().post(path, {"reason": REASON, **named}), status, code)
            assert [row["path"] for row in error.get("details", ())] == (where or []), named
        assert case.session.query(PullRequestException).count() == 0
        assert case.acme.audit() == []

    def test_grant_for_an_untracked_pull_request_is_not_found(
        self, acme: Tenant, freeze: Freeze, repository: Repository, web: WatchedBranch
    ) -> None:
        factories.pull_request(acme.session, repository, base_branch="nobody-watches")
        for path in ASKING:
            refusal(acme.key().post(path, THIS), 404, "pull_request_not_found")

    def test_grant_is_rejected_when_no_freeze_covers_the_base(
        self, acme: Tenant, pull: PullRequest, web: WatchedBranch
    ) -> None:
        for path in ASKING:
            refusal(acme.key().post(path, THIS), 409, "not_frozen")
        over = factories.now() - timedelta(seconds=1)
        factories.freeze(acme.session, acme.organization, [web], ends_at=over)
        for path in ASKING:
            refusal(acme.key().post(path, THIS), 409, "not_frozen")

    def test_grant_is_rejected_as_a_whole_when_freeze_or_branch_permits_none(self, case: FrozenPull) -> None:
        strict = factories.freeze(case.session, case.acme.organization, [case.web], exceptions_allowed=False)
        for path in ASKING:
            error = refusal(case.acme.key().post(path, THIS), 409, "exceptions_not_permitted")
            assert strict.id in error["message"]
            assert case.freeze.id not in error["message"]
        strict.exceptions_allowed, case.web.exceptions_allowed = True, False
        case.session.flush()
        for path in ASKING:
            error = refusal(case.acme.key().post(path, THIS), 409, "exceptions_not_permitted")
            assert case.web.id in error["message"]
            assert "acme/web:main" in error["message"]
        assert case.session.query(PullRequestException).count() == 0

    def test_second_grant_already_exists(self, case: FrozenPull) -> None:
        granted = rows(case.acme.key().post("/v1/exceptions", THIS), 201)
        for path in ("/v1/exceptions", "/v1/exception-requests"):
            assert granted[0]["id"] in refusal(case.acme.key().post(path, THIS), 409, "already_exists")["message"]

    def test_second_grant_covers_a_freeze_that_started_since(self, case: FrozenPull) -> None:
        rows(case.acme.key().post("/v1/exceptions", THIS), 201)
        later = factories.freeze(case.session, case.acme.organization, [case.web])
        assert [row["freezeId"] for row in rows(case.acme.key().post("/v1/exceptions", THIS), 201)] == [later.id]

    def test_grant_decides_pending_requests(
        self, acme: Tenant, pending: PullRequestException, web: WatchedBranch
    ) -> None:
        other = factories.freeze(acme.session, acme.organization, [web])
        shown = rows(acme.person("admin").post("/v1/exceptions", {**THIS, "reason": "On the incident call"}), 201)
        assert [(row["freezeId"], row["reason"], row["decisionReason"]) for row in shown] == [
            (pending.freeze_id, pending.reason, "On the incident call"),
            (other.id, "On the incident call", None),
        ]
        assert {row["requestGroupId"] for row in shown} == {pending.request_group_id}
        assert {row["state"] for row in shown} == {"granted"}
        (entry,) = factories.audit_entries(acme.session)
        assert [(row["before"] or {}).get("state") for row in entry.details["rows"]] == ["pending", None]

    def test_grant_of_an_own_request_is_forbidden(self, case: FrozenPull) -> None:
        admin, key = case.acme.person("admin"), case.acme.key()
        for caller in (admin, key):
            (mine,) = rows(caller.post("/v1/exception-requests", THIS), 201)
            refusal(caller.post("/v1/exceptions", THIS), 403, "insufficient_permission")
            rows(caller.post(f"/v1/exceptions/{mine['id']}/revoke"))
            refusal(caller.post("/v1/exceptions", THIS), 403, "insufficient_permission")
        rows(case.acme.person("owner").post("/v1/exceptions", THIS), 201)

    @pytest.mark.parametrize(
        ("by_key", "asked", "pinned"),
        [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
    )
    def test_grant_pins_to_the_head_for_keys_and_on_request(
        self, case: FrozenPull, by_key: bool, asked: bool | None, pinned: bool
    ) -> None:
        caller = case.acme.key() if by_key else case.acme.person("admin")
        body = THIS if asked is None else {**THIS, "pinToHead": asked}
        (row,) = rows(caller.post("/v1/exceptions", body), 201)
        assert (row["pinToHead"], row["headSha"]) == (pinned, case.pull.head_sha)

    def test_grant_replaces_an_expired_exception(self, case: FrozenPull) -> None:
        over = factories.now() - timedelta(seconds=5)
        old = case.grant(expires_at=over)
        (new,) = rows(case.acme.person("admin").post("/v1/exceptions", THIS), 201)
        assert new["id"] != old.id
        shown = case.acme.key().get(f"/v1/exceptions/{old.id}").json()
        assert (shown["state"], shown["expiredAt"]) == ("expired", format_instant(over))
        assert [(entry.action, entry.actor["type"]) for entry in factories.audit_entries(case.session)] == [
            ("exception.expired", "system"),
            ("exception.granted", "user"),
        ]

    @pytest.mark.parametrize("path", ASKING)
    def test_grant_replaces_an_exception_with_a_stale_pin(self, case: FrozenPull, path: str) -> None:
        left = {"pin_to_head": True, "head_sha": factories.sha("before")}
        old = case.grant(**left)
        (new,) = rows(case.acme.person("admin").post(path, THIS), 201)
        shown = case.acme.key().get(f"/v1/exceptions/{old.id}").json()
        assert (new["headSha"], shown["state"], shown["revokedBy"]["type"]) == (case.pull.head_sha, "revoked", "system")
