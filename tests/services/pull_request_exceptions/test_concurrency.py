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
    Scene,
    begin_freeze,
    decision,
    grant,
    lifting_of,
    request,
    revocation,
)


def shown(scene: Scene) -> list[dict[str, Any]]:
    """Return what the list shows, the oldest first."""
    listed = scene.run(lambda uow: list_exceptions(uow, "tests", ExceptionFilters(), None, 100))
    return list(reversed(listed.data))


def states(scene: Scene) -> dict[str, str]:
    """Return the state of each freeze's exception."""
    return {row["freeze_id"]: row["state"] for row in shown(scene)}


class TestTwoWhoDecide:
    @pytest.mark.parametrize("granted", [True, False])
    def test_second_denial_is_rejected_when_two_people_decide(self, scene: Scene, granted: bool) -> None:
        asked = scene.run(request)
        outcome = scene.during(decision(asked, granted=granted), decision(asked, granted=not granted))
        assert outcome == (["granted" if granted else "denied"], "invalid_state")
        assert states(scene) == {scene.freeze.id: outcome[0][0]}

    def test_grant_and_denial_leave_one_decision(self, scene: Scene) -> None:
        asked = scene.run(request)
        assert scene.during(grant, decision(asked, granted=False)) == ([scene.freeze.id], "invalid_state")

    def test_denial_then_grant_leaves_both_in_that_order(self, scene: Scene) -> None:
        asked = scene.run(request)
        assert scene.during(decision(asked, granted=False), grant) == (["denied"], [scene.freeze.id])
        assert [row["state"] for row in shown(scene)] == ["denied", "granted"]

    def test_grant_and_revocation_run_one_after_the_other(self, scene: Scene) -> None:
        asked = scene.run(request)
        assert scene.during(decision(asked, granted=True), revocation(asked)) == (["granted"], 1)
        again = scene.run(request)
        assert scene.during(revocation(again), decision(again, granted=True)) == (1, "invalid_state")
        assert [row["state"] for row in shown(scene)] == ["revoked", "revoked"]


class TestRequestsOfTwoGroups:
    """One for each freeze, as it began; a grant makes one group of them."""

    @pytest.fixture
    def second(self, scene: Scene) -> str:
        scene.run(request)
        scene.run(begin_freeze)
        asked: str = scene.run(request)
        assert len({row["request_group_id"] for row in shown(scene)}) == 2
        return asked

    @pytest.mark.parametrize("granted", [True, False])
    def test_requests_of_two_groups_are_decided_once_by_a_concurrent_grant(
        self, scene: Scene, second: str, granted: bool
    ) -> None:
        covered, outcome = scene.during(grant, decision(second, granted=granted))
        assert (len(covered), outcome) == (2, "invalid_state")
        assert set(states(scene).values()) == {"granted"}

    def test_requests_of_two_groups_are_revoked_together_after_a_grant(self, scene: Scene, second: str) -> None:
        assert scene.during(grant, revocation(second))[1] == 2
        assert set(states(scene).values()) == {"revoked"}


class TestALift:
    def test_grant_is_rejected_when_the_freeze_was_lifted_first(self, scene: Scene) -> None:
        assert scene.during(lifting_of(scene.freeze.id), grant) == (scene.freeze.id, "not_frozen")
        assert shown(scene) == []

    def test_decision_is_rejected_when_the_freeze_was_lifted_first(self, scene: Scene) -> None:
        asked = scene.run(request)
        outcome = scene.during(lifting_of(scene.freeze.id), decision(asked, granted=True))
        assert outcome == (scene.freeze.id, "invalid_state")
        assert states(scene) == {scene.freeze.id: "expired"}

    def test_lift_after_a_grant_ends_the_exception(self, scene: Scene) -> None:
        assert scene.during(grant, lifting_of(scene.freeze.id)) == ([scene.freeze.id], scene.freeze.id)
        assert states(scene) == {scene.freeze.id: "expired"}


class TestAFreezeThatBegins:
    def test_grant_covers_a_freeze_that_started_before(self, scene: Scene) -> None:
        begun, covered = scene.during(begin_freeze, grant)
        assert covered == [scene.freeze.id, begun]

    def test_grant_does_not_cover_a_freeze_that_starts_after(self, scene: Scene) -> None:
        covered, begun = scene.during(grant, begin_freeze)
        assert covered == [scene.freeze.id] != [begun]
        assert [(row["effective"], row["ineffective_reason"]) for row in shown(scene)] == [(False, "other_freeze")]

    def test_freeze_that_starts_and_is_lifted_does_not_stop_a_waiting_grant(self, scene: Scene) -> None:
        with scene.uow_factory.open(scene.caller()) as uow:
            begun = begin_freeze(uow)
            granting = scene.begin(grant)
            scene.until_it_waits(granting)
        lifted = scene.begin(lifting_of(begun))
        assert lifted.result(20) == begun
        assert granting.result(20) in ([scene.freeze.id], [scene.freeze.id, begun])
        assert states(scene)[scene.freeze.id] == "granted"


def test_grant_is_rejected_when_the_branch_just_stopped_permitting_it(scene: Scene) -> None:
    asked = scene.run(request)

    def close(uow: UnitOfWork) -> None:
        update_branch(uow, scene.branch.id, {"exceptionsAllowed": False})

    assert scene.during(close, decision(asked, granted=True))[1] == "exceptions_not_permitted"
    assert states(scene) == {scene.freeze.id: "pending"}


class TestGrantsInParallel:
    def test_concurrent_grants_leave_one_exception(self, scene: Scene) -> None:
        outcomes = [granting.result(20) for granting in [scene.begin(grant) for _ in range(8)]]
        assert sorted(map(str, outcomes)) == sorted([str([scene.freeze.id]), *["already_exists"] * 7])
        assert states(scene) == {scene.freeze.id: "granted"}

    def test_concurrent_requests_leave_one_request(self, scene: Scene) -> None:
        outcome = scene.during(request, request)
        assert outcome[1] == "already_exists"
        assert states(scene) == {scene.freeze.id: "pending"}


def test_concurrent_changes_do_not_deadlock(scene: Scene) -> None:
    """Random steps of four at once: whatever comes, no two of them block each other, and the rows make sense."""
    chance = random.Random(7)

    def step(uow: UnitOfWork) -> object:
        ids = list(
            uow.session.scalars(select(PullRequestException.id).order_by(PullRequestException.id.desc()).limit(3))
        )
        kind = chance.choice(["grant", "request", "freeze", "lift", "decide", "revoke"])
        if kind == "lift":
            return lifting_of(chance.choice([scene.freeze.id, *begun]))(uow)
        if kind == "freeze":
            begun.append(begin_freeze(uow))
            return None
        if kind == "decide" and ids:
            return decision(chance.choice(ids), granted=chance.random() < 0.5)(uow)
        if kind == "revoke" and ids:
            return revocation(chance.choice(ids))(uow)
        return (grant if kind == "grant" else request)(uow)

    begun: list[str] = []
    for round_of_four in range(15):
        steps = [scene.begin(step) for _ in range(4)]
        for one in steps:
            failed = one.exception(20)
            assert failed is None or not isinstance(failed, OperationalError), (round_of_four, failed)
            assert failed is None, failed
    rows = shown(scene)
    still_open = [(row["freeze_id"], row["pull_request"]["id"]) for row in rows if row["state"] in OPEN_STATES]
    assert len(still_open) == len(set(still_open))
    assert len(rows) > 3
