"""How exceptions end: by their time to the second, with their freeze, by a push to what was pinned; recorded once."""

from datetime import timedelta

import pytest
from sqlalchemy.event import listen

from models.freezes import Freeze
from models.pull_requests import PullRequest as PullRow
from rules.access.permissions import SYSTEM
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.maintenance.tasks import end_freezes, seconds_to_next
from services.pull_request_exceptions import expiry
from services.pull_request_exceptions.expiry import end_exceptions, end_on_branch, next_end
from tests import factories
from tests.faults.test_new_branches import push
from tests.harness.webhook_queue import work
from tests.jobs.conftest import Builder, Town
from tests.jobs.pull_request_exceptions.granting import check, grant, now, pass_by, row, row_of, told
from tools.fake_github.model.records import PullRequest


class TestByTime:
    def test_check_fails_again_at_the_second_of_the_end(self, town: Town, freeze: str, first: PullRequest) -> None:
        until = now(town) + timedelta(hours=1)
        made = grant(town, freeze, first.number, expires_at=until)
        town.settle()
        pass_by(town, minutes=59)
        assert end_exceptions(town.jobs) == 0
        assert town.settle() == 0
        assert check(town, first)["conclusion"] == "success"
        pass_by(town, minutes=1)
        assert end_exceptions(town.jobs) == 1
        town.settle()
        assert check(town, first)["conclusion"] == "failure"
        assert "granted" not in check(town, first)["summary"]
        assert town.merge("acme/web", first.number).status_code == 405
        assert row(town, made)["expired_at"] == until

    def test_verdict_does_not_wait_for_the_record_of_the_end(self, town: Town, freeze: str, first: PullRequest) -> None:
        grant(town, freeze, first.number, expires_at=now(town) + timedelta(hours=1))
        pass_by(town, hours=1)
        town.settle()
        assert check(town, first)["conclusion"] == "failure"

    def test_end_is_recorded_once(self, town: Town, freeze: str, first: PullRequest) -> None:
        made = grant(town, freeze, first.number, expires_at=now(town) + timedelta(hours=1))
        pass_by(town, hours=2)
        assert [end_exceptions(town.jobs) for _ in range(3)] == [1, 0, 0]
        [(actor, target, details)] = told(town, "expired")
        assert (actor["type"], target) == ("system", {"type": "exception", "id": made, "name": "acme/web#1"})
        assert [each["freezeId"] for each in details["rows"]] == [freeze]

    def test_pending_request_ends_too(self, town: Town, freeze: str, first: PullRequest) -> None:
        pending = {"decision": None, "decided_by": None, "decided_at": None}
        made = grant(town, freeze, first.number, expires_at=now(town) + timedelta(hours=1), **pending)
        town.settle()
        pass_by(town, hours=1)
        assert end_exceptions(town.jobs) == 1
        assert row(town, made)["expired_at"] is not None
        assert town.settle() == 0

    def test_next_end_is_known_beforehand(self, town: Town, freeze: str, first: PullRequest) -> None:
        soon = now(town) + timedelta(minutes=7)
        with town.jobs.open(SYSTEM_CALLER) as uow:
            assert next_end(uow) is None
        grant(town, freeze, first.number, expires_at=soon)
        grant(town, freeze, 2, expires_at=soon + timedelta(hours=1))
        with town.jobs.open(SYSTEM_CALLER) as uow:
            assert next_end(uow) == soon
        left = seconds_to_next(town.jobs)
        assert left is not None
        assert 0 < left <= 7 * 60


def test_exceptions_that_end_with_one_freeze_need_few_queries(town: Town, build: Builder) -> None:
    pulls = build("web", pulls=12)
    town.settle()

    def questions(many: int) -> int:
        freeze = town.session.get_one(Freeze, town.freeze())
        for pull in pulls[:many]:
            factories.exception(town.session, freeze, row_of(town, pull.number), town.branches["acme/web"])
        town.session.commit()
        town.lift(freeze.id)
        statements: list[str] = []
        with town.jobs.open(Caller(town.organization.id, SYSTEM, "system")) as uow:
            listen(uow.session.connection(), "before_cursor_execute", lambda *event: statements.append(event[2]))
            assert end_on_branch(uow, town.branches["acme/web"].id) == many
            uow.session.flush()
        return len(statements)

    assert questions(2) == questions(12)


def test_check_fails_again_even_if_the_end_cannot_be_recorded(town: Town, freeze: str, first: PullRequest) -> None:
    made = grant(town, freeze, first.number, expires_at=now(town) + timedelta(hours=1))
    town.settle()
    assert check(town, first)["conclusion"] == "success"
    pass_by(town, hours=1)
    town.sql("REVOKE INSERT ON audit_entries FROM change_freeze_worker")
    try:
        assert end_exceptions(town.jobs) == 0
        town.settle()
        assert check(town, first)["conclusion"] == "failure"
        assert row(town, made)["expired_at"] is None
    finally:
        town.sql("GRANT INSERT ON audit_entries TO change_freeze_worker")
    assert end_exceptions(town.jobs) == 1
    assert row(town, made)["expired_at"] is not None


