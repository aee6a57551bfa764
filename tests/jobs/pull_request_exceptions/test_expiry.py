"""How exceptions end: by their time to the second, with their freeze, by a push to what was pinned; recorded once."""

from collections import deque
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.event import listen

from models.freezes import Freeze
from models.pull_requests import PullRequest as PullRow
from rules.access.permissions import SYSTEM
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.maintenance.tasks import end_freezes, seconds_to_next
from services.pull_request_exceptions import expiry, requests, views
from services.pull_request_exceptions.expiry import end_exceptions, end_on_branch, next_end
from services.pull_request_exceptions.requests import ExceptionInput
from tests import factories
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import push
from tests.harness.pipeline import revoke
from tests.jobs.passes import leased_pass
from tests.jobs.pull_request_exceptions.grants import audited, check, grant, now, row, row_of
from tools.fake_github.model.records import PullRequest


def grant_and_pass_its_end(harness: Harness, freeze: str, pull: PullRequest) -> str:
    """Grant an exception, see it let its pull request in, and pass its end, which is not recorded; return its id."""
    made = grant(harness, freeze, pull.number, expires_at=now(harness) + timedelta(hours=1))
    harness.run_until_idle()
    assert check(harness, pull)["conclusion"] == "success"
    harness.pass_time(hours=1)
    return made


class TestByTime:
    def test_check_fails_again_at_the_second_of_the_end(
        self, harness: Harness, freeze: str, first: PullRequest
    ) -> None:
        until = now(harness) + timedelta(hours=1)
        made = grant(harness, freeze, first.number, expires_at=until)
        harness.run_until_idle()
        harness.pass_time(minutes=59)
        assert end_exceptions(harness.jobs) == 0
        assert harness.run_until_idle() == 0
        assert check(harness, first)["conclusion"] == "success"
        harness.pass_time(minutes=1)
        assert end_exceptions(harness.jobs) == 1
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "failure"
        assert "granted" not in check(harness, first)["summary"]
        assert harness.merge("acme/web", first.number).status_code == 405
        assert row(harness, made)["expired_at"] == until

    def test_end_is_recorded_once(self, harness: Harness, freeze: str, first: PullRequest) -> None:
        made = grant(harness, freeze, first.number, expires_at=now(harness) + timedelta(hours=1))
        harness.pass_time(hours=2)
        assert [end_exceptions(harness.jobs) for _ in range(3)] == [1, 0, 0]
        [(actor, target, details)] = audited(harness, "expired")
        assert (actor["type"], target) == ("system", {"type": "exception", "id": made, "name": "acme/web#1"})
        assert [each["freezeId"] for each in details["rows"]] == [freeze]

    def test_pending_request_ends_too(self, harness: Harness, freeze: str, first: PullRequest) -> None:
        pending = {"decision": None, "decided_by": None, "decided_at": None}
        made = grant(harness, freeze, first.number, expires_at=now(harness) + timedelta(hours=1), **pending)
        harness.run_until_idle()
        harness.pass_time(hours=1)
        assert end_exceptions(harness.jobs) == 1
        assert row(harness, made)["expired_at"] is not None
        assert harness.run_until_idle() == 0

    def test_next_end_is_known_beforehand(self, harness: Harness, freeze: str, first: PullRequest) -> None:
        soon = now(harness) + timedelta(minutes=7)
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            assert next_end(uow) is None
        grant(harness, freeze, first.number, expires_at=soon)
        grant(harness, freeze, 2, expires_at=soon + timedelta(hours=1))
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            assert next_end(uow) == soon
        left = seconds_to_next(harness.jobs)
        assert left is not None
        assert 0 < left <= 7 * 60


def test_exceptions_that_end_with_one_freeze_need_few_queries(harness: Harness, build: Builder) -> None:
    pulls = build("web", pulls=12)
    harness.run_until_idle()

    def questions(many: int) -> int:
        freeze = harness.session.get_one(Freeze, harness.freeze())
        for pull in pulls[:many]:
            factories.exception(harness.session, freeze, row_of(harness, pull.number), harness.branches["acme/web"])
        harness.session.commit()
        harness.lift(freeze.id)
        statements: list[str] = []
        with harness.jobs.open(Caller(harness.organization.id, SYSTEM, "system")) as uow:
            listen(uow.session.connection(), "before_cursor_execute", lambda *event: statements.append(event[2]))
            assert end_on_branch(uow, harness.branches["acme/web"].id) == many
            uow.session.flush()
        return len(statements)

    assert questions(2) == questions(12)


