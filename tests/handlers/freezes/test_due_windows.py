"""A window that is due freezes, for every reader and every change, while no sweeper begins it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.audit import AuditEntry
from models.freezes import Freeze, FreezeTarget
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import id_of_freeze
from services.core.unit_of_work import Dependencies, UnitOfWorkFactory
from services.schedules.occurrence_start import start_windows
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.compatibility.requests import ClassicClient
from tests.handlers.freezes.requests import EVERYTHING, REASON, UNKNOWN, all_pages, ids, in_hours, text
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

MINUTE = timedelta(minutes=1)
NO_TARGETS = {"released": 0, "releasing": 0, "applied": 0, "failed": 0}


@pytest.fixture
def schedule(acme: Tenant, session: Session, web: WatchedBranch, api: WatchedBranch) -> Schedule:
    return factories.schedule(session, acme.organization, name="Weekends")


def open_window(session: Session, schedule: Schedule, began: timedelta = 10 * MINUTE) -> Occurrence:
    """Plan a window that is open since some minutes, for another 50."""
    starts_at = factories.now().replace(microsecond=0) - began
    return factories.occurrence(session, schedule, starts_at=starts_at, ends_at=starts_at + began + 50 * MINUTE)


@pytest.fixture
def due(session: Session, schedule: Schedule) -> Occurrence:
    """Return a window of the whole organisation, of acme/web and acme/api, that nobody has begun."""
    return open_window(session, schedule)


@pytest.fixture
def due_id(due: Occurrence) -> str:
    """Return the id of its freeze."""
    return id_of_freeze(due.id)


@pytest.fixture
def sweep(database: str, clock: MovableClock) -> Callable[[], int]:
    """Begin what is due, as a sweeper does."""
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, RecordedWakeups(), Dependencies())
    return lambda: start_windows(jobs)


def states(acme: Tenant) -> list[dict[str, Any]]:
    """Return the freeze state of a branch, of a repository and of the organisation."""
    forms = ({"repo": "acme/web", "branch": "main"}, {"repo": "acme/web"}, {"organization": "current"})
    return [acme.key().get("/v1/freeze-state", **form).json() for form in forms]


def begun(session: Session) -> list[Freeze]:
    session.expire_all()
    return list(session.scalars(select(Freeze).order_by(Freeze.id)))


class TestReaders:
    def test_freeze_state_reports_a_due_window_in_each_form(
        self, acme: Tenant, session: Session, web: WatchedBranch, due: Occurrence, due_id: str
    ) -> None:
        by_id = acme.key().get("/v1/freeze-state", branchId=web.id).json()
        for state, branches in zip([*states(acme), by_id], (1, 1, 2, 1), strict=True):
            [freeze] = state["freezes"]
            assert (state["frozen"], state["coverage"]) == (True, "all")
            assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (branches, branches)
            assert (freeze["id"], freeze["reason"]) == (due_id, "No release team at the weekend")
            assert freeze["startedAt"] == text(due.starts_at)
            assert state["nextChangeAt"] == freeze["endsAt"] == text(due.ends_at)
        assert begun(session) == []

    def test_freeze_state_counts_a_branch_once_when_a_freeze_covers_it_too(
        self, acme: Tenant, session: Session, web: WatchedBranch, due: Occurrence, due_id: str
    ) -> None:
        freeze = factories.freeze(session, acme.organization, [web])
        for state, branches in zip(states(acme), (1, 1, 2), strict=True):
            assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (branches, branches)
            assert {one["id"] for one in state["freezes"]} == {freeze.id, due_id}

    def test_due_window_that_has_not_begun_is_not_called_enforced(
        self, acme: Tenant, session: Session, web: WatchedBranch, schedule: Schedule
    ) -> None:
        factories.branch_enforcement(session, web)
        factories.freeze(session, acme.organization, [web])
        assert [state["enforced"] for state in states(acme)] == [True, True, True]
        open_window(session, schedule)
        assert [state["enforced"] for state in states(acme)] == [False, False, False]

    def test_due_window_covers_only_the_branches_of_its_scope(
        self, acme: Tenant, session: Session, schedule: Schedule, due: Occurrence, due_id: str
    ) -> None:
        schedule.scope = {"type": "repositories", "repositories": ["acme/api"]}
        session.flush()
        branch, repository, organization = states(acme)
        assert [branch["frozen"], repository["frozen"]] == [False, False]
        assert (organization["coverage"], organization["frozenBranchCount"]) == ("some", 1)
        key = acme.key()
        assert ids(key.get("/v1/freezes", repo="acme/api")) == [due_id]
        assert ids(key.get("/v1/freezes", repo="acme/web")) == []
        assert key.get(f"/v1/freezes/{due_id}").json()["targets"]["total"] == 1

    @pytest.mark.parametrize(
        "change",
        [
            lambda due, _schedule, _acme: setattr(due, "skip_reason", "asked"),
            lambda due, _schedule, _acme: setattr(due, "starts_at", factories.now() + MINUTE),
            lambda due, _schedule, _acme: setattr(due, "ends_at", factories.now()),
            lambda _due, schedule, _acme: setattr(schedule, "enabled", False),
            lambda _due, schedule, _acme: setattr(schedule, "deleted_at", factories.now()),
            lambda _due, _schedule, acme: setattr(acme.installation, "state", "removed"),
            lambda _due, schedule, _acme: setattr(
                schedule, "scope", {"type": "repositories", "repositories": ["acme/gone"]}
            ),
        ],
        ids=["skipped", "not open yet", "over", "disabled", "deleted", "uninstalled", "without branches"],
    )
    def test_window_that_would_not_begin_freezes_nothing(
        self,
        acme: Tenant,
        session: Session,
        schedule: Schedule,
        due: Occurrence,
        due_id: str,
        sweep: Callable[[], int],
        change: Callable[..., None],
    ) -> None:
        change(due, schedule, acme)
        session.flush()
        assert [state["frozen"] for state in states(acme)] == [False] * 3
        assert ids(acme.key().get("/v1/freezes")) == []
        refusal(acme.key().get(f"/v1/freezes/{due_id}"), 404, "freeze_not_found")
        assert sweep() == 0

    def test_freeze_of_a_due_window_is_shown_and_keeps_its_id(
        self,
        acme: Tenant,
        session: Session,
        schedule: Schedule,
        due: Occurrence,
        due_id: str,
        sweep: Callable[[], int],
    ) -> None:
        key = acme.key()
        shown = key.get(f"/v1/freezes/{due_id}").json()
        targets = key.get(f"/v1/freezes/{due_id}/targets").json()["data"]
        assert ids(key.get("/v1/freezes", state="in_force")) == [due_id]
        assert begun(session) == []
        assert sweep() == 1
        recorded = key.get(f"/v1/freezes/{due_id}").json()
        assert recorded == {**shown, "startedAt": recorded["startedAt"]}
        assert (shown["state"], shown["source"], shown["enforcedAt"]) == ("in_force", "schedule", None)
        assert (shown["startedAt"], shown["endsAt"]) == (text(due.starts_at), text(due.ends_at))
        assert shown["createdBy"] == {"type": "schedule", "id": schedule.id, "name": "Weekends"}
        assert {name: count for name, count in shown["targets"].items() if count} == {
            "total": 2,
            "pending": 2,
            "unknown": 2,
        }
        assert key.get(f"/v1/freezes/{due_id}/targets").json()["data"] == targets

    def test_targets_of_a_due_window_are_listed_in_pages(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch, due_id: str
    ) -> None:
        path = f"/v1/freezes/{due_id}/targets"
        pages = all_pages(acme.key(), path, limit=1)
        assert [len(page) for page in pages] == [1, 1]
        listed = [target for page in pages for target in page]
        assert {target["branchId"] for target in listed} == {web.id, api.id}
        assert {target["repository"] for target in listed} == {"acme/web", "acme/api"}
        assert {target["state"] for target in listed} == {"pending"}
        assert len(ids(acme.key().get(path, state="pending"))) == 2
        assert ids(acme.key().get(path, state="applied")) == []

    def test_due_windows_are_listed_among_the_freezes_by_their_start(
        self, acme: Tenant, session: Session, schedule: Schedule, web: WatchedBranch, due_id: str
    ) -> None:
        def freeze(minutes: int) -> str:
            return factories.freeze(session, acme.organization, [web], started_at=factories.now() - minutes * MINUTE).id

        expected = [freeze(5), due_id, freeze(15), id_of_freeze(open_window(session, schedule, 20 * MINUTE).id)]
        expected.append(freeze(25))
        for limit in (1, 2, 3, 5, 50):
            pages = all_pages(acme.key(), "/v1/freezes", limit=limit)
            assert [row["id"] for page in pages for row in page] == expected
            assert all(len(page) == limit for page in pages[:-1])

    @pytest.mark.parametrize(
        ("filters", "listed"),
        [
            ({"state": "in_force"}, True),
            ({"state": "ended"}, False),
            ({"source": "schedule"}, True),
            ({"source": "manual"}, False),
            ({"startedAfter": in_hours(-0.5)}, True),
            ({"startedAfter": in_hours(0)}, False),
            ({"startedBefore": in_hours(0)}, True),
            ({"startedBefore": in_hours(-0.5)}, False),
            ({"repo": "acme/web"}, True),
        ],
        ids=str,
    )
    def test_filters_of_freezes_apply_to_due_windows(
        self, acme: Tenant, due_id: str, filters: dict[str, str], *, listed: bool
    ) -> None:
        assert ids(acme.key().get("/v1/freezes", **filters)) == ([due_id] if listed else [])

    def test_due_window_is_listed_by_its_schedule_and_branch(
        self, acme: Tenant, session: Session, schedule: Schedule, web: WatchedBranch, due_id: str
    ) -> None:
        other = factories.schedule(session, acme.organization)
        key = acme.key()
        assert ids(key.get("/v1/freezes", scheduleId=schedule.id, branchId=web.id)) == [due_id]
        assert ids(key.get("/v1/freezes", scheduleId=other.id)) == []

    def test_due_window_of_another_organization_is_not_found(
        self, acme: Tenant, globex: Tenant, due: Occurrence, due_id: str
    ) -> None:
        assert ids(globex.key().get("/v1/freezes")) == []
        for path in ("", "/targets", "/lift-preview"):
            refusal(globex.key().get(f"/v1/freezes/{due_id}{path}"), 404, "freeze_not_found")
        refusal(globex.key("freeze:write").post(f"/v1/freezes/{due_id}/lift"), 404, "freeze_not_found")

    def test_open_ended_due_window_without_branches_is_listed(
        self, acme: Tenant, session: Session, schedule: Schedule, due_id: str
    ) -> None:
        schedule.scope = {"type": "glob", "patterns": ["other/*"]}
        session.flush()
        assert ids(acme.key().get("/v1/freezes")) == [due_id]
        assert [state["frozen"] for state in states(acme)] == [False] * 3

    def test_pull_request_is_blocked_by_a_due_window(
        self, acme: Tenant, pull: PullRequest, due: Occurrence, due_id: str
    ) -> None:
        key = acme.key()
        listed = key.get("/v1/repos/acme%2Fweb/pulls").json()["data"]
        looked_up = key.get("/v1/pulls/lookup", ref=f"acme/web#{pull.number}").json()
        for shown in (*listed, looked_up):
            assert (shown["verdict"], shown["freezeIds"]) == ("blocked", [due_id])
            assert shown["nextChangeAt"] == text(due.ends_at)
            assert due_id in shown["check"]["summary"]
            assert f"frozen until {due.ends_at:%Y-%m-%d %H:%M} UTC" in shown["check"]["title"]
        assert len(listed) == 1

    def test_branches_and_repositories_of_a_due_window_are_frozen(
        self, acme: Tenant, session: Session, schedule: Schedule, web: WatchedBranch, due_id: str
    ) -> None:
        schedule.scope = {"type": "repositories", "repositories": ["acme/web"]}
        session.flush()
        key = acme.key()
        assert key.get(f"/v1/branches/{web.id}").json()["freezeIds"] == [due_id]
        assert ids(key.get("/v1/branches", frozen=True)) == [web.id]
        assert web.id not in ids(key.get("/v1/branches", frozen=False))
        assert ids(key.get("/v1/repos", frozen=True)) == [web.repository_id]
        assert key.get("/v1/repos/acme%2Fweb").json()["frozen"] is True

    def test_scope_preview_and_overview_count_due_windows(
        self, acme: Tenant, session: Session, web: WatchedBranch, due_id: str
    ) -> None:
        freeze = factories.freeze(session, acme.organization, [web])
        preview = acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["branchCount"], preview["frozenBranchCount"]) == (2, 2)
        overview = acme.person("viewer").get("/v1/overview").json()
        assert overview["freezes"]["inForce"] == 2
        assert {one["id"] for one in overview["freezes"]["newest"]} == {freeze.id, due_id}
        assert overview["branches"] == {"watched": 2, "frozen": 2}

    def test_lift_preview_counts_due_windows(
        self, acme: Tenant, session: Session, web: WatchedBranch, due_id: str
    ) -> None:
        freeze = factories.freeze(session, acme.organization, [web], reason="One of them")
        of_due = acme.key().get(f"/v1/freezes/{due_id}/lift-preview").json()
        assert (of_due["releasedBranchCount"], of_due["frozenBranchCount"]) == (1, 1)
        assert of_due["freezes"] == [{"freezeId": freeze.id, "reason": "One of them", "branchCount": 1}]
        of_other = acme.key().get(f"/v1/freezes/{freeze.id}/lift-preview").json()
        assert (of_other["releasedBranchCount"], of_other["frozenBranchCount"]) == (0, 1)
        assert [one["freezeId"] for one in of_other["freezes"]] == [due_id]

    def test_classic_branch_is_frozen_by_a_due_window(self, acme: Tenant, due: Occurrence) -> None:
        client = ClassicClient(acme.http, acme.key("freeze:read").token or "")
        shown = client.state()
        assert (shown["frozen"], shown["frozen_by"]) == (True, "Weekends")
        assert shown["next_unfreeze_at"] == int(due.ends_at.timestamp())

    def test_branch_of_a_due_window_stays_watched(self, acme: Tenant, web: WatchedBranch, due_id: str) -> None:
        error = refusal(acme.person("admin").delete(f"/v1/branches/{web.id}"), 409, "already_frozen")
        assert due_id in error["message"]


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
        self,
        acme: Tenant,
        session: Session,
        schedule: Schedule,
        due: Occurrence,
        due_id: str,
        sweep: Callable[[], int],
        path: str,
        body: dict[str, Any],
        action: str,
        end_reason: str,
    ) -> None:
        key = acme.key("freeze:write")
        answer = key.post(f"/v1/freezes/{due_id}/{path}", body)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["id"], answer.json()["endReason"]) == (due_id, end_reason)
        started, ended = session.scalars(select(AuditEntry).order_by(AuditEntry.id))
        assert (started.action, started.actor["id"], started.source) == ("freeze.started", schedule.id, "schedule")
        assert (ended.action, ended.actor["type"]) == (action, "api_key")
        assert started.details["late"] >= 600
        session.refresh(due)
        assert (due.freeze_id, due.late) == (due_id, True)
        assert [state["frozen"] for state in states(acme)] == [False] * 3
        assert sweep() == 0
        refusal(key.post(f"/v1/freezes/{due_id}/{path}", body), 409, "not_frozen")

    def test_due_window_is_extended(
        self, acme: Tenant, session: Session, due: Occurrence, due_id: str, sweep: Callable[[], int]
    ) -> None:
        later = text(due.ends_at + timedelta(hours=1))
        answer = acme.key("freeze:write").post(f"/v1/freezes/{due_id}/extend", {"endsAt": later})
        assert (answer.status_code, answer.json()["endsAt"]) == (200, later), answer.text
        assert acme.audit() == ["freeze.started", "freeze.extended"]
        assert sweep() == 0
        assert [freeze.id for freeze in begun(session)] == [due_id]

    def test_refused_change_begins_nothing(self, acme: Tenant, session: Session, due_id: str) -> None:
        key = acme.key("freeze:write")
        refusal(key.post(f"/v1/freezes/{due_id}/retry"), 409, "invalid_state")
        refusal(key.post(f"/v1/freezes/{due_id}/extend", {"endsAt": in_hours(0.1)}), 422, "invalid_parameter")
        refusal(key.post(f"/v1/freezes/{UNKNOWN}/lift"), 404, "freeze_not_found")
        assert begun(session) == []
        assert acme.audit() == []

    def test_lift_by_scope_ends_due_windows_inside_it(
        self, acme: Tenant, session: Session, schedule: Schedule, web: WatchedBranch, due_id: str
    ) -> None:
        narrow = factories.schedule(
            session, acme.organization, scope={"type": "repositories", "repositories": ["acme/web"]}
        )
        inside = id_of_freeze(open_window(session, narrow).id)
        manual = factories.freeze(session, acme.organization, [web], scope=narrow.scope)
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        lifted = acme.key("freeze:write").post("/v1/freezes/lift", {"scope": scope})
        assert set(ids(lifted)) == {inside, manual.id}
        assert lifted.json()["stillFrozen"] == [{"branchId": web.id, "freezeIds": [due_id]}]
        assert ids(acme.key().get("/v1/freezes", state="in_force")) == [due_id]

    def test_lift_by_scope_names_due_windows_that_reach_further(
        self, acme: Tenant, session: Session, due_id: str
    ) -> None:
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        error = refusal(acme.key("freeze:write").post("/v1/freezes/lift", {"scope": scope}), 409, "invalid_state")
        assert due_id in error["message"]
        assert begun(session) == []

    def test_run_now_lifts_a_due_window(self, acme: Tenant, schedule: Schedule, due_id: str) -> None:
        answer = acme.person("member").post(f"/v1/schedules/{schedule.id}/run-now", {"action": "lift"})
        assert (answer.status_code, answer.json()["freezeId"]) == (200, due_id), answer.text
        assert acme.audit() == ["freeze.started", "freeze.lifted"]
        assert states(acme)[0]["frozen"] is False

    def test_run_now_applies_a_due_window_under_its_id(self, acme: Tenant, schedule: Schedule, due_id: str) -> None:
        answer = acme.person("member").post(f"/v1/schedules/{schedule.id}/run-now", {"action": "apply"})
        assert (answer.status_code, answer.json()["freezeId"]) == (200, due_id), answer.text

    def test_exception_from_a_due_window_begins_it(
        self, acme: Tenant, session: Session, pull: PullRequest, due_id: str
    ) -> None:
        asked = {"pullRequest": f"acme/web#{pull.number}", "reason": REASON}
        requested = acme.key("exception:write").post("/v1/exception-requests", asked)
        assert requested.status_code == 201, requested.text
        assert [row["freezeId"] for row in requested.json()["data"]] == [due_id]
        assert [freeze.id for freeze in begun(session)] == [due_id]
        assert acme.audit() == ["freeze.started", "exception.requested"]

    def test_granted_exception_lets_a_pull_request_pass_a_due_window(
        self, acme: Tenant, pull: PullRequest, due_id: str
    ) -> None:
        asked = {"pullRequest": f"acme/web#{pull.number}", "reason": REASON}
        granted = acme.key("exception:write").post("/v1/exceptions", asked)
        assert granted.status_code == 201, granted.text
        shown = acme.key().get("/v1/pulls/lookup", ref=f"acme/web#{pull.number}").json()
        assert (shown["verdict"], shown["freezeIds"]) == ("allowed", [due_id])

    def test_exceptions_that_a_schedule_forbids_are_refused(
        self, acme: Tenant, session: Session, schedule: Schedule, pull: PullRequest, due_id: str
    ) -> None:
        schedule.exceptions_allowed = False
        session.flush()
        asked = {"pullRequest": f"acme/web#{pull.number}", "reason": REASON}
        error = refusal(acme.key("exception:write").post("/v1/exceptions", asked), 409, "exceptions_not_permitted")
        assert due_id in error["message"]
        assert begun(session) == []

    def test_classic_client_ends_the_due_window_of_one_branch(
        self, acme: Tenant, session: Session, schedule: Schedule, web: WatchedBranch, due_id: str
    ) -> None:
        schedule.scope = {"type": "branch", "branchId": web.id}
        session.flush()
        client = ClassicClient(acme.http, acme.key("freeze:read", "freeze:write").token or "")
        assert client.change(b"frozen=true")["frozen_by"] == "Weekends"
        assert begun(session) == []
        assert client.change(b"frozen=false")["frozen"] is False
        assert [(freeze.id, freeze.end_reason) for freeze in begun(session)] == [(due_id, "overridden")]

    def test_skipped_due_window_freezes_no_more(
        self, acme: Tenant, session: Session, schedule: Schedule, due: Occurrence, web: WatchedBranch
    ) -> None:
        generation = web.wanted_generation
        answer = acme.key("schedule:write").post(f"/v1/schedules/{schedule.id}/occurrences/{due.id}/skip")
        assert answer.status_code == 200, answer.text
        assert [state["frozen"] for state in states(acme)] == [False] * 3
        session.refresh(web)
        assert web.wanted_generation > generation

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
        self,
        acme: Tenant,
        session: Session,
        schedule: Schedule,
        due_id: str,
        sweep: Callable[[], int],
        change: dict[str, Any] | None,
    ) -> None:
        key, path = acme.key("schedule:write"), f"/v1/schedules/{schedule.id}"
        answer = key.delete(path) if change is None else key.patch(path, change)
        assert answer.is_success, answer.text
        assert [state["frozenBranchCount"] for state in states(acme)] == [1, 1, 2]
        assert sweep() == 0
        assert [freeze.id for freeze in begun(session)] == [due_id]

    def test_change_that_keeps_a_due_window_does_not_begin_it(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        start = factories.now().replace(minute=0, second=0, microsecond=0)
        schedule.timezone = "UTC"
        schedule.recurrence = {"frequency": "daily", "start_date": "2026-01-02"}
        schedule.wall_clock_window = {"start_time": f"{start:%H:%M}", "end_time": f"{start:%H:%M}", "days": 1}
        end = start + timedelta(days=1)
        due = factories.occurrence(session, schedule, starts_at=start, ends_at=end)
        answer = acme.key("schedule:write").patch(f"/v1/schedules/{schedule.id}", {"name": "Inventory"})
        assert answer.status_code == 200, answer.text
        assert begun(session) == []
        assert ids(acme.key().get("/v1/freezes")) == [id_of_freeze(due.id)]

    def test_deletion_with_its_active_window_ends_a_due_window(
        self, acme: Tenant, session: Session, schedule: Schedule, due_id: str
    ) -> None:
        answer = acme.key("schedule:write").send("DELETE", f"/v1/schedules/{schedule.id}", params={"endActive": True})
        assert answer.status_code == 204, answer.text
        assert [(freeze.id, freeze.end_reason) for freeze in begun(session)] == [(due_id, "lifted")]
        assert [state["frozen"] for state in states(acme)] == [False] * 3

    def test_lift_and_sweeper_begin_a_due_window_once(
        self, acme: Tenant, session: Session, due_id: str, sweep: Callable[[], int]
    ) -> None:
        key = acme.key("freeze:write")
        lifts: list[int] = []

        def lift() -> None:
            lifts.append(key.post(f"/v1/freezes/{due_id}/lift").status_code)

        at_once(lift, sweep, lift, sweep)
        assert sorted(lifts) == [200, 409]
        assert [(freeze.id, freeze.end_reason) for freeze in begun(session)] == [(due_id, "lifted")]
        assert sorted(acme.audit()) == ["freeze.lifted", "freeze.started"]
        targets = session.scalars(select(FreezeTarget.freeze_id)).all()
        assert targets == [due_id, due_id]


def test_due_window_freezes_from_its_first_instant_to_its_last(
    acme: Tenant, session: Session, schedule: Schedule, clock: MovableClock
) -> None:
    start: datetime = factories.now().replace(microsecond=0) + timedelta(hours=1)
    factories.occurrence(session, schedule, starts_at=start, ends_at=start + timedelta(hours=1))
    moment = timedelta(milliseconds=1)
    instants = [start - moment, start, start + timedelta(hours=1) - moment, start + timedelta(hours=1)]
    for instant, frozen in zip(instants, (False, True, True, False), strict=True):
        clock.at = instant
        assert [state["frozen"] for state in states(acme)] == [frozen] * 3
        assert len(ids(acme.key().get("/v1/freezes", state="in_force"))) == frozen
