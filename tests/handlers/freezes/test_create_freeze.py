"""Starting a freeze."""

import re
from datetime import datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, select

from models.audit import AuditEntry
from models.freezes import Freeze, FreezeTarget
from models.repositories import WatchedBranch
from rules.freezes.blocking import GAPS
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.freezes.requests import EVERYTHING, FIELDS, FIRST, REASON, in_hours, paths
from tests.harness.wakeups import RecordedWakeups


class TestCreateFreeze:
    @pytest.mark.parametrize(
        ("given", "kept"), [("  Merging is paused ", "Merging is paused"), (" \u200b ", None), (None, None)]
    )
    def test_public_text_is_kept_beside_the_reason(
        self, acme: Tenant, web: WatchedBranch, given: str | None, kept: str | None
    ) -> None:
        shown = acme.person("member").post("/v1/freezes", {**FIRST, "publicText": given}).json()
        assert (shown["publicText"], shown["reason"]) == (kept, REASON)

    def test_public_text_is_short(self, acme: Tenant, web: WatchedBranch) -> None:
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, "publicText": "x" * 201}), 422, "validation_failed")
        assert [row["path"] for row in error["details"]] == ["/publicText"]

    def test_freeze_starts_at_once_and_leaves_github_to_workers(
        self, acme: Tenant, web: WatchedBranch, wakeups: RecordedWakeups
    ) -> None:
        ends_at = in_hours(2)
        body = {**FIRST, "endsAt": ends_at, "previewedRepoCount": 1, "exceptionsAllowed": False}
        answer = acme.person("member").post("/v1/freezes", body)
        assert answer.status_code == 201, answer.text
        shown = answer.json()
        assert answer.headers["location"] == f"/v1/freezes/{shown['id']}"
        assert re.fullmatch("frz_[0-9a-v]{26}", shown["id"])
        assert set(shown) == FIELDS | {"alreadyFrozen", "alreadyFrozenCount"}
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
            "publicText": None,
            "endedAt": None,
            "endReason": None,
            "exceptionsAllowed": False,
            "exceptionRulesAllowed": True,
            "previewedRepoCount": 1,
            "impactAcknowledged": True,
            "alreadyFrozen": [],
            "alreadyFrozenCount": 0,
            "scheduleId": None,
            "occurrenceId": None,
            "endedBy": None,
            "blockedAt": None,
            "enforcedAt": None,
            "firstEnforcedAt": None,
            "releasedAt": None,
            "targets": {
                "total": 1,
                "pending": 1,
                "applied": 0,
                "releasing": 0,
                "released": 0,
                "failed": 0,
                "blocked": 0,
                "partly": 0,
                "unprotected": 0,
                "unknown": 1,
                "late": 0,
                "stopped": 0,
            },
            "gaps": [{"code": "not_read", "state": "unknown", "branchCount": 1, "message": GAPS["not_read"]}],
        }
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.started"]
        assert acme.key().get(answer.headers["location"]).json()["id"] == answer.json()["id"]

    def test_freeze_started_by_a_key_names_the_key(self, acme: Tenant, web: WatchedBranch) -> None:
        shown = acme.key("freeze:write", name="deploys").post("/v1/freezes", FIRST).json()
        assert (shown["createdBy"]["type"], shown["createdBy"]["name"]) == ("api_key", "deploys")
        assert acme.session.scalars(select(AuditEntry.source)).one() == "api"

    def test_reason_is_trimmed_before_it_is_counted(self, acme: Tenant, web: WatchedBranch) -> None:
        padded = {**FIRST, "reason": f" \t\n{'r' * 8}\u2003 "}
        assert acme.key().post("/v1/freezes", padded).json()["reason"] == "r" * 8

    def test_short_reason_is_rejected(self, acme: Tenant, web: WatchedBranch) -> None:
        cases: list[Any] = ["", "short", "       x       ", "\u2003" * 8, "\u200b" * 8, "\u202e1234567\u200b"]
        for reason in cases:
            error = refusal(acme.key().post("/v1/freezes", {**FIRST, "reason": reason}), 422, "reason_required")
            assert paths(error) == ["/reason"]
            assert acme.session.scalar(select(func.count()).select_from(Freeze)) == 0

    def test_missing_reason_is_rejected(self, acme: Tenant, web: WatchedBranch) -> None:
        body = {name: value for name, value in FIRST.items() if name != "reason"}
        assert paths(refusal(acme.key().post("/v1/freezes", body), 422, "reason_required")) == ["/reason"]

    @pytest.mark.parametrize("hours", [-1, -0.001])
    def test_end_in_the_past_is_rejected(self, acme: Tenant, web: WatchedBranch, hours: float) -> None:
        error = refusal(acme.key().post("/v1/freezes", {**FIRST, "endsAt": in_hours(hours)}), 422, "invalid_parameter")
        assert paths(error) == ["/endsAt"]

    def test_unknown_repository_and_past_end_are_named_together(self, acme: Tenant, web: WatchedBranch) -> None:
        scope = {"type": "repositories", "repositories": ["acme/none"]}
        body = {"scope": scope, "reason": REASON, "endsAt": in_hours(-1)}
        error = refusal(acme.key().post("/v1/freezes", body), 422, "invalid_parameter")
        assert paths(error) == ["/scope/repositories/0", "/endsAt"]

    def test_end_may_have_any_offset(self, acme: Tenant, web: WatchedBranch) -> None:
        shown = acme.key().post("/v1/freezes", {**FIRST, "endsAt": "2099-01-04T08:00:00+01:00"}).json()
        assert shown["endsAt"] == "2099-01-04T07:00:00Z"

    @pytest.mark.parametrize("scope", [EVERYTHING, {"type": "glob", "patterns": ["acme/*"]}], ids=str)
    def test_open_ended_scope_requires_a_preview_or_acknowledgement(
        self, acme: Tenant, web: WatchedBranch, scope: dict[str, Any]
    ) -> None:
        body: dict[str, Any] = {"scope": scope, "reason": REASON}
        for not_enough in ({}, {"impactAcknowledged": False}):
            error = refusal(acme.key().post("/v1/freezes", {**body, **not_enough}), 422, "impact_preview_required")
            assert paths(error) == ["/previewedRepoCount"]
        for enough in ({"previewedRepoCount": 0}, {"impactAcknowledged": True}):
            assert acme.key().post("/v1/freezes", {**body, **enough}).status_code == 201

    def test_fixed_scope_requires_neither_preview_nor_acknowledgement(self, acme: Tenant, web: WatchedBranch) -> None:
        body = {"scope": {"type": "branch", "branchId": web.id}, "reason": REASON}
        shown = acme.key().post("/v1/freezes", body).json()
        assert (shown["previewedRepoCount"], shown["impactAcknowledged"]) == (None, False)

    def test_too_many_branches_are_rejected(self, acme: Tenant, shared_database: psycopg.Connection[Any]) -> None:
        repository = acme.repository("web")
        shared_database.execute(  # without the checks that triggers add
            "INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at) "
            "SELECT 'wbr_' || lpad(n::text, 26, '0'), %s, %s, 'b' || n, 'change-freeze/b' || n, now() "
            "FROM generate_series(1, 10001) n",
            (acme.id, repository.id),
        )
        message = refusal(acme.key().post("/v1/freezes", FIRST), 413, "too_many_targets")["message"]
        assert "10001" in message
        assert "10000" in message
        assert acme.session.scalar(select(func.count()).select_from(Freeze)) == 0


def test_freeze_has_one_target_per_branch(acme: Tenant, web: WatchedBranch) -> None:
    acme.key().post("/v1/freezes", {**FIRST, "scope": {"type": "repositories", "repositories": ["acme/web"] * 3}})
    assert acme.session.scalar(select(func.count()).select_from(FreezeTarget)) == 1