def test_ends_on_all_branches_are_recorded_in_one_sweep(
    town: Town, build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH_SIZE", 1)
    build("web", "api", "docs", pulls=1)
    places = ("acme/api", "acme/docs", "acme/web")
    town.settle()
    freeze, until = town.session.get_one(Freeze, town.freeze()), now(town) + timedelta(hours=1)
    for place in places:
        factories.exception(town.session, freeze, row_of(town, 1, place), town.branches[place], expires_at=until)
    town.session.commit()
    pass_by(town, hours=1)
    assert end_exceptions(town.jobs) == len(places)


class TestWithItsFreeze:
    def test_lift_ends_the_exception(self, town: Town, freeze: str, first: PullRequest) -> None:
        made = grant(town, freeze, first.number)
        town.lift(freeze)
        assert end_exceptions(town.jobs) == 1
        [(lifted_at,)] = town.sql("SELECT ended_at FROM freezes WHERE id = :id", id=freeze)
        assert row(town, made)["expired_at"] == lifted_at
        assert len(told(town, "expired")) == 1

    def test_end_of_the_freeze_ends_the_exception(self, town: Town, freeze: str, first: PullRequest) -> None:
        until = now(town) + timedelta(hours=1)
        short = town.freeze(ends_at=until)
        made = grant(town, short, first.number, expires_at=until + timedelta(hours=1))
        stays = grant(town, freeze, first.number)
        pass_by(town, hours=1)
        end_freezes(town.jobs)
        assert end_exceptions(town.jobs) == 1
        assert row(town, made)["expired_at"] == until
        assert row(town, stays)["expired_at"] is None


class TestByAPush:
    def test_pinned_exception_is_revoked_by_the_service_after_a_push(
        self, town: Town, freeze: str, first: PullRequest
    ) -> None:
        made = grant(town, freeze, first.number, pin_to_head=True)
        town.settle()
        assert check(town, first)["conclusion"] == "success"
        assert push(town, "acme/web", first.head_ref).status_code == 201
        town.make_due()
        town.settle()
        found = row(town, made)
        assert found["revoked_by"]["type"] == "system"
        assert found["revoked_at"] is not None
        [(actor, target, details)] = told(town, "revoked")
        assert (actor["type"], target["name"], details["newHeadSha"]) == ("system", "acme/web#1", first.head_sha)
        assert town.merge("acme/web", first.number).status_code == 405

    def test_pinned_exception_stays_revoked_when_the_commit_comes_back(
        self, town: Town, freeze: str, first: PullRequest
    ) -> None:
        before = first.head_sha
        grant(town, freeze, first.number, pin_to_head=True)
        town.settle()
        assert push(town, "acme/web", first.head_ref).status_code == 201
        town.make_due()
        town.settle()
        path = f"/repos/acme/web/git/refs/heads/{first.head_ref}"
        assert town.person("PATCH", path, {"sha": before, "force": True}).status_code == 200
        town.make_due()
        town.settle()
        assert first.head_sha == before
        assert town.merge("acme/web", first.number).status_code == 405

    def test_pinned_request_ends_after_a_push(self, town: Town, freeze: str, first: PullRequest) -> None:
        pending = {"decision": None, "decided_by": None, "decided_at": None}
        made = grant(town, freeze, first.number, pin_to_head=True, **pending)
        assert push(town, "acme/web", first.head_ref).status_code == 201
        town.make_due()
        town.settle()
        assert row(town, made)["revoked_by"]["type"] == "system"
        [(_actor, _target, details)] = told(town, "revoked")
        assert [each["before"]["state"] for each in details["rows"]] == ["pending"]

    def test_exception_without_pin_survives_a_push(self, town: Town, freeze: str, first: PullRequest) -> None:
        made = grant(town, freeze, first.number)
        assert push(town, "acme/web", first.head_ref).status_code == 201
        work(town)
        assert row(town, made)["revoked_at"] is None

    @pytest.mark.parametrize("decision", ["granted", None])
    def test_sweeper_finds_a_push_that_the_pass_did_not_see(
        self, town: Town, freeze: str, first: PullRequest, decision: str | None
    ) -> None:
        made = grant(town, freeze, first.number, pin_to_head=True, decision=decision)
        town.session.get_one(PullRow, row(town, made)["pull_request_id"]).head_sha = "f" * 40
        town.session.commit()
        assert end_exceptions(town.jobs) == 1
        assert row(town, made)["revoked_by"]["type"] == "system"
