"""A change of the freeze of a due window begins it first."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from models.audit import AuditEntry
from models.freezes import FreezeTarget
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.schedules import Schedule
from rules.ids import id_of_freeze
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.compatibility.requests import ClassicClient
from tests.handlers.freezes.due_windows.conftest import DueWindow, begun, open_window, states
from tests.handlers.freezes.requests import REASON, UNKNOWN, ids, in_hours, text
from tests.harness.concurrency import at_once

MINUTE = timedelta(minutes=1)
NO_TARGETS = {"released": 0, "releasing": 0, "applied": 0, "failed": 0}


class TestChanges:
    @pytest.mark.parametrize(
        ("path", "body", "action", "end_reason"),
        [
            ("lift", {"reason": "The release was moved"}, "freeze.lifted", "lifted"),
            ("thaw-override", {"reason": "The release was moved"}, "freeze.overridden", "overridden"),
        ],
        ids=["lift", "override"],
    )
    def test_due_window_begins_and_ends_at_once(
        self, due: DueWindow, sweep: Callable[[], int], path: str, body: dict[str, Any], action: str, end_reason: str
    ) -> None:
        key = due.acme.key("freeze:write")
        answer = answered(key.post(f"/v1/freezes/{due.id}/{path}", body))
        assert (answer["id"], answer["endReason"]) == (due.id, end_reason)
        started, ended = due.session.scalars(select(AuditEntry).order_by(AuditEntry.id))
        assert (started.action, started.actor["id"], started.source) == ("freeze.started", due.schedule.id, "schedule")
        assert (ended.action, ended.actor["type"]) == (action, "api_key")
        assert started.details["late"] >= 600
        due.session.refresh(due.row)
        assert (due.row.freeze_id, due.row.late) == (due.id, True)
        assert [state["frozen"] for state in states(due.acme)] == [False] * 3
        assert sweep() == 0
        refusal(key.post(f"/v1/freezes/{due.id}/{path}", body), 409, "not_frozen")

    def test_due_window_is_extended(self, due: DueWindow, sweep: Callable[[], int]) -> None:
        later = text(due.row.ends_at + timedelta(hours=1))
        answer = due.acme.key("freeze:write").post(f"/v1/freezes/{due.id}/extend", {"endsAt": later})
        assert (answer.status_code, answer.json()["endsAt"]) == (200, later), answer.text
        assert due.acme.audit() == ["freeze.started", "freeze.extended"]
        assert sweep() == 0
        assert [freeze.id for freeze in begun(due.session)] == [due.id]

    def test_refused_change_begins_nothing(self, due: DueWindow) -> None:
        key = due.acme.key("freeze:write")
        refusal(key.post(f"/v1/freezes/{due.id}/retry"), 409, "invalid_state")
        refusal(key.post(f"/v1/freezes/{due.id}/extend", {"endsAt": in_hours(0.1)}), 422, "invalid_parameter")
        refusal(key.post(f"/v1/freezes/{UNKNOWN}/lift"), 404, "freeze_not_found")
        assert begun(due.session) == []
        assert due.acme.audit() == []

    def test_lift_by_scope_ends_due_windows_inside_it(self, due: DueWindow) -> None:
        narrow = factories.schedule(
            due.session, due.acme.organization, scope={"type": "repositories", "repositories": ["acme/web"]}
        )
        inside = id_of_freeze(open_window(due.session, narrow).id)
        manual = factories.freeze(due.session, due.acme.organization, [due.web], scope=narrow.scope)
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        lifted = due.acme.key("freeze:write").post("/v1/freezes/lift", {"scope": scope})
        assert set(ids(lifted)) == {inside, manual.id}
        covered = {"branchId": due.web.id, "repository": "acme/web", "branch": "main", "freezeIds": [due.id]}
        assert lifted.json()["stillFrozen"] == [covered]
        assert ids(due.acme.key().get("/v1/freezes", state="in_force")) == [due.id]

    def test_lift_by_scope_names_due_windows_that_reach_further(self, due: DueWindow) -> None:
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        error = refusal(due.acme.key("freeze:write").post("/v1/freezes/lift", {"scope": scope}), 409, "invalid_state")
        assert due.id in error["message"]
        assert begun(due.session) == []

    def test_run_now_lifts_a_due_window(self, due: DueWindow) -> None:
        answer = due.acme.person("member").post(f"/v1/schedules/{due.schedule.id}/run-now", {"action": "lift"})
        assert (answer.status_code, answer.json()["freezeId"]) == (200, due.id), answer.text
        assert due.acme.audit() == ["freeze.started", "freeze.lifted"]
        assert states(due.acme)[0]["frozen"] is False

    def test_run_now_applies_a_due_window_under_its_id(self, due: DueWindow) -> None:
        answer = due.acme.person("member").post(f"/v1/schedules/{due.schedule.id}/run-now", {"action": "apply"})
        assert (answer.status_code, answer.json()["freezeId"]) == (200, due.id), answer.text

    def test_exception_from_a_due_window_begins_it(self, due: DueWindow, pull: PullRequest) -> None:
        asked = {"pullRequest": f"acme/web#{pull.number}", "reason": REASON}
        requested = due.acme.key("exception:write").post("/v1/exception-requests", asked)
        assert requested.status_code == 201, requested.text
        assert [row["freezeId"] for row in requested.json()["data"]] == [due.id]
        assert [freeze.id for freeze in begun(due.session)] == [due.id]
        assert due.acme.audit() == ["freeze.started", "exception.requested"]

    def test_granted_exception_lets_a_pull_request_pass_a_due_window(self, due: DueWindow, pull: PullRequest) -> None:
        asked = {"pullRequest": f"acme/web#{pull.number}", "reason": REASON}
        granted = due.acme.key("exception:write").post("/v1/exceptions", asked)
        assert granted.status_code == 201, granted.text
        shown = due.acme.key().get("/v1/pulls/lookup", ref=f"acme/web#{pull.number}").json()
        assert (shown["verdict"], shown["freezeIds"]) == ("allowed", [due.id])

    def test_exceptions_that_a_schedule_forbids_are_refused(self, due: DueWindow, pull: PullRequest) -> None:
        due.schedule.exceptions_allowed = False
        due.session.flush()
        asked = {"pullRequest": f"acme/web#{pull.number}", "reason": REASON}
        error = refusal(due.acme.key("exception:write").post("/v1/exceptions", asked), 409, "exceptions_not_permitted")
        assert due.id in error["message"]
        assert begun(due.session) == []

    def test_classic_client_ends_the_due_window_of_one_branch(self, due: DueWindow) -> None:
        due.schedule.scope = {"type": "branch", "branchId": due.web.id}
        due.session.flush()
        client = ClassicClient(due.acme, due.acme.key("freeze:read", "freeze:write").token or "")
        assert client.change(b"frozen=true")["frozen_by"] == "Weekends"
        assert begun(due.session) == []
        assert client.change(b"frozen=false")["frozen"] is False
        assert [(freeze.id, freeze.end_reason) for freeze in begun(due.session)] == [(due.id, "overridden")]

    def test_skipped_due_window_freezes_no_more(
        self, acme: Tenant, schedule: Schedule, due: DueWindow, web: WatchedBranch
    ) -> None:
        generation = factories.check(acme.session, web).wanted_generation
        answer = acme.key("schedule:write").post(f"/v1/schedules/{schedule.id}/occurrences/{due.row.id}/skip")
        assert answer.status_code == 200, answer.text
        assert [state["frozen"] for state in states(acme)] == [False] * 3
        acme.session.refresh(web)
        assert factories.check(acme.session, web).wanted_generation > generation

    @pytest.mark.parametrize(
        "change",
        [
            {"enabled": False},
            {"scope": {"type": "repositories", "repositories": ["acme/api"]}},
            {"window": {"startTime": "03:00", "endTime": "03:01"}},
            None,
        ],
        ids=["disabled", "another scope", "another window", "deleted"],
    )
    def test_change_of_its_schedule_ends_no_due_window(
        self, due: DueWindow, sweep: Callable[[], int], change: dict[str, Any] | None
    ) -> None:
        key, path = due.acme.key("schedule:write"), f"/v1/schedules/{due.schedule.id}"
        answer = key.delete(path) if change is None else key.patch(path, change)
        assert answer.is_success, answer.text
        assert [state["frozenBranchCount"] for state in states(due.acme)] == [1, 1, 2]
        assert sweep() == 0
        assert [freeze.id for freeze in begun(due.session)] == [due.id]

    def test_change_that_keeps_a_due_window_does_not_begin_it(self, acme: Tenant, schedule: Schedule) -> None:
        start = factories.now().replace(minute=0, second=0, microsecond=0)
        schedule.timezone = "UTC"
        schedule.recurrence = {"frequency": "daily", "start_date": "2026-01-02"}
        schedule.window = {"start_time": f"{start:%H:%M}", "end_time": f"{start:%H:%M}", "days": 1}
        end = start + timedelta(days=1)
        due = factories.occurrence(acme.session, schedule, starts_at=start, ends_at=end)
        answer = acme.key("schedule:write").patch(f"/v1/schedules/{schedule.id}", {"name": "Inventory"})
        assert answer.status_code == 200, answer.text
        assert begun(acme.session) == []
        assert ids(acme.key().get("/v1/freezes")) == [id_of_freeze(due.id)]

    def test_deletion_with_its_active_window_ends_a_due_window(self, due: DueWindow) -> None:
        answer = due.acme.key("schedule:write").send(
            "DELETE", f"/v1/schedules/{due.schedule.id}", params={"endActive": True}
        )
        assert answer.status_code == 204, answer.text
        assert [(freeze.id, freeze.end_reason) for freeze in begun(due.session)] == [(due.id, "lifted")]
        assert [state["frozen"] for state in states(due.acme)] == [False] * 3

    def test_lift_and_sweeper_begin_a_due_window_once(self, due: DueWindow, sweep: Callable[[], int]) -> None:
        key = due.acme.key("freeze:write")
        lifts: list[int] = []

        def lift() -> None:
            lifts.append(key.post(f"/v1/freezes/{due.id}/lift").status_code)

        at_once(lift, sweep, lift, sweep)
        assert sorted(lifts) == [200, 409]
        assert [(freeze.id, freeze.end_reason) for freeze in begun(due.session)] == [(due.id, "lifted")]
        assert sorted(due.acme.audit()) == ["freeze.lifted", "freeze.started"]
        targets = due.session.scalars(select(FreezeTarget.freeze_id)).all()
        assert targets == [due.id, due.id]
