"""What people change by hand at GitHub is noticed and corrected within one full resync, with webhooks or without."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rules.billing.plans import FREE
from services.repositories import enablement, watches
from tests import factories
from tests.faults.test_new_branches import targets
from tests.harness.github_harness import Harness
from tests.harness.people import cut, edit, propose, push_to_head
from tests.harness.webhook_queue import WebhookQueue, disagreements, full_resync, work
from tools.fake_github.model import checks, repositories
from tools.fake_github.model.installations import register_app
from tools.fake_github.model.records import PullRequest

CHECK = "change-freeze/main"
delivered_or_lost = pytest.mark.parametrize("delivered", [True, False], ids=["webhooks delivered", "webhooks lost"])


def each_delivered_or_lost(name: str, ways: Sequence[Callable[..., object]]) -> pytest.MarkDecorator:
    """Return the mark that runs a test for each way, with webhooks that are delivered and lost.

    `make test` has each way once, with its webhooks delivered and lost in turn.
    """
    return pytest.mark.parametrize(
        (name, "delivered"),
        [
            pytest.param(
                way,
                delivered,
                id=f"{way.__name__}-webhooks {'delivered' if delivered else 'lost'}",
                marks=[pytest.mark.check] if delivered == bool(number % 2) else [],
            )
            for number, way in enumerate(ways)
            for delivered in (True, False)
        ],
    )


def find_out(webhook_queue: WebhookQueue, *, delivered: bool) -> None:
    """Have the service notice: by the webhooks that were written, or by one full resync after they were lost."""
    if delivered:
        webhook_queue.run()
    else:
        webhook_queue.take()
        full_resync(webhook_queue.harness)


def write(harness: Harness, pull: PullRequest, app_id: int, **fields: Any) -> None:
    """Write a run of our check's name as an App."""
    wanted = {"name": CHECK, "head_sha": pull.head_sha, **fields}
    harness.act(checks.create_check_run, app_id, harness.record(), wanted)


def another_success(harness: Harness, pull: PullRequest) -> None:
    write(harness, pull, harness.fake_github.app_id, conclusion="success")


def a_run_that_is_skipped(harness: Harness, pull: PullRequest) -> None:
    write(harness, pull, harness.fake_github.app_id, conclusion="skipped")


def a_run_that_never_ends(harness: Harness, pull: PullRequest) -> None:
    write(harness, pull, harness.fake_github.app_id, status="in_progress")


def an_edited_run(harness: Harness, pull: PullRequest) -> None:
    """GitHub rejects this; if it did not, it would send no webhook."""
    harness.run_on(pull).conclusion = "success"


def a_deleted_run(harness: Harness, pull: PullRequest) -> None:
    world, run = harness.fake_github.world, harness.run_on(pull)
    world.runs.pop(run.id)
    world.runs_in[run.suite_id].remove(run)
    world.newest.pop((run.repository_id, run.head_sha, run.app_id, run.name))


def assert_blocked_until_the_lift(harness: Harness, freeze: str, repository: str, *pulls: int) -> None:
    assert {harness.merge(repository, pull).status_code for pull in pulls} == {405}
    harness.lift(freeze)
    work(harness)
    assert disagreements(harness) == {}
    assert {harness.merge(repository, pull).status_code for pull in pulls} == {200}


Edit = Callable[[Harness, PullRequest], None]
FORGERIES = [another_success, a_run_that_is_skipped, a_run_that_never_ends, an_edited_run, a_deleted_run]
SILENT = [an_edited_run, a_deleted_run]
"""Of these GitHub sends no webhook."""


