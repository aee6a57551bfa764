"""Freezes as facts of the database: who is covered, from when, until when, and what is recorded of it."""

import itertools
import threading

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from models.checks import Check
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.queries import covering_freezes, lock_coverage
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from services.core.lookups import get_freeze
from services.freezes import end, targets
from services.freezes.start import NewFreeze, require_future, start
from tests import factories
from tests.harness.concurrency import PATIENCE, Task, eventually
from tests.harness.sessions import committing
from tests.services.conftest import UnitOfWorkOpener

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


class TestGrowing:
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