def test_check_fails_again_even_if_the_end_cannot_be_recorded(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    made = grant_and_pass_its_end(harness, freeze, first)
    harness.sql("REVOKE INSERT ON audit_entries FROM change_freeze_worker")
    try:
        assert end_exceptions(harness.jobs) == 0
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "failure"
        assert row(harness, made)["expired_at"] is None
    finally:
        harness.sql("GRANT INSERT ON audit_entries TO change_freeze_worker")
    assert end_exceptions(harness.jobs) == 1
    assert row(harness, made)["expired_at"] is not None


def test_ends_on_all_branches_are_recorded_in_one_sweep(
    harness: Harness, build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH_SIZE", 1)
    build("web", "api", "docs", pulls=1)
    places = ("acme/api", "acme/docs", "acme/web")
    harness.run_until_idle()
    freeze, until = harness.session.get_one(Freeze, harness.freeze()), now(harness) + timedelta(hours=1)
    for place in places:
        factories.exception(
            harness.session, freeze, row_of(harness, 1, place), harness.branches[place], expires_at=until
        )
    harness.session.commit()
    harness.pass_time(hours=1)
    assert end_exceptions(harness.jobs) == len(places)


class TestWithItsFreeze:
    def test_lift_ends_the_exception(self, harness: Harness, freeze: str, first: PullRequest) -> None:
        made = grant(harness, freeze, first.number)
        harness.lift(freeze)
        assert end_exceptions(harness.jobs) == 1
        [(lifted_at,)] = harness.sql("SELECT ended_at FROM freezes WHERE id = :id", id=freeze)
        assert row(harness, made)["expired_at"] == lifted_at
        assert len(audited(harness, "expired")) == 1

    def test_end_of_the_freeze_ends_the_exception(self, harness: Harness, freeze: str, first: PullRequest) -> None:
        until = now(harness) + timedelta(hours=1)
        short = harness.freeze(ends_at=until)
        made = grant(harness, short, first.number, expires_at=until + timedelta(hours=1))
        stays = grant(harness, freeze, first.number)
        harness.pass_time(hours=1)
        end_freezes(harness.jobs)
        assert end_exceptions(harness.jobs) == 1
        assert row(harness, made)["expired_at"] == until
        assert row(harness, stays)["expired_at"] is None


class TestByAPush:
    def test_pinned_exception_is_revoked_by_the_service_after_a_push(
        self, harness: Harness, freeze: str, first: PullRequest
    ) -> None:
        made = grant(harness, freeze, first.number, pin_to_head=True)
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "success"
        assert push(harness, "acme/web", first.head_ref).status_code == 201
        harness.make_due()
        harness.run_until_idle()
        found = row(harness, made)
        assert found["revoked_by"]["type"] == "system"
        assert found["revoked_at"] is not None
        [(actor, target, details)] = audited(harness, "revoked")
        assert (actor["type"], target["name"], details["newHeadSha"]) == ("system", "acme/web#1", first.head_sha)
        assert harness.merge("acme/web", first.number).status_code == 405

    def test_pinned_exception_stays_revoked_when_the_commit_comes_back(
        self, harness: Harness, freeze: str, first: PullRequest
    ) -> None:
        before = first.head_sha
        grant(harness, freeze, first.number, pin_to_head=True)
        harness.run_until_idle()
        assert push(harness, "acme/web", first.head_ref).status_code == 201
        harness.make_due()
        harness.run_until_idle()
        path = f"/repos/acme/web/git/refs/heads/{first.head_ref}"
        assert harness.person("PATCH", path, {"sha": before, "force": True}).status_code == 200
        harness.make_due()
        harness.run_until_idle()
        assert first.head_sha == before
        assert harness.merge("acme/web", first.number).status_code == 405

    def test_pinned_request_ends_after_a_push(self, harness: Harness, freeze: str, first: PullRequest) -> None:
        pending = {"decision": None, "decided_by": None, "decided_at": None}
        made = grant(harness, freeze, first.number, pin_to_head=True, **pending)
        assert push(harness, "acme/web", first.head_ref).status_code == 201
        harness.make_due()
        harness.run_until_idle()
        assert row(harness, made)["revoked_by"]["type"] == "system"
        [(_actor, _target, details)] = audited(harness, "revoked")
        assert [each["before"]["state"] for each in details["rows"]] == ["pending"]

    @pytest.mark.parametrize("decision", ["granted", None])
    def test_sweeper_finds_a_push_that_the_pass_did_not_see(
        self, harness: Harness, freeze: str, first: PullRequest, decision: str | None
    ) -> None:
        made = grant(harness, freeze, first.number, pin_to_head=True, decision=decision)
        harness.session.get_one(PullRow, row(harness, made)["pull_request_id"]).head_sha = "f" * 40
        harness.session.commit()
        assert end_exceptions(harness.jobs) == 1
        assert row(harness, made)["revoked_by"]["type"] == "system"


def ask(harness: Harness, number: int) -> str:
    """Request exceptions, as a person; returns the id of the first."""
    with harness.unit() as uow:
        wanted = ExceptionInput("It failed again, after the end")
        return requests.request(uow, f"acme/web#{number}", None, wanted).rows[0].id


def test_request_before_the_end_is_recorded_leaves_no_success(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    made = grant_and_pass_its_end(harness, freeze, first)
    ask(harness, first.number)
    assert row(harness, made)["expired_at"] is not None
    end_exceptions(harness.jobs)
    harness.run_until_idle()
    assert check(harness, first)["conclusion"] == "failure"
    assert harness.merge("acme/web", first.number).status_code == 405


def test_pull_request_seen_by_another_worker_blocks_the_shared_head(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    """One worker is about to write that the pattern lets a head in by an exception; another finds it without one."""
    pattern = "change-freeze/**"
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8").requires(pattern, "main")
    sibling = harness.watch("release/8", pattern)
    web.pull_request(base="release/8", sharesHeadWith=first.number)
    harness.make_due("wanted_generation = nextval('generations')")
    harness.run_until_idle()
    grant(harness, freeze, first.number)
    harness.sql("UPDATE checks SET due_at = NULL WHERE name = 'change-freeze/main'")
    slow = leased_pass(harness)
    planned = deque(slow._plan(slow.reading.mirror(slow.reading.fetch())))
    assert [(update.head.key.check_name, update.conclusion) for update in planned] == [(pattern, "success")]
    web.pull_request(base="main", sharesHeadWith=first.number)
    harness.sql(
        "UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE branch_id <> :id",
        id=sibling.id,
    )
    assert harness.run_until_idle() == 1
    slow._write_in_order(planned)
    slow._end(planned)
    harness.run_until_idle()
    assert harness.conclusions(pattern)["acme/web#1"] == "failure"
    assert harness.merge("acme/web", first.number).status_code == 405


def shown(harness: Harness, exception_id: str) -> dict[str, Any]:
    with harness.unit() as uow:
        return views.show(uow, exception_id)


def test_revoked_exception_is_blocked_once_github_shows_the_failure(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    harness.read_rules()
    exception_id = grant(harness, freeze, first.number)
    harness.run_until_idle()
    revoke(harness, exception_id)
    assert check(harness, first)["conclusion"] == "success"
    waiting = shown(harness, exception_id)
    assert (waiting["blocking"]["state"], waiting["blocked_since"]) == ("not_blocked", None)
    revoked_at: datetime = waiting["revoked_at"]
    harness.run_until_idle()
    assert harness.merge("acme/web", first.number).status_code == 405
    blocked = shown(harness, exception_id)
    assert blocked["blocking"]["state"] in {"blocked", "partly"}
    assert revoked_at <= blocked["blocked_since"] <= now(harness)