class TestForgedCheck:
    @pytest.mark.parametrize(
        ("edit", "delivered"),
        [
            pytest.param(edit, delivered, id=f"{edit.__name__}-webhooks {'delivered' if delivered else 'lost'}")
            for edit in FORGERIES
            for delivered in (True, False)
            if not delivered or edit not in SILENT
        ],
    )
    def test_forged_check_in_a_freeze_is_corrected(
        self,
        harness: Harness,
        webhook_queue: WebhookQueue,
        edit: Edit,
        delivered: bool,
    ) -> None:
        pull = harness.record().pulls[1]
        harness.freeze()
        work(harness)
        edit(harness, pull)
        find_out(webhook_queue, delivered=delivered)
        assert (harness.run_on(pull).status, harness.run_on(pull).conclusion) == ("completed", "failure")
        assert harness.merge("acme/web", 1).status_code == 405

    @pytest.mark.parametrize("edit", [a_run_that_never_ends, a_deleted_run])
    def test_forged_failure_is_corrected_by_one_full_resync(
        self, harness: Harness, webhook_queue: WebhookQueue, edit: Edit
    ) -> None:
        edit(harness, harness.record().pulls[1])
        assert harness.merge("acme/web", 1).status_code == 405
        find_out(webhook_queue, delivered=False)
        assert harness.merge("acme/web", 1).status_code == 200

    def test_success_of_another_app_does_not_allow_a_merge(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        """The rule takes the check from our App alone, and so do we when we read it back."""
        pull = harness.record().pulls[1]
        with harness.fake_github.world.lock:
            other = register_app(harness.fake_github.world, 77, "another-app", None)
        harness.freeze()
        work(harness)
        write(harness, pull, other.id, conclusion="success")
        assert harness.merge("acme/web", 1).status_code == 405
        harness.fake_github.calls.reset()
        find_out(webhook_queue, delivered=False)
        assert harness.fake_github.calls.writes == []
        assert harness.merge("acme/web", 1).status_code == 405


def choose_trunk(harness: Harness) -> None:
    """Make another branch the default one."""
    assert harness.person("PATCH", "/repos/acme/web", {"default_branch": "trunk"}).status_code == 200


def require_on_trunk(harness: Harness) -> None:
    harness.fake_github.organization("acme").repository("web").requires("change-freeze/trunk", "trunk")


def watched(harness: Harness) -> set[str]:
    query = (
        "SELECT r.name || ':' || b.name FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
        "WHERE b.unwatched_at IS NULL"
    )
    return {row[0] for row in harness.sql(query)}


class TestDefaultBranch:
    @delivered_or_lost
    def test_new_default_branch_is_watched_and_joins_the_freeze(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        freeze = harness.freeze()
        work(harness)
        cut(harness, "acme/web", "trunk")
        choose_trunk(harness)
        require_on_trunk(harness)
        number = propose(harness, "acme/web", "trunk")
        find_out(webhook_queue, delivered=delivered)
        assert watched(harness) == {"api:main", "web:main", "web:trunk"}
        assert targets(harness, freeze) == {"api:main", "web:main", "web:trunk"}
        actions = factories.audit_actions(harness.session, harness.organization)
        assert (actions.count("branch.watched"), actions.count("freeze.grew")) == (1, 1)
        assert_blocked_until_the_lift(harness, freeze, "acme/web", 1, number)

    @delivered_or_lost
    def test_renamed_default_branch_is_watched_by_its_new_name(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        harness.freeze()
        work(harness)
        answer = harness.person("POST", "/repos/acme/web/branches/main/rename", {"new_name": "trunk"})
        assert answer.status_code == 201, answer.text
        choose_trunk(harness)
        require_on_trunk(harness)
        find_out(webhook_queue, delivered=delivered)
        assert watched(harness) == {"api:main", "web:main", "web:trunk"}
        assert harness.merge("acme/web", 1).status_code == 405
        assert disagreements(harness) == {}

    @delivered_or_lost
    def test_default_branch_that_was_watched_already_is_watched_once(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        cut(harness, "acme/web", "trunk")
        with harness.unit() as uow:
            branch_id = watches.watch_branch(uow, "acme/web", "trunk").id
        choose_trunk(harness)
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT id FROM watched_branches WHERE name = 'trunk'") == [(branch_id,)]
        assert factories.audit_actions(harness.session, harness.organization).count("branch.watched") == 1

    def test_unwatched_default_branch_stays_unwatched(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        cut(harness, "acme/web", "trunk")
        with harness.unit() as uow:
            branch_id = watches.watch_branch(uow, "acme/web", "trunk").id
        with harness.unit() as uow:
            watches.unwatch(uow, branch_id)
        choose_trunk(harness)
        find_out(webhook_queue, delivered=False)
        assert watched(harness) == {"api:main", "web:main"}

    def test_default_branch_of_a_disabled_repository_is_watched_when_enabled(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        with harness.unit() as uow:
            enablement.disable(uow, ["acme/web"])
        cut(harness, "acme/web", "trunk")
        choose_trunk(harness)
        find_out(webhook_queue, delivered=False)
        assert watched(harness) == {"api:main", "web:main"}
        with harness.unit() as uow:
            enablement.enable(uow, ["acme/web"])
        assert watched(harness) == {"api:main", "web:main", "web:trunk"}

    @delivered_or_lost
    def test_default_branch_beyond_the_plan_stays_unwatched(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        limit = FREE.limits["watched_branches"]
        assert limit is not None
        harness.sql("DELETE FROM plan_grants")
        row = harness.branches["acme/web"].repository_id
        for number in range(limit - 2):
            harness.sql(
                "INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at) "
                "SELECT 'wbr_' || :number, organization_id, id, 'old-' || :number, 'x', created_at "
                "FROM repositories WHERE id = :row",
                number=str(number),
                row=row,
            )
        freeze = harness.freeze({"type": "organization", "branches": ["main"]})
        work(harness)
        cut(harness, "acme/web", "trunk")
        choose_trunk(harness)
        require_on_trunk(harness)
        find_out(webhook_queue, delivered=delivered)
        assert "web:trunk" not in watched(harness)
        assert harness.sql("SELECT default_branch FROM repositories WHERE name = 'web'") == [("trunk",)]
        assert targets(harness, freeze) == {"api:main", "web:main"}
        assert harness.merge("acme/web", 1).status_code == 405


def hand_to(harness: Harness, owner: str, name: str = "web") -> None:
    """Transfer the repository of that name from its present owner."""
    world = harness.fake_github.world
    [record] = [found for found in world.repositories.values() if found.name == name]
    harness.act(repositories.transfer, record, harness.fake_github.organization(owner).account)


class TestRepository:
    @delivered_or_lost
    def test_renamed_repository_stays_frozen_until_the_lift(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        freeze = harness.freeze({"type": "repositories", "repositories": ["acme/web"]})
        work(harness)
        assert harness.person("PATCH", "/repos/acme/web", {"name": "site"}).status_code == 200
        number = propose(harness, "acme/site", "main")
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT name FROM repositories ORDER BY name") == [("api",), ("site",)]
        assert_blocked_until_the_lift(harness, freeze, "acme/site", 1, number)

    @delivered_or_lost
    def test_transferred_repository_stays_frozen_until_the_lift(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        installed = harness.fake_github.organization("initech").installed()
        factories.installation(harness.session, harness.organization, "initech", id=installed.id)
        harness.session.commit()
        freeze = harness.freeze()
        work(harness)
        hand_to(harness, "initech")
        number = propose(harness, "initech/web", "main")
        find_out(webhook_queue, delivered=delivered)
        assert targets(harness, freeze) == {"api:main", "web:main"}
        assert harness.sql("SELECT owner, removed_at FROM repositories WHERE name = 'web'") == [("initech", None)]
        assert disagreements(harness) == {}
        assert_blocked_until_the_lift(harness, freeze, "initech/web", 1, number)

    @delivered_or_lost
    def test_repository_that_returns_after_the_lift_is_released(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        freeze = harness.freeze()
        work(harness)
        hand_to(harness, "strangers")
        find_out(webhook_queue, delivered=delivered)
        assert harness.sql("SELECT removed_at IS NOT NULL FROM repositories WHERE name = 'web'") == [(True,)]
        assert targets(harness, freeze) == {"api:main", "web:main"}
        assert harness.sql("SELECT ended_at FROM freezes") == [(None,)]
        assert harness.merge("strangers/web", 1).status_code == 405
        harness.lift(freeze)
        work(harness)
        hand_to(harness, "acme")
        find_out(webhook_queue, delivered=delivered)
        assert harness.merge("acme/web", 1).status_code == 200
        assert harness.sql("SELECT DISTINCT state FROM freeze_targets") == [("released",)]


class TestBranch:
    @delivered_or_lost
    def test_recreated_branch_is_still_frozen(
        self, harness: Harness, webhook_queue: WebhookQueue, delivered: bool
    ) -> None:
        cut(harness, "acme/web", "release/1")
        harness.fake_github.organization("acme").repository("web").requires("change-freeze/release/1", "release/1")
        with harness.unit() as uow:
            watches.watch_branch(uow, "acme/web", "release/1")
        former = propose(harness, "acme/web", "release/1")
        webhook_queue.run()
        freeze = harness.freeze()
        work(harness)
        before = targets(harness, freeze)
        assert harness.person("DELETE", "/repos/acme/web/git/refs/heads/release/1").status_code == 204
        find_out(webhook_queue, delivered=delivered)
        assert targets(harness, freeze) == before
        # The simulated rule has no exemption for creation: the new branch begins at the head that carries our check.
        harness.fake_github.organization("acme").repository("web").branch("release/1")
        number = propose(harness, "acme/web", "release/1")
        edit(harness, former, state="open")
        assert [harness.merge("acme/web", pull).status_code for pull in (former, number)] == [405, 405]
        find_out(webhook_queue, delivered=delivered)
        assert [harness.merge("acme/web", pull).status_code for pull in (former, number)] == [405, 405]
        assert disagreements(harness) == {}
        harness.lift(freeze)
        work(harness)
        assert [harness.merge("acme/web", pull).status_code for pull in (former, number)] == [200, 200]

    def test_branch_with_an_unreported_push_is_read_again(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        """Every head that moved in silence is judged by one full resync."""
        harness.freeze()
        work(harness)
        push_to_head(harness)
        assert harness.conclusions()["acme/web#1"] is None
        assert harness.merge("acme/web", 1).status_code == 405
        find_out(webhook_queue, delivered=False)
        assert harness.conclusions()["acme/web#1"] == "failure"
