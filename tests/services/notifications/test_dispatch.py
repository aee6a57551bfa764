"""Dispatch: each destination gets every sealed entry once, in order, whatever fails and however many dispatch."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


class TestOrder:
    def test_dispatch_gives_sealed_entries_in_order_and_moves_the_position(
        self, session: Session, add: Add, record: Record, channel: KeptEvents, dispatch_all: DispatchAll
    ) -> None:
        add("whk_1")
        record("freeze.started", "freeze.extended", "freeze.lifted")
        assert dispatch_all() == 1
        [(_, events)] = channel.given
        assert [(event.sequence, event.action, event.kind) for event in events] == [
            (1, "freeze.started", "freeze.started"),
            (2, "freeze.extended", None),
            (3, "freeze.lifted", "freeze.ended"),
        ]
        assert (events[0].target["name"], events[0].details) == ("Quarter-end close", {"note": "freeze.started"})
        assert position(session, "whk_1") == (3, False)

    def test_dispatch_gives_several_batches_in_order(
        self,
        session: Session,
        add: Add,
        record: Record,
        channel: KeptEvents,
        dispatch_all: DispatchAll,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(dispatch, "BATCH_SIZE", 2)
        add("whk_1")
        record(*["freeze.started"] * 5)
        assert dispatch_all() == 3
        assert [[event.sequence for event in events] for _, events in channel.given] == [[1, 2], [3, 4], [5]]
        assert position(session, "whk_1") == (5, False)

    def test_dispatch_gives_people_only_what_they_are_notified_of(
        self, session: Session, add: Add, record: Record, channel: KeptEvents, dispatch_all: DispatchAll
    ) -> None:
        add("sub_1", "slack")
        record("freeze.extended", "freeze.grew")
        assert dispatch_all() == 0
        record("freeze.lifted", "freeze.extended")
        assert dispatch_all() == 1
        assert [event.action for _, events in channel.given for event in events] == ["freeze.lifted"]
        assert position(session, "sub_1") == (4, False)

    def test_new_destination_begins_at_the_head_of_the_chain(
        self, add: Add, record: Record, channel: KeptEvents, dispatch_all: DispatchAll, jobs: UnitOfWorkFactory
    ) -> None:
        record("freeze.started")
        seal_entries(jobs)
        add("whk_1")
        assert dispatch_all() == 0
        record("freeze.lifted")
        dispatch_all()
        assert [event.action for _, events in channel.given for event in events] == ["freeze.lifted"]

    def test_removed_destination_gets_nothing(
        self,
        add: Add,
        record: Record,
        channel: KeptEvents,
        dispatch_all: DispatchAll,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
    ) -> None:
        add("whk_1")
        record("freeze.started")
        with unit_of(acme) as uow:
            change_reminders(uow, "whk_1", (60,))
            remove_destination(uow, "whk_1")
        assert dispatch_all() == 0
        assert channel.given == []

    def test_destination_gets_nothing_of_another_organization(
        self, session: Session, add: Add, record: Record, channel: KeptEvents, dispatch_all: DispatchAll
    ) -> None:
        globex = factories.organization(session, "Globex")
        session.commit()
        add("whk_1")
        add("whk_2", organization=globex)
        record("freeze.started")
        assert dispatch_all() == 1
        assert [destination for destination, _ in channel.given] == ["whk_1"]

    def test_sealer_wakes_the_dispatch_only_for_destinations(
        self, add: Add, record: Record, jobs: UnitOfWorkFactory, wakeups: RecordedWakeups
    ) -> None:
        record("freeze.started")
        seal_entries(jobs)
        assert "notifications" not in wakeups.sent
        add("whk_1")
        record("freeze.extended")
        seal_entries(jobs)
        assert "notifications" in wakeups.sent


class TestFailures:
    def test_failing_channel_writes_nothing_and_gets_the_same_events_again(
        self,
        session: Session,
        add: Add,
        record: Record,
        channel: KeptEvents,
        dispatch_all: DispatchAll,
        jobs: UnitOfWorkFactory,
        clock: MovableClock,
    ) -> None:
        add("whk_1")
        record("freeze.started", "freeze.lifted")
        channel.failing = True
        assert dispatch_all() == 1
        assert written(session) == []
        assert position(session, "whk_1") == (0, True)
        channel.failing = False
        clock.offset += timedelta(minutes=5)
        assert dispatch_due(jobs)
        assert written(session) == ["1@whk_1", "2@whk_1"]
        assert position(session, "whk_1") == (2, False)

    def test_failing_channel_holds_up_no_other_destination(
        self,
        session: Session,
        add: Add,
        record: Record,
        channel: KeptEvents,
        dispatch_all: DispatchAll,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        broken = KeptEvents(failing=True)
        monkeypatch.setitem(dispatch.CHANNELS, "slack", broken.take_events)
        add("a_1", "slack")
        add("whk_1")
        record("freeze.started")
        assert dispatch_all() == 2
        assert written(session) == ["1@whk_1"]
        assert position(session, "a_1") == (0, True)

    def test_failure_at_any_statement_loses_no_entry_and_gives_none_twice(
        self, session: Session, add: Add, record: Record, channel: KeptEvents, jobs: UnitOfWorkFactory
    ) -> None:
        """An entry is recorded, and its dispatch ends at one statement after the other, or at a commit."""
        add("whk_1")
        recorded, interrupted = 0, True
        while interrupted:
            record("freeze.started")
            recorded += 1
            with failing_at(jobs.engine, recorded) as reached, suppress(InterruptionError):
                seal_entries(jobs)
                dispatch_due(jobs)
            interrupted = bool(reached)
            session.execute(text("UPDATE notification_destinations SET due_at = now() WHERE due_at IS NOT NULL"))
            session.commit()
        seal_entries(jobs)
        while dispatch_due(jobs):
            pass
        assert recorded > 10
        assert written(session) == sorted(f"{number}@whk_1" for number in range(1, recorded + 1))


class TestConcurrency:
    def test_two_dispatchers_give_each_entry_once(
        self,
        session: Session,
        add: Add,
        record: Record,
        channel: KeptEvents,
        dispatch_all: DispatchAll,
        jobs: UnitOfWorkFactory,
    ) -> None:
        add("whk_1")
        record("freeze.started")
        seal_entries(jobs)
        found: list[bool] = []
        channel.after = lambda: found.append(dispatch_due(jobs))  # beside it, in a transaction of its own
        assert dispatch_due(jobs)
        assert found == [False]
        assert written(session) == ["1@whk_1"]

    def test_entry_that_is_sealed_during_a_dispatch_is_not_lost(
        self, session: Session, add: Add, record: Record, channel: KeptEvents, jobs: UnitOfWorkFactory
    ) -> None:
        add("whk_1")
        record("freeze.started")
        seal_entries(jobs)
        sealing: list[Task[int]] = []

        def seal_meanwhile() -> None:
            channel.after = lambda: None
            record("freeze.lifted")
            sealing.append(Task(lambda: seal_entries(jobs)))

        channel.after = seal_meanwhile
        assert dispatch_due(jobs)
        assert sealing[0].result() == 1
        assert position(session, "whk_1") == (1, True)
        assert dispatch_due(jobs)
        assert written(session) == ["1@whk_1", "2@whk_1"]
