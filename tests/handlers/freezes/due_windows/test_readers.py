"""Every reader counts a due window that no process has begun as frozen."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.schedules import Schedule
from rules.ids import id_of_freeze
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.compatibility.requests import ClassicClient
from tests.handlers.freezes.due_windows.conftest import DueWindow, begun, open_window, states
from tests.handlers.freezes.requests import EVERYTHING, ids, in_hours, text
from tests.handlers.people import through_pages
from tests.harness.clock import MovableClock

MINUTE = timedelta(minutes=1)
NO_TARGETS = {"released": 0, "releasing": 0, "applied": 0, "failed": 0}


class TestReaders:
    def test_freeze_state_reports_a_due_window_in_each_form(self, due: DueWindow) -> None:
        by_id = due.acme.key().get("/v1/freeze-state", branchId=due.web.id).json()
        for state, branches in zip([*states(due.acme), by_id], (1, 1, 2, 1), strict=True):
            [freeze] = state["freezes"]
            assert (state["frozen"], state["coverage"]) == (True, "all")
            assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (branches, branches)
            assert (freeze["id"], freeze["reason"]) == (due.id, "No release team at the weekend")
            assert freeze["startedAt"] == text(due.row.starts_at)
            assert state["nextChangeAt"] == freeze["endsAt"] == text(due.row.ends_at)
        assert begun(due.session) == []

    def test_freeze_state_counts_a_branch_once_when_a_freeze_covers_it_too(self, due: DueWindow) -> None:
        freeze = factories.freeze(due.session, due.acme.organization, [due.web])
        for state, branches in zip(states(due.acme), (1, 1, 2), strict=True):
            assert (state["frozenBranchCount"], state["watchedBranchCount"]) == (branches, branches)
            assert {one["id"] for one in state["freezes"]} == {freeze.id, due.id}

    def test_due_window_that_has_not_begun_is_not_called_enforced(
        self, acme: Tenant, web: WatchedBranch, schedule: Schedule
    ) -> None:
        factories.branch_enforcement(acme.session, web)
        factories.freeze(acme.session, acme.organization, [web])
        assert [state["enforced"] for state in states(acme)] == [True, True, True]
        open_window(acme.session, schedule)
        assert [state["enforced"] for state in states(acme)] == [False, False, False]

    def test_due_window_covers_only_the_branches_of_its_scope(self, due: DueWindow) -> None:
        due.schedule.scope = {"type": "repositories", "repositories": ["acme/api"]}
        due.session.flush()
        branch, repository, organization = states(due.acme)
        assert [branch["frozen"], repository["frozen"]] == [False, False]
        assert (organization["coverage"], organization["frozenBranchCount"]) == ("some", 1)
        key = due.acme.key()
        assert ids(key.get("/v1/freezes", repo="acme/api")) == [due.id]
        assert ids(key.get("/v1/freezes", repo="acme/web")) == []
        assert key.get(f"/v1/freezes/{due.id}").json()["targets"]["total"] == 1

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
        self, due: DueWindow, sweep: Callable[[], int], change: Callable[..., None]
    ) -> None:
        change(due.row, due.schedule, due.acme)
        due.session.flush()
        assert [state["frozen"] for state in states(due.acme)] == [False] * 3
        assert ids(due.acme.key().get("/v1/freezes")) == []
        refusal(due.acme.key().get(f"/v1/freezes/{due.id}"), 404, "freeze_not_found")
        assert sweep() == 0

    def test_freeze_of_a_due_window_is_shown_and_keeps_its_id(self, due: DueWindow, sweep: Callable[[], int]) -> None:
        key = due.acme.key()
        shown = key.get(f"/v1/freezes/{due.id}").json()
        targets = key.get(f"/v1/freezes/{due.id}/targets").json()["data"]
        assert ids(key.get("/v1/freezes", state="in_force")) == [due.id]
        assert begun(due.session) == []
        assert sweep() == 1
        recorded = key.get(f"/v1/freezes/{due.id}").json()
        assert recorded == {**shown, "startedAt": recorded["startedAt"]}
        assert (shown["state"], shown["source"], shown["enforcedAt"]) == ("in_force", "schedule", None)
        assert (shown["startedAt"], shown["endsAt"]) == (text(due.row.starts_at), text(due.row.ends_at))
        assert shown["createdBy"] == {"type": "schedule", "id": due.schedule.id, "name": "Weekends"}
        assert {name: count for name, count in shown["targets"].items() if count} == {
            "total": 2,
            "pending": 2,
            "unknown": 2,
        }
        assert key.get(f"/v1/freezes/{due.id}/targets").json()["data"] == targets

    def test_targets_of_a_due_window_are_listed_in_pages(self, due: DueWindow) -> None:
        path = f"/v1/freezes/{due.id}/targets"
        listed = through_pages(due.acme.key(), path, limit=1)
        assert len(listed) == 2
        assert {target["branchId"] for target in listed} == {due.web.id, due.api.id}
        assert {target["repository"] for target in listed} == {"acme/web", "acme/api"}
        assert {target["state"] for target in listed} == {"pending"}
        assert len(ids(due.acme.key().get(path, state="pending"))) == 2
        assert ids(due.acme.key().get(path, state="applied")) == []

    def test_due_windows_are_listed_among_the_freezes_by_their_start(self, due: DueWindow) -> None:
        def freeze(minutes: int) -> str:
            return factories.freeze(
                due.session, due.acme.organization, [due.web], started_at=factories.now() - minutes * MINUTE
            ).id

        expected = [
            freeze(5),
            due.id,
            freeze(15),
            id_of_freeze(open_window(due.session, due.schedule, 20 * MINUTE).id),
        ]
        expected.append(freeze(25))
        for limit in (1, 2, 3, 5, 50):
            assert [row["id"] for row in through_pages(due.acme.key(), "/v1/freezes", limit=limit)] == expected

    @pytest.mark.parametrize(
        ("filters", "listed"),
        [
            ({"state": "in_force"}, True),
            ({"state": "ended"}, False),
            ({"source": "schedule"}, True),
            ({"source": "manual"}, False),
            ({"startedAfter": -0.5}, True),
            ({"startedAfter": 0.0}, False),
            ({"startedBefore": 0.0}, True),
            ({"startedBefore": -0.5}, False),
            ({"repo": "acme/web"}, True),
        ],
        ids=str,
    )
    def test_filters_of_freezes_apply_to_due_windows(
        self, due: DueWindow, filters: dict[str, str | float], *, listed: bool
    ) -> None:
        asked = {name: in_hours(value) if isinstance(value, float) else value for name, value in filters.items()}
        assert ids(due.acme.key().get("/v1/freezes", **asked)) == ([due.id] if listed else [])

    def test_due_window_is_listed_by_its_schedule_and_branch(self, due: DueWindow) -> None:
        other = factories.schedule(due.session, due.acme.organization)
        key = due.acme.key()
        assert ids(key.get("/v1/freezes", scheduleId=due.schedule.id, branchId=due.web.id)) == [due.id]
        assert ids(key.get("/v1/freezes", scheduleId=other.id)) == []

    def test_open_ended_due_window_without_branches_is_listed(self, due: DueWindow) -> None:
        due.schedule.scope = {"type": "glob", "patterns": ["other/*"]}
        due.session.flush()
        assert ids(due.acme.key().get("/v1/freezes")) == [due.id]
        assert [state["frozen"] for state in states(due.acme)] == [False] * 3

    def test_pull_request_is_blocked_by_a_due_window(self, due: DueWindow, pull: PullRequest) -> None:
        key = due.acme.key()
        listed = key.get("/v1/repos/acme%2Fweb/pulls").json()["data"]
        looked_up = key.get("/v1/pulls/lookup", ref=f"acme/web#{pull.number}").json()
        for shown in (*listed, looked_up):
            assert (shown["verdict"], shown["freezeIds"]) == ("blocked", [due.id])
            assert shown["nextChangeAt"] == text(due.row.ends_at)
            assert due.id in shown["check"]["summary"]
            assert f"frozen until {due.row.ends_at:%Y-%m-%d %H:%M} UTC" in shown["check"]["title"]
        assert len(listed) == 1

    def test_branches_and_repositories_of_a_due_window_are_frozen(self, due: DueWindow) -> None:
        due.schedule.scope = {"type": "repositories", "repositories": ["acme/web"]}
        due.session.flush()
        key = due.acme.key()
        assert key.get(f"/v1/branches/{due.web.id}").json()["freezeIds"] == [due.id]
        assert ids(key.get("/v1/branches", frozen=True)) == [due.web.id]
        assert due.web.id not in ids(key.get("/v1/branches", frozen=False))
        assert ids(key.get("/v1/repos", frozen=True)) == [due.web.repository_id]
        assert key.get("/v1/repos/acme%2Fweb").json()["frozen"] is True

    def test_scope_preview_and_overview_count_due_windows(self, due: DueWindow) -> None:
        freeze = factories.freeze(due.session, due.acme.organization, [due.web])
        preview = due.acme.key().post("/v1/scope/preview", {"scope": EVERYTHING}).json()
        assert (preview["branchCount"], preview["frozenBranchCount"]) == (2, 2)
        overview = due.acme.person("viewer").get("/v1/overview").json()
        assert overview["freezes"]["inForce"] == 2
        assert {one["id"] for one in overview["freezes"]["newest"]} == {freeze.id, due.id}
        assert overview["branches"] == {"watched": 2, "frozen": 2}

    def test_lift_preview_counts_due_windows(self, due: DueWindow) -> None:
        freeze = factories.freeze(due.session, due.acme.organization, [due.web], reason="One of them")
        of_due = due.acme.key().get(f"/v1/freezes/{due.id}/lift-preview").json()
        assert (of_due["releasedBranchCount"], of_due["frozenBranchCount"]) == (1, 1)
        assert of_due["freezes"] == [{"freezeId": freeze.id, "reason": "One of them", "branchCount": 1}]
        of_other = due.acme.key().get(f"/v1/freezes/{freeze.id}/lift-preview").json()
        assert (of_other["releasedBranchCount"], of_other["frozenBranchCount"]) == (0, 1)
        assert [one["freezeId"] for one in of_other["freezes"]] == [due.id]

    def test_classic_branch_is_frozen_by_a_due_window(self, acme: Tenant, due: DueWindow) -> None:
        client = ClassicClient(acme, acme.key("freeze:read").token or "")
        shown = client.state()
        assert (shown["frozen"], shown["frozen_by"]) == (True, "Weekends")
        assert shown["next_unfreeze_at"] == int(due.row.ends_at.timestamp())

    def test_branch_of_a_due_window_stays_watched(self, due: DueWindow) -> None:
        error = refusal(due.acme.person("admin").delete(f"/v1/branches/{due.web.id}"), 409, "already_frozen")
        assert due.id in error["message"]


def test_due_window_freezes_from_its_first_instant_to_its_last(
    acme: Tenant, schedule: Schedule, clock: MovableClock
) -> None:
    start: datetime = factories.now().replace(microsecond=0) + timedelta(hours=1)
    factories.occurrence(acme.session, schedule, starts_at=start, ends_at=start + timedelta(hours=1))
    moment = timedelta(milliseconds=1)
    instants = [start - moment, start, start + timedelta(hours=1) - moment, start + timedelta(hours=1)]
    for instant, frozen in zip(instants, (False, True, True, False), strict=True):
        clock.at = instant
        assert [state["frozen"] for state in states(acme)] == [frozen] * 3
        assert len(ids(acme.key().get("/v1/freezes", state="in_force"))) == frozen
