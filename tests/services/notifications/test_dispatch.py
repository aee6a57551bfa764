"""Dispatch: each destination gets every sealed entry once, in order, whatever fails and however many dispatch."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import Connection, Engine, event, select, text
from sqlalchemy.orm import Session

from models.identity import Mail
from models.organizations import Organization
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWorkFactory
from services.events.destinations import change_reminders, remove_destination
from services.notifications import dispatch
from services.notifications.dispatch import dispatch_due
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import Task
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import UnitOfWorkOpener
from tests.services.notifications.conftest import KeptEvents, Record, position

Add = Callable[..., str]
DispatchAll = Callable[[], int]


class InterruptionError(BaseException):
    """The process ends: nothing catches this."""


@contextmanager
def failing_at(engine: Engine, number: int) -> Iterator[list[str]]:
    """End the work at its statement or commit of that number, which the list then has."""
    reached: list[str] = []
    count = itertools.count(1)

    def step(_connection: Connection, _cursor: object = None, statement: str = "COMMIT", *_rest: object) -> None:
        if next(count) == number:
            reached.append(statement)
            raise InterruptionError

    event.listen(engine, "before_cursor_execute", step)
    event.listen(engine, "commit", step)
    try:
        yield reached
    finally:
        event.remove(engine, "before_cursor_execute", step)
        event.remove(engine, "commit", step)


def written(session: Session) -> list[str]:
    """Return what the channel has committed, as `number@destination`, sorted."""
    session.rollback()
    found = sorted(session.scalars(select(Mail.recipient)))
    session.rollback()
    return found


@dataclass(frozen=True, slots=True)
class Scene:
    """An organisation whose entries are dispatched to channels that keep what they are given."""

    session: Session
    jobs: UnitOfWorkFactory
    channel: KeptEvents
    add: Add
    record: Record
    dispatch_all: DispatchAll


@pytest.fixture
def scene(
    session: Session,
    jobs: UnitOfWorkFactory,
    channel: KeptEvents,
    add: Add,
    record: Record,
    dispatch_all: DispatchAll,
) -> Scene:
    return Scene(session, jobs, channel, add, record, dispatch_all)


class TestOrder:
    def test_dispatch_gives_sealed_entries_in_order_and_moves_the_position(self, scene: Scene) -> None:
        scene.add("whk_1")
        scene.record("freeze.started", "freeze.extended", "freeze.lifted")
        assert scene.dispatch_all() == 1
        [(_, events)] = scene.channel.given
        assert [(event.sequence, event.action, event.kind) for event in events] == [
            (1, "freeze.started", "freeze.started"),
            (2, "freeze.extended", None),
            (3, "freeze.lifted", "freeze.ended"),
        ]
        assert (events[0].target["name"], events[0].details) == ("Quarter-end close", {"note": "freeze.started"})
        assert position(scene.session, "whk_1") == (3, False)

    def test_dispatch_gives_several_batches_in_order(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatch, "BATCH_SIZE", 2)
        scene.add("whk_1")
        scene.record(*["freeze.started"] * 5)
        assert scene.dispatch_all() == 3
        assert [[event.sequence for event in events] for _, events in scene.channel.given] == [[1, 2], [3, 4], [5]]
        assert position(scene.session, "whk_1") == (5, False)

    def test_dispatch_gives_people_only_what_they_are_notified_of(self, scene: Scene) -> None:
        scene.add("sub_1", "slack")
        scene.record("freeze.extended", "freeze.grew")
        assert scene.dispatch_all() == 0
        scene.record("freeze.lifted", "freeze.extended")
        assert scene.dispatch_all() == 1
        assert [event.action for _, events in scene.channel.given for event in events] == ["freeze.lifted"]
        assert position(scene.session, "sub_1") == (4, False)

    def test_new_destination_begins_at_the_head_of_the_chain(self, scene: Scene) -> None:
        scene.record("freeze.started")
        seal_entries(scene.jobs)
        scene.add("whk_1")
        assert scene.dispatch_all() == 0
        scene.record("freeze.lifted")
        scene.dispatch_all()
        assert [event.action for _, events in scene.channel.given for event in events] == ["freeze.lifted"]

    def test_removed_destination_gets_nothing(
        self, scene: Scene, unit_of: UnitOfWorkOpener, acme: Organization
    ) -> None:
        scene.add("whk_1")
        scene.record("freeze.started")
        with unit_of(acme) as uow:
            change_reminders(uow, "whk_1", (60,))
            remove_destination(uow, "whk_1")
        assert scene.dispatch_all() == 0
        assert scene.channel.given == []

    def test_destination_gets_nothing_of_another_organization(self, scene: Scene) -> None:
        globex = factories.organization(scene.session, "Globex")
        scene.session.commit()
        scene.add("whk_1")
        scene.add("whk_2", organization=globex)
        scene.record("freeze.started")
        assert scene.dispatch_all() == 1
        assert [destination for destination, _ in scene.channel.given] == ["whk_1"]

    def test_sealer_wakes_the_dispatch_only_for_destinations(self, scene: Scene, wakeups: RecordedWakeups) -> None:
        scene.record("freeze.started")
        seal_entries(scene.jobs)
        assert "notifications" not in wakeups.sent
        scene.add("whk_1")
        scene.record("freeze.extended")
        seal_entries(scene.jobs)
        assert "notifications" in wakeups.sent


class TestFailures:
    def test_failing_channel_writes_nothing_and_gets_the_same_events_again(
        self, scene: Scene, clock: MovableClock
    ) -> None:
        scene.add("whk_1")
        scene.record("freeze.started", "freeze.lifted")
        scene.channel.failing = True
        assert scene.dispatch_all() == 1
        assert written(scene.session) == []
        assert position(scene.session, "whk_1") == (0, True)
        scene.channel.failing = False
        clock.offset += timedelta(minutes=5)
        assert dispatch_due(scene.jobs)
        assert written(scene.session) == ["1@whk_1", "2@whk_1"]
        assert position(scene.session, "whk_1") == (2, False)

    def test_failing_channel_holds_up_no_other_destination(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = KeptEvents(failing=True)
        monkeypatch.setitem(dispatch.CHANNELS, "slack", broken.take_events)
        scene.add("a_1", "slack")
        scene.add("whk_1")
        scene.record("freeze.started")
        assert scene.dispatch_all() == 2
        assert written(scene.session) == ["1@whk_1"]
        assert position(scene.session, "a_1") == (0, True)

    def test_failure_at_any_statement_loses_no_entry_and_gives_none_twice(self, scene: Scene) -> None:
        """An entry is recorded, and its dispatch ends at one statement after the other, or at a commit."""
        scene.add("whk_1")
        recorded, interrupted = 0, True
        while interrupted:
            scene.record("freeze.started")
            recorded += 1
            with failing_at(scene.jobs.engine, recorded) as reached, suppress(InterruptionError):
                seal_entries(scene.jobs)
                dispatch_due(scene.jobs)
            interrupted = bool(reached)
            scene.session.execute(text("UPDATE notification_destinations SET due_at = now() WHERE due_at IS NOT NULL"))
            scene.session.commit()
        seal_entries(scene.jobs)
        while dispatch_due(scene.jobs):
            pass
        assert recorded > 10
        assert written(scene.session) == sorted(f"{number}@whk_1" for number in range(1, recorded + 1))


class TestConcurrency:
    def test_two_dispatchers_give_each_entry_once(self, scene: Scene) -> None:
        scene.add("whk_1")
        scene.record("freeze.started")
        seal_entries(scene.jobs)
        found: list[bool] = []
        scene.channel.after = lambda: found.append(dispatch_due(scene.jobs))  # beside it, in a transaction of its own
        assert dispatch_due(scene.jobs)
        assert found == [False]
        assert written(scene.session) == ["1@whk_1"]

    def test_entry_that_is_sealed_during_a_dispatch_is_not_lost(self, scene: Scene) -> None:
        scene.add("whk_1")
        scene.record("freeze.started")
        seal_entries(scene.jobs)
        sealing: list[Task[int]] = []

        def seal_meanwhile() -> None:
            scene.channel.after = lambda: None
            scene.record("freeze.lifted")
            sealing.append(Task(lambda: seal_entries(scene.jobs)))

        scene.channel.after = seal_meanwhile
        assert dispatch_due(scene.jobs)
        assert sealing[0].result() == 1
        assert position(scene.session, "whk_1") == (1, True)
        assert dispatch_due(scene.jobs)
        assert written(scene.session) == ["1@whk_1", "2@whk_1"]
