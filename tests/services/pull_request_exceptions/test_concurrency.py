"""What becomes of exceptions that several people act on at the same moment: every order of every two of them."""

import random
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from models.exceptions import PullRequestException
from rules.freezes.pull_request_exceptions import OPEN_STATES
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.views import ExceptionFilters, list_exceptions
from services.repositories.branches import update as update_branch
from tests.services.pull_request_exceptions.conftest import (
    ExceptionFixture,
    begin_freeze,
    decision,
    grant,
    lifting_of,
    request,
    revocation,
)


def shown(exceptions: ExceptionFixture) -> list[dict[str, Any]]:
    """Return what the list shows, the oldest first."""
    listed = exceptions.run(lambda uow: list_exceptions(uow, "tests", ExceptionFilters(), None, 100))
    return list(reversed(listed.data))


def states(exceptions: ExceptionFixture) -> dict[str, str]:
    """Return the state of each freeze's exception."""
    return {row["freeze_id"]: row["state"] for row in shown(exceptions)}


class TestTwoWhoDecide:
    @pytest.mark.parametrize("granted", [True, False])
    def test_second_denial_is_rejected_when_two_people_decide(
        self, exceptions: ExceptionFixture, granted: bool
    ) -> None:
        asked = exceptions.run(request)
        outcome = exceptions.during(decision(asked, granted=granted), decision(asked, granted=not granted))
        assert outcome == (["granted" if granted else "denied"], "invalid_state")
        assert states(exceptions) == {exceptions.freeze.id: outcome[0][0]}

    def test_grant_and_denial_leave_one_decision(self, exceptions: ExceptionFixture) -> None:
        asked = exceptions.run(request)
        assert exceptions.during(grant, decision(asked, granted=False)) == ([exceptions.freeze.id], "invalid_state")

    def test_denial_then_grant_leaves_both_in_that_order(self, exceptions: ExceptionFixture) -> None:
        asked = exceptions.run(request)
        assert exceptions.during(decision(asked, granted=False), grant) == (["denied"], [exceptions.freeze.id])
        assert [row["state"] for row in shown(exceptions)] == ["denied", "granted"]

    def test_grant_and_revocation_run_one_after_the_other(self, exceptions: ExceptionFixture) -> None:
        asked = exceptions.run(request)
        assert exceptions.during(decision(asked, granted=True), revocation(asked)) == (["granted"], 1)
        again = exceptions.run(request)
        assert exceptions.during(revocation(again), decision(again, granted=True)) == (1, "invalid_state")
        assert [row["state"] for row in shown(exceptions)] == ["revoked", "revoked"]


class TestRequestsOfTwoGroups:
    """One for each freeze, as it began; a grant makes one group of them."""

    @pytest.fixture
    def second(self, exceptions: ExceptionFixture) -> str:
        exceptions.run(request)
        exceptions.run(begin_freeze)
        asked: str = exceptions.run(request)
        assert len({row["request_group_id"] for row in shown(exceptions)}) == 2
        return asked

    @pytest.mark.parametrize("granted", [True, False])
    def test_requests_of_two_groups_are_decided_once_by_a_concurrent_grant(
        self, exceptions: ExceptionFixture, second: str, granted: bool
    ) -> None:
        covered, outcome = exceptions.during(grant, decision(second, granted=granted))
        assert (len(covered), outcome) == (2, "invalid_state")
        assert set(states(exceptions).values()) == {"granted"}

    def test_requests_of_two_groups_are_revoked_together_after_a_grant(
        self, exceptions: ExceptionFixture, second: str
    ) -> None:
        assert exceptions.during(grant, revocation(second))[1] == 2
        assert set(states(exceptions).values()) == {"revoked"}


class TestALift:
    def test_grant_is_rejected_when_the_freeze_was_lifted_first(self, exceptions: ExceptionFixture) -> None:
        assert exceptions.during(lifting_of(exceptions.freeze.id), grant) == (exceptions.freeze.id, "not_frozen")
        assert shown(exceptions) == []

    def test_decision_is_rejected_when_the_freeze_was_lifted_first(self, exceptions: ExceptionFixture) -> None:
        asked = exceptions.run(request)
        outcome = exceptions.during(lifting_of(exceptions.freeze.id), decision(asked, granted=True))
        assert outcome == (exceptions.freeze.id, "invalid_state")
        assert states(exceptions) == {exceptions.freeze.id: "expired"}


