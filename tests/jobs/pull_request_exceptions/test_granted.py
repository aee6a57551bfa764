"""Exceptions at GitHub: who may merge during a freeze, what the check says, and how it ends."""

from datetime import timedelta
from typing import Any

import pytest

from rules.freezes.blocking import ENFORCED
from services.core.unit_of_work import SYSTEM_CALLER
from services.pull_request_exceptions import views
from services.pull_requests.pull_requests import lookup
from tests import factories
from tests.factories.plans import change_plan
from tests.faults.test_merge_queue import enqueue, groups
from tests.harness.github_harness import REASON, Builder, Harness
from tests.harness.people import edit, push
from tests.harness.unreadable_exceptions import unreadable_exceptions
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.pull_request_exceptions.grants import check, grant, notify, now
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def frozen(harness: Harness, freeze: str) -> tuple[str, list[PullRequest]]:
    """Two open pull requests into a frozen branch, both refused."""
    assert set(harness.conclusions().values()) == {"failure"}
    return freeze, list(harness.record().pulls.values())


Frozen = tuple[str, list[PullRequest]]


class TestAGrantedException:
    def test_granted_exception_lets_only_its_pull_request_merge(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, second) = frozen
        grant(harness, freeze, first.number)
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success", "acme/web#2": "failure"}
        assert harness.merge("acme/web", second.number).status_code == 405
        assert harness.merge("acme/web", first.number).status_code == 200

    def test_check_names_the_person_who_granted_and_the_end(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            until = uow.now + timedelta(hours=3)
        grant(harness, freeze, first.number, expires_at=until)
        harness.run_until_idle()
        shown = check(harness, first)
        reported = f"{until:%Y-%m-%d %H:%M} UTC"
        assert shown["title"] == f"Allowed by an exception until {reported}"
        assert f"#1 may be merged during `{freeze}`, granted by Linus, until {reported}" in shown["summary"]
        assert REASON in shown["summary"]
        assert shown["actions"] == []

    def test_granted_exception_without_an_end_lasts_as_long_as_the_freeze(
        self, harness: Harness, frozen: Frozen
    ) -> None:
        freeze, (first, _second) = frozen
        grant(harness, freeze, first.number)
        harness.run_until_idle()
        assert check(harness, first)["title"] == "Allowed by an exception until the freeze ends"

    def test_granted_exception_does_not_pass_another_freeze(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        grant(harness, freeze, first.number)
        other = harness.freeze()
        harness.run_until_idle()
        shown = check(harness, first)
        assert shown["conclusion"] == "failure"
        assert f"`{other}`" in shown["summary"]
        assert "granted by Linus" in shown["summary"]
        grant(harness, other, first.number)
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "success"

    def test_granted_exception_applies_after_a_push_unless_pinned(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, second) = frozen
        grant(harness, freeze, first.number)
        grant(harness, freeze, second.number, pin_to_head=True)
        for pull in (first, second):
            assert push(harness, "acme/web", pull.head_ref).status_code == 201
        work(harness)
        assert harness.conclusions() == {"acme/web#1": "success", "acme/web#2": "failure"}

    def test_granted_exception_applies_to_its_base_only(self, harness: Harness, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        web = harness.fake_github.organization("acme").repository("web")
        web.branch("release/8").requires("change-freeze/release/8", "release/8")
        harness.watch("release/8")
        harness.make_due()
        freeze = harness.freeze()
        harness.run_until_idle()
        grant(harness, freeze, pull.number)
        harness.run_until_idle()
        edit(harness, pull.number, base="release/8")
        harness.make_due()
        harness.run_until_idle()
        assert harness.merge("acme/web", pull.number).status_code == 405
        edit(harness, pull.number, base="main")
        harness.make_due()
        harness.run_until_idle()
        assert harness.merge("acme/web", pull.number).status_code == 200

    def test_granted_exception_ends_with_its_freeze(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        grant(harness, freeze, first.number)
        harness.run_until_idle()
        harness.lift(freeze)
        later = harness.freeze()
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "failure"
        assert f"`{later}`" in check(harness, first)["summary"]
        assert "granted" not in check(harness, first)["summary"]

    def test_granted_exception_outlives_the_plan_until_its_own_end(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, second) = frozen
        grant(harness, freeze, first.number, expires_at=now(harness) + timedelta(hours=1))
        grant(harness, freeze, second.number)
        change_plan(harness.session, harness.organization, "free")
        harness.session.commit()
        for passed, expected in ((timedelta(minutes=50), "success"), (timedelta(minutes=20), "failure")):
            harness.pass_time(passed)
            notify(harness)
            harness.run_until_idle()
            assert (check(harness, first)["conclusion"], check(harness, second)["conclusion"]) == (expected, "success")
        harness.lift(freeze)
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"success"}


@pytest.mark.parametrize("columns", [None, {}, {"expires": True}, {"decision": "denied"}], ids=str)
def test_pull_request_view_has_the_text_of_the_check(
    harness: Harness, frozen: Frozen, columns: dict[str, Any] | None
) -> None:
    freeze, (first, _second) = frozen
    given = dict(columns or {})
    if given.pop("expires", False):
        given["expires_at"] = factories.now() + timedelta(hours=1)
    if columns is not None:
        grant(harness, freeze, first.number, **given)
        harness.run_until_idle()
    with harness.unit() as uow:
        reported = lookup(uow, "acme/web#1", None)["check"]
    shown = check(harness, first)
    assert (reported["state"], reported["conclusion"]) == ("written", shown["conclusion"])
    assert (reported["title"], reported["summary"]) == (shown["title"], shown["summary"])


class TestTwoPullRequestsWithOneHead:
    @pytest.fixture
    def shared(self, harness: Harness, build: Builder) -> tuple[str, PullRequest, PullRequest]:
        [first] = build("web", pulls=1)
        second = harness.fake_github.organization("acme").repository("web").pull_request(sharesHeadWith=first.number)
        freeze = harness.freeze()
        harness.run_until_idle()
        return freeze, first, second

    def test_shared_head_is_allowed_only_if_both_have_an_exception(
        self, harness: Harness, shared: tuple[str, PullRequest, PullRequest]
    ) -> None:
        freeze, first, second = shared
        grant(harness, freeze, first.number)
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "failure"
        assert "Each pull request merged with this commit needs an exception" in check(harness, first)["summary"]
        assert harness.merge("acme/web", first.number).status_code == 405
        grant(harness, freeze, second.number)
        harness.run_until_idle()
        assert harness.merge("acme/web", second.number).status_code == 200

    def test_shared_head_is_blocked_again_by_a_third_pull_request(
        self, harness: Harness, shared: tuple[str, PullRequest, PullRequest]
    ) -> None:
        freeze, first, second = shared
        for pull in (first, second):
            grant(harness, freeze, pull.number)
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "success"
        harness.fake_github.organization("acme").repository("web").pull_request(sharesHeadWith=first.number)
        harness.make_due()
        harness.run_until_idle()
        assert harness.merge("acme/web", first.number).status_code == 405


class TestASecondPullRequestOfALetInHead:
    """It is opened from another branch while the first has its success."""

    @pytest.fixture
    def opened(self, harness: Harness, build: Builder) -> tuple[str, str, PullRequest, PullRequest]:
        """Return the freeze, the exception, its pull request, and the other one, which no webhook has reported."""
        [first] = build("web", pulls=1)
        freeze = harness.freeze()
        harness.run_until_idle()
        harness.read_rules()
        exception_id = grant(harness, freeze, first.number)
        harness.run_until_idle()
        second = harness.fake_github.organization("acme").repository("web").pull_request(sharesHeadWith=first.number)
        return freeze, exception_id, first, second

    def test_target_names_the_head_as_let_in_until_the_second_is_seen(
        self, harness: Harness, opened: tuple[str, str, PullRequest, PullRequest]
    ) -> None:
        freeze, exception_id, first, second = opened
        [target] = harness.show(freeze)["by_repository"].values()
        assert target["let_in"] == [{"exception_id": exception_id, "number": 1, "head_sha": first.head_sha}]
        assert target["blocking"]["state"] in ENFORCED
        assert harness.merge("acme/web", second.number).status_code == 200

    def test_second_pull_request_turns_the_check_to_failure_once_seen(
        self, harness: Harness, opened: tuple[str, str, PullRequest, PullRequest]
    ) -> None:
        freeze, exception_id, first, second = opened
        assert shown_exception(harness, exception_id)["shared_head_with"] == []
        harness.make_due()
        harness.run_until_idle()
        for pull in (first, second):
            assert harness.merge("acme/web", pull.number).status_code == 405
        found = shown_exception(harness, exception_id)
        assert (found["effective"], found["ineffective_reason"]) == (False, "shared_head")
        assert [other["number"] for other in found["shared_head_with"]] == [second.number]
        grant(harness, freeze, second.number)
        harness.run_until_idle()
        assert harness.merge("acme/web", second.number).status_code == 200


def shown_exception(harness: Harness, exception_id: str) -> dict[str, Any]:
    with harness.unit() as uow:
        return views.show(uow, exception_id)


class TestAMergeQueue:
    @pytest.fixture
    def queue(self, harness: Harness, build: Builder) -> tuple[str, list[PullRequest]]:
        """Three pull requests into a frozen branch with a queue, whose groups a build has yet to pass."""
        pulls = build("web", pulls=3)
        harness.fake_github.organization("acme").repository("web").merge_queue()
        WebhookQueue(harness)
        freeze = harness.freeze()
        harness.run_until_idle()
        return freeze, pulls

    def test_merge_queue_merges_a_group_whose_members_all_have_exceptions(
        self, harness: Harness, queue: Frozen
    ) -> None:
        freeze, (first, second, third) = queue
        for pull in (first, second, third):
            grant(harness, freeze, pull.number)
        harness.run_until_idle()
        enqueue(harness, "web", first, second)
        harness.make_due()
        harness.run_until_idle()
        assert [pull.merged_at is not None for pull in (first, second, third)] == [True, True, False]

    def test_merge_queue_rejects_a_group_with_a_member_without_exception(self, harness: Harness, queue: Frozen) -> None:
        freeze, (first, second, third) = queue
        granted = {pull.number: grant(harness, freeze, pull.number) for pull in (first, second, third)}
        harness.run_until_idle()
        enqueue(harness, "web", first, second, third)
        middle = groups(harness, "web")[1]
        harness.sql("UPDATE exceptions SET revoked_at = decided_at WHERE id = :id", id=granted[second.number])
        notify(harness)
        work(harness)
        harness.make_due()
        work(harness)
        assert [pull.merged_at is not None for pull in (first, second, third)] == [True, False, False]
        run = harness.fake_github.world.newest_run(
            first.repository_id, middle, "change-freeze/main", harness.fake_github.app_id
        )
        assert run is not None
        assert run.conclusion == "failure"
        assert run.actions == []

    def test_merge_queue_merges_a_pinned_member_at_its_pinned_head(self, harness: Harness, queue: Frozen) -> None:
        freeze, (first, second, _third) = queue
        grant(harness, freeze, first.number, pin_to_head=True)
        grant(harness, freeze, second.number, pin_to_head=True, head_sha="0" * 40)
        harness.run_until_idle()
        enqueue(harness, "web", first)
        harness.make_due()
        harness.run_until_idle()
        assert first.merged_at is not None
        assert check(harness, second)["conclusion"] == "failure"


class TestTheButton:
    def buttons(self, harness: Harness, pull: PullRequest) -> list[dict[str, str]]:
        return list(check(harness, pull)["actions"])

    def test_button_is_on_a_failed_check(self, harness: Harness, frozen: Frozen) -> None:
        _freeze, (first, _second) = frozen
        assert self.buttons(harness, first) == [
            {
                "label": "Request exception",
                "description": "Ask for this pull request to be merged",
                "identifier": "request_exception",
            }
        ]
        assert '"Request exception"' in check(harness, first)["summary"]

    def test_button_is_missing_when_a_freeze_permits_no_exceptions(self, harness: Harness, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        harness.freeze()
        harness.freeze(exceptions_allowed=False)
        harness.run_until_idle()
        assert self.buttons(harness, pull) == []
        assert "does not allow exceptions" in check(harness, pull)["summary"]

    def test_button_is_missing_without_the_plan(self, harness: Harness, build: Builder) -> None:
        change_plan(harness.session, harness.organization, "free")
        harness.session.commit()
        [pull] = build("web", pulls=1)
        harness.freeze()
        harness.run_until_idle()
        assert self.buttons(harness, pull) == []

    def test_button_is_gone_once_the_freeze_has_ended(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        harness.lift(freeze)
        harness.run_until_idle()
        assert self.buttons(harness, first) == []


class TestExceptionsThatCannotBeRead:
    def test_unreadable_exceptions_allow_nothing(self, harness: Harness, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        harness.run_until_idle()
        with unreadable_exceptions(harness):
            harness.freeze()
            harness.run_until_idle()
            assert check(harness, pull)["conclusion"] == "failure"

    def test_exceptions_allow_again_once_they_can_be_read(self, harness: Harness, frozen: Frozen) -> None:
        freeze, (first, _second) = frozen
        with unreadable_exceptions(harness):
            grant(harness, freeze, first.number)
            harness.run_until_idle()
            assert check(harness, first)["conclusion"] == "failure"
        harness.pass_time(minutes=1)
        harness.run_until_idle()
        assert check(harness, first)["conclusion"] == "success"
