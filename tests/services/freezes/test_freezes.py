"""Freezes as facts of the database: who is covered, from when, until when, and what is recorded of it."""

import itertools
import threading
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE, make_engine
from models.audit import AuditEntry
from models.checks import Check
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.queries import covering_freezes, lock_coverage
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.lookups import get_freeze
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.freezes import end, targets, views
from services.freezes.extension import extend
from services.freezes.start import NewFreeze, require_future, start
from services.maintenance.tasks import end_freezes
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import PATIENCE, Task, eventually
from tests.harness.engines import engine_of
from tests.harness.sessions import committing
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA, UnitOfWorkOpener

EVERYTHING = {"type": "organization"}
REASON = "Release 4.2 is being rolled out"
INTERLEAVINGS = [
    order
    for order in itertools.permutations(["begin a", "begin b", "lift a", "lift b"])
    if order.index("begin a") < order.index("lift a") and order.index("begin b") < order.index("lift b")
]
"""Every order of two freezes and their ends."""


def begin(unit_of: UnitOfWorkOpener, acme: Organization, **wanted: object) -> Freeze:
    scope = wanted.pop("scope", EVERYTHING)
    with unit_of(acme) as uow:
        return start(uow, NewFreeze(scope, REASON, impact_acknowledged=True, **wanted), max_targets=10_000)  # type: ignore[arg-type]


def frozen(unit_of: UnitOfWorkOpener, acme: Organization, *branches: WatchedBranch) -> list[bool]:
    with unit_of(acme) as uow:
        covering = covering_freezes(uow.session, [branch.id for branch in branches], uow.now)
        return [branch.id in covering for branch in branches]


@pytest.fixture
def branches(session: Session, acme: Organization) -> list[WatchedBranch]:
    rows = [factories.watched(session, acme, f"acme/{name}") for name in ("api", "docs", "web")]
    session.commit()
    return rows


class TestStarting:
    def test_freeze_covers_every_watched_branch_of_its_scope_at_once(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], wakeups: RecordedWakeups
    ) -> None:
        begin(unit_of, acme, scope={"type": "glob", "patterns": ["acme/*", "!acme/docs"]})
        assert frozen(unit_of, acme, *branches) == [True, False, True]
        assert wakeups.sent == ["reconcile"]

    def test_freeze_and_its_end_bump_the_generation_that_targets_wait_for(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], session: Session
    ) -> None:
        freeze = begin(unit_of, acme)
        waiting = (
            select(FreezeTarget.generation, Check.wanted_generation, Check.due_at.is_not(None))
            .join(Check, Check.branch_id == FreezeTarget.branch_id)
            .where(FreezeTarget.freeze_id == freeze.id)
        )
        started = session.execute(waiting).all()
        assert [(row[0] == row[1], row[2]) for row in started] == [(True, True)] * len(branches)
        session.rollback()
        with unit_of(acme) as uow:
            end.lift(uow, freeze.id, None)
        ended = session.execute(waiting).all()
        assert [(row[0] == row[1], row[2]) for row in ended] == [(True, True)] * len(branches)
        assert min(row[0] for row in ended) > max(row[0] for row in started)

    def test_freeze_of_a_branch_makes_the_check_of_its_pattern_due(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], session: Session
    ) -> None:
        repository = session.get_one(Repository, branches[0].repository_id)
        frozen, sibling = (
            factories.branch(session, repository, name, pattern_check_name="change-freeze/**")
            for name in ("release/1", "release/2")
        )
        session.commit()
        begin(unit_of, acme, scope={"type": "branch", "branchId": frozen.id})
        session.expire_all()
        assert factories.check(session, sibling).due_at is None
        due = session.scalars(select(Check.name).where(Check.due_at.is_not(None)))
        assert set(due) == {frozen.check_name, "change-freeze/**"}

    def test_end_at_the_present_instant_is_rejected(self, unit_of: UnitOfWorkOpener, acme: Organization) -> None:
        with unit_of(acme) as uow, pytest.raises(ServiceError, match="must be in the future"):
            require_future(uow, uow.now)

    def test_freeze_of_an_organization_requires_a_preview_or_acknowledgement(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch]
    ) -> None:
        with pytest.raises(ServiceError) as raised, unit_of(acme) as uow:
            start(uow, NewFreeze(EVERYTHING, REASON), max_targets=10)
        assert raised.value.code == "impact_preview_required"

    def test_too_many_targets_are_rejected_and_change_nothing(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch]
    ) -> None:
        refused = pytest.raises(ServiceError, match="reaches 3 watched branches; one freeze request takes 2")
        with refused as raised, unit_of(acme) as uow:
            start(uow, NewFreeze(EVERYTHING, REASON, impact_acknowledged=True), max_targets=2)
        assert raised.value.code == "too_many_targets"
        assert not any(frozen(unit_of, acme, *branches))

    def test_every_unknown_reference_is_reported(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch]
    ) -> None:
        scope = {"type": "repositories", "repositories": ["acme/web", "acme/nope", new_id("rep")]}
        with pytest.raises(ServiceError) as raised:
            begin(unit_of, acme, scope=scope)
        assert raised.value.code == "invalid_parameter"
        assert [row.path for row in raised.value.details] == ["/scope/repositories/1", "/scope/repositories/2"]

    def test_freeze_does_not_start_when_the_audit_cannot_be_written(
        self, own_database: str, clock: MovableClock, wakeups: RecordedWakeups
    ) -> None:
        owner = create_engine(own_database)
        with Session(owner) as session:
            acme = factories.organization(session)
            factories.watched(session, acme)
            session.execute(text("REVOKE INSERT ON audit_entries FROM change_freeze_app"))
            session.commit()
            organization_id = acme.id
        engine = make_engine(own_database, 2)
        with (
            pytest.raises(ProgrammingError),
            UnitOfWorkFactory(engine, clock, wakeups).open(Caller(organization_id, ADA, "api")) as uow,
        ):
            start(uow, NewFreeze(EVERYTHING, REASON, impact_acknowledged=True), max_targets=10)
        with Session(owner) as session:
            assert session.scalar(select(func.count()).select_from(Freeze)) == 0
        assert wakeups.sent == []
        engine.dispose()
        owner.dispose()