class TestAFreezeThatBegins:
    def test_grant_covers_a_freeze_that_started_before(self, exceptions: ExceptionFixture) -> None:
        started, covered = exceptions.during(begin_freeze, grant)
        assert covered == [exceptions.freeze.id, started]

    def test_grant_does_not_cover_a_freeze_that_starts_after(self, exceptions: ExceptionFixture) -> None:
        covered, started = exceptions.during(grant, begin_freeze)
        assert covered == [exceptions.freeze.id] != [started]
        assert [(row["effective"], row["ineffective_reason"]) for row in shown(exceptions)] == [(False, "other_freeze")]

    def test_freeze_that_starts_and_is_lifted_does_not_stop_a_waiting_grant(self, exceptions: ExceptionFixture) -> None:
        with exceptions.uow_factory.open(exceptions.caller()) as uow:
            started = begin_freeze(uow)
            granting = exceptions.begin(grant)
            exceptions.until_it_waits(granting)
        lifted = exceptions.begin(lifting_of(started))
        assert lifted.result(20) == started
        assert granting.result(20) in ([exceptions.freeze.id], [exceptions.freeze.id, started])
        assert states(exceptions)[exceptions.freeze.id] == "granted"


def test_grant_is_rejected_when_the_branch_just_stopped_permitting_it(exceptions: ExceptionFixture) -> None:
    asked = exceptions.run(request)

    def close(uow: UnitOfWork) -> None:
        update_branch(uow, exceptions.branch.id, {"exceptionsAllowed": False})

    assert exceptions.during(close, decision(asked, granted=True))[1] == "exceptions_not_permitted"
    assert states(exceptions) == {exceptions.freeze.id: "pending"}


class TestGrantsInParallel:
    def test_concurrent_grants_leave_one_exception(self, exceptions: ExceptionFixture) -> None:
        outcomes = [granting.result(20) for granting in [exceptions.begin(grant) for _ in range(8)]]
        assert sorted(map(str, outcomes)) == sorted([str([exceptions.freeze.id]), *["already_exists"] * 7])
        assert states(exceptions) == {exceptions.freeze.id: "granted"}

    def test_concurrent_requests_leave_one_request(self, exceptions: ExceptionFixture) -> None:
        outcome = exceptions.during(request, request)
        assert outcome[1] == "already_exists"
        assert states(exceptions) == {exceptions.freeze.id: "pending"}


def test_concurrent_changes_do_not_deadlock(exceptions: ExceptionFixture) -> None:
    """Random steps of four at once: whatever comes, no two of them block each other, and the rows make sense."""
    chance = random.Random(7)

    def step(uow: UnitOfWork) -> object:
        ids = list(
            uow.session.scalars(select(PullRequestException.id).order_by(PullRequestException.id.desc()).limit(3))
        )
        kind = chance.choice(["grant", "request", "freeze", "lift", "decide", "revoke"])
        if kind == "lift":
            return lifting_of(chance.choice([exceptions.freeze.id, *started]))(uow)
        if kind == "freeze":
            started.append(begin_freeze(uow))
            return None
        if kind == "decide" and ids:
            return decision(chance.choice(ids), granted=chance.random() < 0.5)(uow)
        if kind == "revoke" and ids:
            return revocation(chance.choice(ids))(uow)
        return (grant if kind == "grant" else request)(uow)

    started: list[str] = []
    for round_of_four in range(15):
        steps = [exceptions.begin(step) for _ in range(4)]
        for one in steps:
            failed = one.exception(20)
            assert failed is None or not isinstance(failed, OperationalError), (round_of_four, failed)
            assert failed is None, failed
    rows = shown(exceptions)
    still_open = [(row["freeze_id"], row["pull_request"]["id"]) for row in rows if row["state"] in OPEN_STATES]
    assert len(still_open) == len(set(still_open))
    assert len(rows) > 3
