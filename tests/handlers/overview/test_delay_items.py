"""Attention items about what is late: writing checks, sending notifications, and processes that do not run."""

from datetime import timedelta

import pytest
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from models.audit import AuditSeal
from models.leases import LeaseHolder
from models.notifications import NotificationDestination
from models.repositories import WatchedBranch
from models.requests import PeriodicTask
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Caller, Tenant
from tests.handlers.overview.requests import items, only, shown


class TestLateNotifications:
    def test_entry_that_waits_for_a_destination_makes_notifications_late(self, acme: Tenant, viewer: Caller) -> None:
        place = {"id": "whk_1", "organization_id": acme.id, "channel": "webhook"}
        destination = NotificationDestination(**place, sequence=0, due_at=factories.now())
        seal = AuditSeal(
            organization_id=acme.id,
            sequence=1,
            entry_id=new_id("aud"),
            hash=b"x",
            previous_hash=b"x",
            sealed_at=factories.now() - timedelta(seconds=110),
            action="freeze.started",
            source="system",
        )
        acme.session.add_all([destination, seal])
        acme.session.flush()
        assert items(viewer) == []
        seal.sealed_at = factories.now() - timedelta(seconds=130)
        acme.session.flush()
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("notifications_late", "warning")
        assert "those of 1 destination wait since" in item["message"]
        destination.sequence, destination.due_at = 1, None
        acme.session.flush()
        assert items(viewer) == []


class TestLateEnforcement:
    def test_branch_due_for_a_minute_makes_enforcement_late(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller
    ) -> None:
        check = factories.check(acme.session, web)
        check.wanted_generation, check.written_generation = 5, 4
        due(acme.session, web, seconds=55)
        assert items(viewer) == []
        due(acme.session, web, seconds=65)
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("enforcement_late", "critical")
        assert item["subject"] == {"type": "installation", "id": str(acme.installation.id), "name": "acme"}
        assert "Checks of 1 branch in acme wait" in item["message"]
        assert "acme/web:main" in item["message"]
        assert shown(viewer)["attention"]["critical"] == 1
        factories.check(acme.session, web).due_at = None
        acme.session.flush()
        assert items(viewer) == []

    def test_branch_that_a_living_worker_has_leased_is_not_late(
        self, session: Session, web: WatchedBranch, viewer: Caller
    ) -> None:
        check = factories.check(session, web)
        check.wanted_generation, check.lease_token = 5, "abc"
        check.lease_until = factories.now() + timedelta(seconds=30)
        due(session, web, seconds=65)
        assert items(viewer) == []
        dead = LeaseHolder(kind="worker", ended_at=factories.now(), stopped_at=factories.now())
        session.add(dead)
        session.flush()
        factories.check(session, web).lease_holder = dead.id
        session.flush()
        assert only(viewer)["type"] == "enforcement_late"

    @pytest.mark.parametrize(("ended", "late"), [(-600, "code_host_limit"), (30, None), (65, "enforcement_late")])
    def test_branch_is_late_a_minute_after_the_end_of_a_pause(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller, ended: float, late: str | None
    ) -> None:
        factories.check(acme.session, web).wanted_generation = 5
        acme.installation.paused_until = factories.now() - timedelta(seconds=ended)
        due(acme.session, web, seconds=700)
        assert [item["type"] for item in items(viewer)] == ([late] if late else [])

    def test_branch_of_a_suspended_installation_is_not_late(
        self, acme: Tenant, web: WatchedBranch, viewer: Caller
    ) -> None:
        acme.installation.state = "suspended"
        due(acme.session, web, seconds=65)
        assert only(viewer)["type"] == "installation_gone"

    def test_branch_that_is_only_read_again_may_wait_longer(
        self, session: Session, web: WatchedBranch, viewer: Caller
    ) -> None:
        due(session, web, seconds=14 * 60)
        assert items(viewer) == []
        due(session, web, seconds=16 * 60)
        assert only(viewer)["type"] == "enforcement_late"