class TestEnding:
    @pytest.mark.parametrize("order", INTERLEAVINGS, ids=", ".join)
    def test_end_of_one_freeze_never_thaws_what_another_covers(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], order: tuple[str, ...]
    ) -> None:
        running: dict[str, Freeze] = {}
        for step in order:
            verb, name = step.split()
            if verb == "begin":
                running[name] = begin(unit_of, acme)
            else:
                with unit_of(acme) as uow:
                    end.lift(uow, running.pop(name).id, None)
            assert frozen(unit_of, acme, *branches) == [bool(running)] * 3

    def test_end_by_time_is_visible_before_it_is_recorded(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], clock: MovableClock
    ) -> None:
        with unit_of(acme) as uow:
            ends_at = uow.now + timedelta(hours=1)
        freeze = begin(unit_of, acme, ends_at=ends_at)
        clock.offset = timedelta(hours=1)
        assert not any(frozen(unit_of, acme, *branches))
        with unit_of(acme) as uow:
            shown = views.show(uow, freeze.id)
        assert (shown["state"], shown["ended_at"], shown["end_reason"]) == ("ended", ends_at, "expired")

    def test_end_by_time_is_recorded_once_by_several_sweepers(
        self,
        uow_factory: UnitOfWorkFactory,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
        branches: list[WatchedBranch],
        clock: MovableClock,
        session: Session,
        database: str,
    ) -> None:
        with unit_of(acme) as uow:
            ends_at = uow.now + timedelta(hours=1)
        freeze = begin(unit_of, acme, ends_at=ends_at)
        clock.offset = timedelta(hours=2)
        sweeping = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, uow_factory.wakeups)
        assert end_freezes(sweeping) + end_freezes(sweeping) == 1
        row = session.get_one(Freeze, freeze.id)
        assert (row.ended_at, row.end_reason) == (ends_at, "expired")
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.at)).all()
        assert actions == ["freeze.started", "freeze.expired"]


