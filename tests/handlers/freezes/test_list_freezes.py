"""Reading freezes and their targets, one or in lists."""

from datetime import datetime, timedelta
from typing import Any

from models.freezes import Freeze
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.freezes.requests import FIELDS, ids, text


class TestListFreezes:
    def test_freezes_are_listed_latest_start_first(self, acme: Tenant) -> None:
        made = [
            factories.freeze(acme.session, acme.organization, started_at=factories.now() - timedelta(days=age)).id
            for age in range(3)
        ]
        answer = acme.key().get("/v1/freezes")
        assert ids(answer) == made
        assert answer.json()["nextCursor"] is None
        assert set(answer.json()["data"][0]) == FIELDS

    def test_state_filter_follows_the_clock(self, acme: Tenant, later: Any) -> None:
        running = factories.freeze(acme.session, acme.organization, ends_at=factories.now() + timedelta(hours=1))
        ended = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        key = acme.key()
        assert ids(key.get("/v1/freezes", state="in_force")) == [running.id]
        assert ids(key.get("/v1/freezes", state="ended")) == [ended.id]
        later(hours=1)
        assert ids(key.get("/v1/freezes", state="in_force")) == []
        assert set(ids(key.get("/v1/freezes", state="ended"))) == {running.id, ended.id}

    def test_repository_and_branch_filters_select_by_target(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        of_web, of_both = (factories.freeze(acme.session, acme.organization, rows) for rows in ([web], [web, api]))
        key = acme.key()
        assert set(ids(key.get("/v1/freezes", repo="Acme/Web"))) == {of_web.id, of_both.id}
        assert ids(key.get("/v1/freezes", repo=api.repository_id)) == [of_both.id]
        assert ids(key.get("/v1/freezes", branchId=api.id)) == [of_both.id]

    def test_freezes_are_filtered_by_schedule_and_source(self, acme: Tenant) -> None:
        by_hand = factories.freeze(acme.session, acme.organization)
        planned = factories.freeze(
            acme.session,
            acme.organization,
            source="schedule",
            schedule_id=factories.schedule(acme.session, acme.organization).id,
        )
        key = acme.key()
        assert ids(key.get("/v1/freezes", source="manual")) == [by_hand.id]
        assert ids(key.get("/v1/freezes", source="schedule")) == [planned.id]
        assert ids(key.get("/v1/freezes", scheduleId=planned.schedule_id)) == [planned.id]

    def test_list_freezes_rejects_a_reversed_range(self, acme: Tenant) -> None:
        for until in ("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"):
            params = {"startedAfter": "2026-11-21T00:00:00Z", "startedBefore": until}
            error = refusal(acme.key().get("/v1/freezes", **params), 400, "invalid_parameter")
            assert error["details"][0]["path"] == "startedBefore"

    def test_start_filter_includes_the_first_and_excludes_the_last_instant(self, acme: Tenant) -> None:
        start = factories.now().replace(microsecond=0)
        made = [
            factories.freeze(acme.session, acme.organization, started_at=start - timedelta(days=age)).id
            for age in range(3)
        ]
        asked = {"startedAfter": text(start - timedelta(days=1)), "startedBefore": text(start)}
        assert ids(acme.key().get("/v1/freezes", **asked)) == [made[1]]


class TestGetFreeze:
    def test_ended_freeze_is_readable(self, acme: Tenant, web: WatchedBranch, freeze: Freeze) -> None:
        assert acme.key().post(f"/v1/freezes/{freeze.id}/lift").status_code == 200
        shown = acme.key("freeze:read").get(f"/v1/freezes/{freeze.id}").json()
        assert (shown["state"], shown["endReason"]) == ("ended", "lifted")

    def test_freeze_reads_as_ended_before_its_end_is_recorded(self, acme: Tenant, later: Any) -> None:
        ends_at = factories.now() + timedelta(hours=1)
        by_hand = factories.freeze(acme.session, acme.organization, ends_at=ends_at)
        planned = factories.freeze(acme.session, acme.organization, ends_at=ends_at, source="schedule")
        later(hours=1)
        for freeze, reason in ((by_hand, "expired"), (planned, "schedule_ended")):
            shown = acme.key().get(f"/v1/freezes/{freeze.id}").json()
            assert (shown["state"], shown["endReason"], shown["endedBy"]["type"]) == ("ended", reason, "system")
            assert datetime.fromisoformat(shown["endedAt"]) == ends_at


class TestListFreezeTargets:
    def test_target_has_every_field(self, acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization)
        target = factories.target(
            acme.session,
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
            "blocking": {
                "state": "unknown",
                "gaps": ["not_read"],
                "bypassActorCount": None,
                "byStop": False,
                "message": "GitHub's rules were not read yet.",
            },
            "letIn": [],
        }

    def test_targets_are_filtered_by_state(self, acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web])
        failed = factories.target(acme.session, freeze, api, state="failed")
        assert ids(acme.key().get(f"/v1/freezes/{freeze.id}/targets", state="failed")) == [failed.id]

    def test_cursor_of_another_freeze_is_rejected(self, acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
        first, second = (factories.freeze(acme.session, acme.organization, [web, api]) for _ in range(2))
        cursor = acme.key().get(f"/v1/freezes/{first.id}/targets", limit=1).json()["nextCursor"]
        refusal(acme.key().get(f"/v1/freezes/{second.id}/targets", cursor=cursor), 400, "invalid_cursor")
