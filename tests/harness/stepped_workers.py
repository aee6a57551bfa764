"""Workers that run real passes step by step: a test decides which of them goes on, how far, and what befalls it.

Each worker is a thread, and one thread runs at a time. A worker stops before each transaction, before it sends checks,
while its call is under way and when the answer has come. There it goes on, dies, or loses a connection. A call whose
worker is gone, or has lost the connection to GitHub, arrives when the test wants.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto
from time import monotonic
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from integrations.github.transport import Request, Transport, unavailable
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.exception_rules.facts import FactsReader
from services.reconcile import reconciler
from services.reconcile.check_writes import write_checks
from services.reconcile.evaluation import CheckUpdate, evaluate
from services.reconcile.leases import Turn, acquire
from tests.harness.clock import MovableClock
from tests.harness.concurrency import PATIENCE
from tests.harness.github_harness import Harness

MAX_FLIGHT = 10.0
"""Seconds after which a call has arrived, or never will."""


class Place(Enum):
    """Where a worker stops."""

    TRANSACTION = auto()
    """Before a transaction."""
    SEND = auto()
    """After the evaluation, before anything is sent."""
    FLIGHT = auto()
    """The call is sent and has not arrived."""
    ANSWER = auto()
    """The call has arrived, and the worker does not know its result yet."""
    END = auto()
    """After the pass."""


class Fate(Enum):
    """What befalls a worker where it has stopped."""

    NOTHING = auto()
    DIES = auto()
    LOSES_DATABASE = auto()
    """Its connection to the database breaks before the transaction."""
    LOSES_COMMIT = auto()
    """The transaction is committed, and the connection breaks before the worker knows."""
    LOSES_ANSWER = auto()
    """Its connection to GitHub breaks while a call is under way."""


class WorkerDiedError(BaseException):
    """Ends the thread of a worker that dies."""


@dataclass(frozen=True, slots=True)
class LostCall:
    """A call to GitHub that arrives although nobody waits for its answer."""

    arrive: Callable[[], object]
    sent_at: float


class SteppedWorker:
    """A worker, which runs one pass after the other."""

    def __init__(self, workers: "SteppedWorkers") -> None:
        self._workers = workers
        self._thread: threading.Thread | None = None
        self._goes, self._stops = threading.Semaphore(0), threading.Semaphore(0)
        self._fate = Fate.NOTHING
        self._error: BaseException | None = None
        self.place = Place.END
        self.token: str | None = None
        """The token of the leases of its last pass."""
        self.reached_at = 0.0

    def go(self, fate: Fate = Fate.NOTHING) -> Place:
        """Go on to the next stop, with a new pass if it has none; return where that is."""
        self._fate = fate
        if self.place is Place.END:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._goes.release()
        assert self._stops.acquire(timeout=PATIENCE), "a worker waits for something"
        if self._error is not None:
            raise self._error
        self._workers.judge()
        return self.place

    def go_to(self, place: Place) -> None:
        """Go on until it is there, or its pass has ended."""
        while self.go() not in {place, Place.END}:
            pass

    def stop_at(self, place: Place) -> Fate:
        """Wait there, in the thread of the worker; return what befalls it."""
        self.place, self.reached_at = place, self._workers.monotonic()
        self._stops.release()
        self._goes.acquire()
        if self._fate is Fate.DIES:
            raise WorkerDiedError
        return self._fate

    def _run(self) -> None:
        self._workers.current.worker = self
        try:
            self._workers.reconciler.run_pass()
        except (WorkerDiedError, DBAPIError):
            pass
        except BaseException as error:  # noqa: BLE001 - the test gets it
            self._error = error
        self.place = Place.END
        self._stops.release()


class SteppedWorkers:
    """Workers of one harness."""

    def __init__(self, harness: Harness, count: int, judge: Callable[[Sequence[CheckUpdate]], object]) -> None:
        self.current = threading.local()
        self._judge = judge
        """Called after each step with what was evaluated in it, in the thread of the test."""
        self.evaluated: list[CheckUpdate] = []
        self.clock = harness.jobs.clock
        factory = _SteppedFactory(harness.jobs.engine, self.clock, harness.jobs.wakeups, harness.jobs.ports)
        factory.workers = self
        self.reconciler = replace(harness.reconciler, uow_factory=factory, facts=FactsReader())
        self.all = [SteppedWorker(self) for _ in range(count)]
        self.lost_calls: list[LostCall] = []
        """Those that have not arrived yet."""

    def monotonic(self) -> float:
        """Return the time by which workers measure, which goes with the clock of the test."""
        assert isinstance(self.clock, MovableClock)
        return monotonic() + self.clock.offset.total_seconds()

    def judge(self) -> None:
        """Have judged what a step has evaluated."""
        evaluated, self.evaluated = self.evaluated, []
        if evaluated:
            self._judge(evaluated)

    def stop(self, place: Place) -> Fate:
        """Stop the worker whose thread this is, if it is one's."""
        worker = self.running()
        return Fate.NOTHING if worker is None else worker.stop_at(place)

    def running(self) -> SteppedWorker | None:
        """Return the worker whose thread this is, None in the thread of the test."""
        found: SteppedWorker | None = getattr(self.current, "worker", None)
        return found

    def let_calls_arrive(self, within: float = 0.0) -> None:
        """Have the calls arrive that must have arrived in so many seconds."""
        latest = self.monotonic() + within - MAX_FLIGHT
        for worker in self.all:
            if worker.place is Place.FLIGHT and worker.reached_at < latest:
                worker.go()
        for call in [call for call in self.lost_calls if call.sent_at < latest]:
            self.let_arrive(call)

    def let_arrive(self, call: LostCall) -> None:
        """Have a lost call arrive."""
        self.lost_calls.remove(call)
        call.arrive()

    def end(self) -> None:
        """Let every worker end its pass, and every call arrive."""
        for worker in self.all:
            if worker.place is not Place.END:
                worker.go_to(Place.END)
        self.let_calls_arrive(within=2 * MAX_FLIGHT)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have the workers stop where they do."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reconciler, "acquire", self._telling_the_lease(acquire))
            patch.setattr(reconciler, "evaluate", self._telling_the_updates(evaluate))
            patch.setattr(reconciler, "write_checks", self._stopping_first(write_checks))
            patch.setattr(reconciler, "monotonic", self.monotonic)
            patch.setattr(Transport, "send", self._stopping_in_flight(Transport.send))
            yield

    def _telling_the_lease(self, usual: Callable[..., Any]) -> Callable[..., Any]:
        def acquire_and_tell(uow: UnitOfWork, turn: Turn) -> Any:
            batch = usual(uow, turn)
            worker = self.running()
            if worker is not None and batch is not None and batch.lease is not None:
                worker.token = batch.lease.token
            return batch

        return acquire_and_tell

    def _telling_the_updates(self, usual: Callable[..., list[CheckUpdate]]) -> Callable[..., list[CheckUpdate]]:
        def evaluate_and_tell(*arguments: Any) -> list[CheckUpdate]:
            updates = usual(*arguments)
            if self.running() is not None:
                self.evaluated += updates
            return updates

        return evaluate_and_tell

    def _stopping_first(self, usual: Callable[..., Any]) -> Callable[..., Any]:
        def stop_and_write(*arguments: Any) -> Any:
            self.stop(Place.SEND)
            return usual(*arguments)

        return stop_and_write

    def _stopping_in_flight(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def stop_and_send(transport: Transport, request: Request, bearer: Any) -> Any:
            if request.safe or not request.url.endswith("/graphql"):
                return send(transport, request, bearer)
            call = LostCall(lambda: send(transport, request, bearer), self.monotonic())
            try:
                fate = self.stop(Place.FLIGHT)
            except WorkerDiedError:
                self.lost_calls.append(call)
                raise
            if fate is Fate.LOSES_ANSWER:
                self.lost_calls.append(call)
                raise unavailable("closed the connection", maybe_applied=True)
            response = call.arrive()
            if self.stop(Place.ANSWER) is Fate.LOSES_ANSWER:
                raise unavailable("closed the connection", maybe_applied=True)
            return response

        return stop_and_send


class _SteppedFactory(UnitOfWorkFactory):
    workers: SteppedWorkers

    @contextmanager
    def open(self, caller: Caller, **options: Any) -> Iterator[UnitOfWork]:
        """Stop before the transaction."""
        fate = self.workers.stop(Place.TRANSACTION)
        if fate is Fate.LOSES_DATABASE:
            raise _broken()
        with super().open(caller, **options) as uow:
            yield uow
        if fate is Fate.LOSES_COMMIT:
            raise _broken()


def _broken() -> OperationalError:
    return OperationalError("the connection broke", None, Exception("the connection broke"))