class TestLiftingByScope:
    @pytest.mark.parametrize(
        ("own", "given", "inside"),
        [
            ({"type": "organization"}, {"type": "organization"}, True),
            ({"type": "organization"}, {"type": "glob", "patterns": ["**"]}, False),
            ({"type": "glob", "patterns": ["acme/*"]}, {"type": "organization"}, True),
            ({"type": "glob", "patterns": ["acme/*"]}, {"type": "glob", "patterns": ["acme/*"]}, True),
            ({"type": "glob", "patterns": ["acme/*"]}, {"type": "glob", "patterns": ["**"]}, True),
            ({"type": "glob", "patterns": ["acme/*"]}, {"type": "glob", "patterns": ["acme/w*"]}, False),
            ({"type": "repositories", "repositories": ["acme/web"]}, {"type": "glob", "patterns": ["acme/w*"]}, True),
            ({"type": "repositories", "repositories": ["acme/web"]}, {"type": "glob", "patterns": ["acme/d*"]}, False),
        ],
        ids=lambda value: value if isinstance(value, bool) else " ".join(map(str, value.values())),
    )
    def test_freeze_is_lifted_only_by_a_scope_that_contains_its_own(
        self,
        unit_of: UnitOfWorkOpener,
        acme: Organization,
        branches: list[WatchedBranch],
        own: object,
        given: dict[str, object],
        inside: bool,
    ) -> None:
        begin(unit_of, acme, scope=own)
        try:
            with unit_of(acme) as uow:
                lifted = bool(end.lift_matching(uow, given, None)["data"])
        except ServiceError:
            lifted = False
        assert lifted is inside


class TestExtending:
    def test_bounded_end_moves_only_later(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch]
    ) -> None:
        with unit_of(acme) as uow:
            ends_at = uow.now + timedelta(hours=2)
        freeze = begin(unit_of, acme, ends_at=ends_at)
        with pytest.raises(ServiceError) as raised, unit_of(acme) as uow:
            extend(uow, freeze.id, ends_at - timedelta(hours=1))
        assert [row.path for row in raised.value.details] == ["/endsAt"]
        with unit_of(acme) as uow:
            assert extend(uow, freeze.id, ends_at + timedelta(hours=1)).ends_at == ends_at + timedelta(hours=1)
        with unit_of(acme) as uow:
            assert extend(uow, freeze.id, None).ends_at is None


class TestGrowing:
    def test_open_ended_freeze_grows_by_a_branch_that_begins_to_match(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], session: Session
    ) -> None:
        freeze = begin(unit_of, acme)
        new = factories.watched(session, acme, "acme/new")
        session.commit()
        with unit_of(acme) as uow:
            lock_coverage(uow.session, uow.organization, exclusive=True)
            targets.extend_open_freezes(uow, [new.id])
        assert frozen(unit_of, acme, new) == [True]
        with unit_of(acme) as uow:
            assert views.show(uow, freeze.id)["targets"]["total"] == 4

    def test_freeze_of_a_fixed_scope_never_grows(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], session: Session
    ) -> None:
        begin(unit_of, acme, scope={"type": "repositories", "repositories": ["acme/web"]})
        web = session.get_one(WatchedBranch, branches[2].id).repository_id
        row = WatchedBranch(
            id=new_id("wbr"),
            organization_id=acme.id,
            repository_id=web,
            name="release/9",
            check_name="change-freeze/release/*",
            created_at=factories.now(),
        )
        session.add(row)
        session.commit()
        with unit_of(acme) as uow:
            targets.extend_open_freezes(uow, [row.id])
        assert frozen(unit_of, acme, row) == [False]

    def test_branch_watched_while_a_freeze_starts_is_covered(
        self, unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], session: Session
    ) -> None:
        """The freeze waits for the watching to commit, so one of the two sees the other."""
        new = factories.watched(session, acme, "acme/new")
        started = threading.Event()

        def freeze_everything() -> None:
            started.set()
            begin(unit_of, acme)

        with unit_of(acme) as uow:
            lock_coverage(uow.session, uow.organization, exclusive=True)
            racing = Task(freeze_everything)
            assert started.wait(PATIENCE)
            session.commit()
            targets.extend_open_freezes(uow, [new.id])
        racing.result()
        assert frozen(unit_of, acme, new) == [True]


def test_waiting_lift_includes_a_freeze_that_started_meanwhile(
    unit_of: UnitOfWorkOpener, acme: Organization, branches: list[WatchedBranch], database: str
) -> None:
    first = begin(unit_of, acme)
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )

    def lift_everything() -> list[str]:
        with unit_of(acme) as uow:
            return [freeze["id"] for freeze in end.lift_matching(uow, EVERYTHING, None)["data"]]

    with unit_of(acme) as uow:
        get_freeze(uow, first.id, lock=True)
        racing = Task(lift_everything)
        with committing(database) as watching:
            eventually(lambda: watching.scalar(waiting), during=racing)
        second = begin(unit_of, acme)
        end.lift(uow, first.id, None)
    assert racing.result() == [second.id]
    assert not any(frozen(unit_of, acme, *branches))
