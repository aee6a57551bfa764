"""Exceptions at the code host: who may merge during a freeze, what the check says, and how it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from models.repositories import Repository
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.pull_requests.pull_requests import lookup
from tests import factories
from tests.faults.test_merge_queue import enqueue, groups
from tests.faults.test_new_branches import push
from tests.harness.webhook_queue import Post, work
from tests.jobs.conftest import ADA, REASON, Builder, Town
from tests.jobs.pull_request_exceptions.granting import check, grant, tell
from tests.services.conftest import MovedClock
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def frozen(town: Town, build: Builder) -> tuple[str, list[PullRequest]]:
    """Two open pull requests into a frozen branch, both refused."""
    pulls = build("web")
    town.settle()
    freeze = town.freeze()
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}
    return freeze, pulls


Frozen = tuple[str, list[PullRequest]]


class TestAGrantedException:
    def test_granted_exception_lets_only_its_pull_request_merge(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, second) = frozen
        grant(town, freeze, first.number)
        town.settle()
        assert town.conclusions() == {"acme/web#1": "success", "acme/web#2": "failure"}
        assert town.merge("acme/web", second.number).status_code == 405
        assert town.merge("acme/web", first.number).status_code == 200

    def test_check_names_the_person_who_granted_and_the_end(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        with town.jobs.open(SYSTEM_CALLER) as uow:
            until = uow.now + timedelta(hours=3)
        grant(town, freeze, first.number, expires_at=until)
        town.settle()
        shown = check(town, first)
        told = f"{until:%Y-%m-%d %H:%M} UTC"
        assert shown["title"] == f"Allowed by an exception until {told}"
        assert f"#1 may pass `{freeze}`, granted by Linus, until {told}" in shown["summary"]
        assert REASON in shown["summary"]
        assert shown["actions"] == []

    def test_granted_exception_without_an_end_lasts_as_long_as_the_freeze(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        grant(town, freeze, first.number)
        town.settle()
        assert check(town, first)["title"] == "Allowed by an exception until the freeze ends"

    def test_granted_exception_does_not_pass_another_freeze(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        grant(town, freeze, first.number)
        other = town.freeze()
        town.settle()
        shown = check(town, first)
        assert shown["conclusion"] == "failure"
        assert f"`{other}`" in shown["summary"]
        assert "granted by Linus" in shown["summary"]
        grant(town, other, first.number)
        town.settle()
        assert check(town, first)["conclusion"] == "success"

    def test_granted_exception_applies_after_a_push_unless_pinned(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, second) = frozen
        grant(town, freeze, first.number)
        grant(town, freeze, second.number, pin_to_head=True)
        for pull in (first, second):
            assert push(town, "acme/web", pull.head_ref).status_code == 201
        work(town)
        assert town.conclusions() == {"acme/web#1": "success", "acme/web#2": "failure"}

    def test_granted_exception_applies_to_its_base_only(self, town: Town, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        web = town.host.organization("acme").repository("web")
        web.branch("release/8").requires("change-freeze/release/8", "release/8")
        repository = town.session.get_one(Repository, town.branches["acme/web"].repository_id)
        factories.branch(town.session, repository, "release/8")
        town.session.commit()
        town.make_due()
        freeze = town.freeze()
        town.settle()
        grant(town, freeze, pull.number)
        town.settle()
        town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"base": "release/8"})
        town.make_due()
        town.settle()
        assert town.merge("acme/web", pull.number).status_code == 405
        town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"base": "main"})
        town.make_due()
        town.settle()
        assert town.merge("acme/web", pull.number).status_code == 200

    def test_granted_exception_ends_with_its_freeze(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        grant(town, freeze, first.number)
        town.settle()
        town.lift(freeze)
        later = town.freeze()
        town.settle()
        assert check(town, first)["conclusion"] == "failure"
        assert f"`{later}`" in check(town, first)["summary"]
        assert "granted" not in check(town, first)["summary"]


@pytest.mark.parametrize("columns", [None, {}, {"expires": True}, {"decision": "denied"}], ids=str)
def test_pull_request_view_has_the_text_of_the_check(
    town: Town, frozen: Frozen, columns: dict[str, Any] | None
) -> None:
    freeze, (first, _second) = frozen
    given = dict(columns or {})
    if given.pop("expires", False):
        given["expires_at"] = factories.now() + timedelta(hours=1)
    if columns is not None:
        grant(town, freeze, first.number, **given)
        town.settle()
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        told = lookup(uow, "acme/web#1", None)["check"]
    shown = check(town, first)
    assert (told["state"], told["conclusion"]) == ("written", shown["conclusion"])
    assert (told["title"], told["summary"]) == (shown["title"], shown["summary"])


class TestTwoPullRequestsWithOneHead:
    @pytest.fixture
    def shared(self, town: Town, build: Builder) -> tuple[str, PullRequest, PullRequest]:
        [first] = build("web", pulls=1)
        second = town.host.organization("acme").repository("web").pull_request(sharesHeadWith=first.number)
        freeze = town.freeze()
        town.settle()
        return freeze, first, second

    def test_shared_head_is_allowed_only_if_both_have_an_exception(
        self, town: Town, shared: tuple[str, PullRequest, PullRequest]
    ) -> None:
        freeze, first, second = shared
        grant(town, freeze, first.number)
        town.settle()
        assert check(town, first)["conclusion"] == "failure"
        assert "Every pull request that would land with this commit needs one" in check(town, first)["summary"]
        assert town.merge("acme/web", first.number).status_code == 405
        grant(town, freeze, second.number)
        town.settle()
        assert town.merge("acme/web", second.number).status_code == 200

    def test_shared_head_is_blocked_again_by_a_third_pull_request(
        self, town: Town, shared: tuple[str, PullRequest, PullRequest]
    ) -> None:
        freeze, first, second = shared
        for pull in (first, second):
            grant(town, freeze, pull.number)
        town.settle()
        assert check(town, first)["conclusion"] == "success"
        town.host.organization("acme").repository("web").pull_request(sharesHeadWith=first.number)
        town.make_due()
        town.settle()
        assert town.merge("acme/web", first.number).status_code == 405


class TestAMergeQueue:
    @pytest.fixture
    def queue(self, town: Town, build: Builder) -> tuple[str, list[PullRequest]]:
        """Three pull requests into a frozen branch with a queue, whose groups a build has yet to pass."""
        pulls = build("web", pulls=3)
        town.host.organization("acme").repository("web").merge_queue()
        Post(town)
        freeze = town.freeze()
        town.settle()
        return freeze, pulls

    def test_merge_queue_merges_a_group_whose_members_all_have_exceptions(self, town: Town, queue: Frozen) -> None:
        freeze, (first, second, third) = queue
        for pull in (first, second, third):
            grant(town, freeze, pull.number)
        town.settle()
        enqueue(town, "web", first, second)
        town.make_due()
        town.settle()
        assert [pull.merged_at is not None for pull in (first, second, third)] == [True, True, False]

    def test_merge_queue_rejects_a_group_with_a_member_without_exception(self, town: Town, queue: Frozen) -> None:
        freeze, (first, second, third) = queue
        granted = {pull.number: grant(town, freeze, pull.number) for pull in (first, second, third)}
        town.settle()
        enqueue(town, "web", first, second, third)
        middle = groups(town, "web")[1]
        town.sql("UPDATE exceptions SET revoked_at = decided_at WHERE id = :id", id=granted[second.number])
        tell(town)
        work(town)
        town.make_due()
        work(town)
        assert [pull.merged_at is not None for pull in (first, second, third)] == [True, False, False]
        run = town.host.world.newest_run(first.repository_id, middle, "change-freeze/main", town.host.app_id)
        assert run is not None
        assert run.conclusion == "failure"
        assert run.actions == []

    def test_merge_queue_merges_a_pinned_member_at_its_pinned_head(self, town: Town, queue: Frozen) -> None:
        freeze, (first, second, _third) = queue
        grant(town, freeze, first.number, pin_to_head=True)
        grant(town, freeze, second.number, pin_to_head=True, head_sha="0" * 40)
        town.settle()
        enqueue(town, "web", first)
        town.make_due()
        town.settle()
        assert first.merged_at is not None
        assert check(town, second)["conclusion"] == "failure"


class TestTheButton:
    def buttons(self, town: Town, pull: PullRequest) -> list[str]:
        return [action["identifier"] for action in check(town, pull)["actions"]]

    def test_button_is_on_a_failed_check(self, town: Town, frozen: Frozen) -> None:
        _freeze, (first, _second) = frozen
        assert self.buttons(town, first) == ["request_exception"]
        assert '"Request exception"' in check(town, first)["summary"]

    def test_button_is_missing_when_a_freeze_permits_no_exceptions(self, town: Town, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        town.freeze()
        town.freeze(exceptions_allowed=False)
        town.settle()
        assert self.buttons(town, pull) == []
        assert "Exceptions are off" in check(town, pull)["summary"]

    def test_button_is_missing_without_the_plan(self, town: Town, build: Builder) -> None:
        town.organization.plan = "free"
        town.session.commit()
        [pull] = build("web", pulls=1)
        town.freeze()
        town.settle()
        assert self.buttons(town, pull) == []

    def test_button_is_gone_once_the_freeze_has_ended(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        town.lift(freeze)
        town.settle()
        assert self.buttons(town, first) == []


class TestExceptionsThatCannotBeRead:
    @contextmanager
    def unreadable(self, town: Town) -> Iterator[None]:
        town.sql("REVOKE SELECT ON exceptions FROM change_freeze_worker")
        try:
            yield
        finally:
            town.sql("GRANT SELECT ON exceptions TO change_freeze_worker")

    def test_unreadable_exceptions_allow_nothing(self, town: Town, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        town.settle()
        with self.unreadable(town):
            town.freeze()
            town.settle()
            assert check(town, pull)["conclusion"] == "failure"

    def test_exceptions_allow_again_once_they_can_be_read(self, town: Town, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        with self.unreadable(town):
            grant(town, freeze, first.number)
            town.settle()
            assert check(town, first)["conclusion"] == "failure"
        cast(MovedClock, town.jobs.clock).ahead += timedelta(minutes=1)
        town.settle()
        assert check(town, first)["conclusion"] == "success"