class TestMissingProcesses:
    @pytest.mark.parametrize(
        ("kind", "severity", "words"),
        [("worker", "warning", "written late"), ("sweeper", "critical", "have not begun")],
    )
    def test_process_that_died_is_seen_within_a_minute(
        self, session: Session, viewer: Caller, kind: str, severity: str, words: str
    ) -> None:
        process(session, kind, silent=25)
        assert items(viewer) == []
        process(session, kind, silent=35)
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("process_down", severity)
        assert item["subject"] == {"type": "process", "id": kind, "name": kind}
        assert words in item["message"]
        assert shown(viewer)["attention"][severity] == 1
        process(session, kind, silent=1)
        assert items(viewer) == []

    def test_lack_of_workers_is_one_critical_item_when_nothing_sweeps(self, session: Session, viewer: Caller) -> None:
        process(session, "worker", silent=35)
        process(session, "sweeper", silent=35)
        item = only(viewer)
        assert (item["subject"]["id"], item["severity"]) == ("worker", "critical")

    def test_process_that_never_ran_is_missing(self, session: Session, viewer: Caller) -> None:
        session.execute(delete(LeaseHolder))
        assert only(viewer)["subject"]["id"] == "worker"

    def test_workers_that_have_never_swept_are_reported(self, session: Session, viewer: Caller) -> None:
        session.execute(delete(PeriodicTask))
        assert only(viewer)["subject"]["id"] == "sweeper"

    def test_other_tasks_of_the_sweep_may_take_longer(self, session: Session, viewer: Caller) -> None:
        late = factories.now() - timedelta(seconds=35)
        session.add(PeriodicTask(name="retention", done_at=late, due_at=late))
        session.flush()
        assert items(viewer) == []

    def test_dead_process_beside_others_is_seen_until_it_is_replaced(self, session: Session, viewer: Caller) -> None:
        process(session, "worker", silent=1)
        session.add(lease_holder("worker", silent=40))
        session.flush()
        item = only(viewer)
        assert (item["type"], item["severity"]) == ("process_down", "warning")
        assert "was not replaced" in item["message"]
        session.add(lease_holder("worker", silent=0, started=10))
        session.flush()
        assert items(viewer) == []

    def test_process_that_ended_in_order_is_not_missed(self, session: Session, viewer: Caller) -> None:
        stopped = lease_holder("worker", silent=40)
        stopped.stopped_at = stopped.beat_at
        session.add(stopped)
        session.flush()
        assert items(viewer) == []

    def test_process_that_crashes_and_is_restarted_is_not_missed(self, session: Session, viewer: Caller) -> None:
        for ago in (600, 500, 400, 0):
            session.add(lease_holder("worker", silent=ago, started=ago + 90))
        session.flush()
        assert items(viewer) == []


def due(session: Session, branch: WatchedBranch, *, seconds: float) -> None:
    """Make a branch due since so many seconds."""
    factories.check(session, branch).due_at = factories.now() - timedelta(seconds=seconds)
    session.flush()


def process(session: Session, kind: str, *, silent: float) -> None:
    """Let a process of this kind have had its last heartbeat, or swept, so many seconds ago."""
    now = factories.now()
    started, beat = now - timedelta(hours=1), now - timedelta(seconds=silent)
    if kind == "sweeper":
        session.execute(update(PeriodicTask).values(done_at=beat))
    session.execute(update(LeaseHolder).where(LeaseHolder.kind == kind).values(started_at=started, beat_at=beat))
    session.flush()


def lease_holder(kind: str, *, silent: float, started: float = 3600) -> LeaseHolder:
    """Return a process with its start and its last heartbeat so many seconds ago."""
    now = factories.now()
    return LeaseHolder(kind=kind, started_at=now - timedelta(seconds=started), beat_at=now - timedelta(seconds=silent))
