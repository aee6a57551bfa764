"""What people change by hand at the code host is noticed and put right within one full pass, heard of or not."""

from collections.abc import Callable
from typing import Any

import pytest

from rules.access.entitlements import plan_named
from services.core.unit_of_work import Caller
from services.repositories import enabling, watching
from tests import factories
from tests.faults.test_new_branches import cut, propose, push, targets
from tests.harness.webhook_queue import Post, disagreements, look_everywhere, work
from tests.jobs.conftest import ADA, Builder, Town
from tools.fake_github.model import checks, repositories
from tools.fake_github.model.installations import register_app
from tools.fake_github.model.records import CheckRun, PullRequest, Repository
from tools.fake_github.model.world import Actor

CHECK = "change-freeze/main"
heard_or_not = pytest.mark.parametrize("heard", [True, False], ids=["heard of", "found by the full pass"])


@pytest.fixture
def post(town: Town, build: Builder) -> Post:
    """Return the silent post of a town with two repositories of one green pull request each."""
    build("api", "web", pulls=1)
    work(town)
    return Post(town)


def find_out(post: Post, *, heard: bool) -> None:
    """Have the service notice: by the webhooks that were written, or by one full pass after they were lost."""
    if heard:
        post.run()
    else:
        post.take()
        look_everywhere(post.town)


def record_of(town: Town, name: str = "web") -> Repository:
    return town.host.organization("acme").repository(name).record


def unit_of(town: Town) -> Any:
    return town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business"))


def run_on(town: Town, pull: PullRequest) -> CheckRun:
    found = town.host.world.newest_run(pull.repository_id, pull.head_sha, CHECK, town.host.app_id)
    assert found is not None
    return found


def write(town: Town, pull: PullRequest, app_id: int, **fields: Any) -> None:
    """Write a run of our check's name as an App."""
    world = town.host.world
    wanted = {"name": CHECK, "head_sha": pull.head_sha, **fields}
    with world.lock:
        checks.create_check_run(world, Actor(town.host.maintainer), app_id, record_of(town), wanted)


def another_success(town: Town, pull: PullRequest) -> None:
    write(town, pull, town.host.app_id, conclusion="success")


def a_run_that_is_skipped(town: Town, pull: PullRequest) -> None:
    write(town, pull, town.host.app_id, conclusion="skipped")


def a_run_that_never_ends(town: Town, pull: PullRequest) -> None:
    write(town, pull, town.host.app_id, status="in_progress")


def an_edited_run(town: Town, pull: PullRequest) -> None:
    """GitHub refuses this; whoever could do it would do it in silence."""
    run_on(town, pull).conclusion = "success"


def a_deleted_run(town: Town, pull: PullRequest) -> None:
    world, run = town.host.world, run_on(town, pull)
    world.runs.pop(run.id)
    world.runs_in[run.suite_id].remove(run)
    world.newest.pop((run.repository_id, run.head_sha, run.app_id, run.name))


EDITS = [another_success, a_run_that_is_skipped, a_run_that_never_ends, an_edited_run, a_deleted_run]


class TestForgedCheck:
    @pytest.mark.parametrize("edit", EDITS, ids=lambda edit: str(edit.__name__))
    def test_forged_success_in_a_freeze_is_corrected_by_one_full_resync(
        self, town: Town, post: Post, edit: Callable[[Town, PullRequest], None]
    ) -> None:
        pull = record_of(town).pulls[1]
        town.freeze()
        work(town)
        edit(town, pull)
        find_out(post, heard=False)
        assert (run_on(town, pull).status, run_on(town, pull).conclusion) == ("completed", "failure")
        assert town.merge("acme/web", 1).status_code == 405

    @pytest.mark.parametrize("edit", [another_success, a_run_that_is_skipped, a_run_that_never_ends])
    def test_forged_success_in_a_freeze_is_corrected_by_its_webhook(
        self, town: Town, post: Post, edit: Callable[[Town, PullRequest], None]
    ) -> None:
        pull = record_of(town).pulls[1]
        town.freeze()
        work(town)
        edit(town, pull)
        find_out(post, heard=True)
        assert run_on(town, pull).conclusion == "failure"
        assert town.merge("acme/web", 1).status_code == 405

    @pytest.mark.parametrize("edit", [a_run_that_never_ends, a_deleted_run])
    def test_forged_failure_is_corrected_by_one_full_resync(
        self, town: Town, post: Post, edit: Callable[[Town, PullRequest], None]
    ) -> None:
        edit(town, record_of(town).pulls[1])
        assert town.merge("acme/web", 1).status_code == 405
        find_out(post, heard=False)
        assert town.merge("acme/web", 1).status_code == 200

    def test_success_of_another_app_does_not_allow_a_merge(self, town: Town, post: Post) -> None:
        """The rule takes the check from our App alone, and so do we when we read it back."""
        pull = record_of(town).pulls[1]
        with town.host.world.lock:
            other = register_app(town.host.world, 77, "another-app", None)
        town.freeze()
        work(town)
        write(town, pull, other.id, conclusion="success")
        assert town.merge("acme/web", 1).status_code == 405
        town.host.calls.reset()
        find_out(post, heard=False)
        assert town.host.calls.writes == []
        assert town.merge("acme/web", 1).status_code == 405


def choose_trunk(town: Town) -> None:
    """Make another branch the default one."""
    assert town.person("PATCH", "/repos/acme/web", {"default_branch": "trunk"}).status_code == 200


def require_on_trunk(town: Town) -> None:
    town.host.organization("acme").repository("web").requires("change-freeze/trunk", "trunk")


def watched(town: Town) -> set[str]:
    query = (
        "SELECT r.name || ':' || b.name FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
        "WHERE b.unwatched_at IS NULL"
    )
    return {row[0] for row in town.sql(query)}


class TestDefaultBranch:
    @heard_or_not
    def test_new_default_branch_is_watched_and_joins_the_freeze(self, town: Town, post: Post, heard: bool) -> None:
        freeze = town.freeze()
        work(town)
        cut(town, "acme/web", "trunk")
        choose_trunk(town)
        require_on_trunk(town)
        number = propose(town, "acme/web", "trunk")
        find_out(post, heard=heard)
        assert watched(town) == {"api:main", "web:main", "web:trunk"}
        assert targets(town, freeze) == {"api:main", "web:main", "web:trunk"}
        actions = factories.audit_actions(town.session, town.organization)
        assert (actions.count("branch.watched"), actions.count("freeze.grew")) == (1, 1)
        assert [town.merge("acme/web", pull).status_code for pull in (1, number)] == [405, 405]
        town.lift(freeze)
        work(town)
        assert disagreements(town) == {}
        assert [town.merge("acme/web", pull).status_code for pull in (1, number)] == [200, 200]

    @heard_or_not
    def test_renamed_default_branch_is_watched_by_its_new_name(self, town: Town, post: Post, heard: bool) -> None:
        town.freeze()
        work(town)
        answer = town.person("POST", "/repos/acme/web/branches/main/rename", {"new_name": "trunk"})
        assert answer.status_code == 201, answer.text
        choose_trunk(town)
        require_on_trunk(town)
        find_out(post, heard=heard)
        assert watched(town) == {"api:main", "web:main", "web:trunk"}
        assert town.merge("acme/web", 1).status_code == 405
        assert disagreements(town) == {}

    @heard_or_not
    def test_default_branch_that_was_watched_already_is_watched_once(self, town: Town, post: Post, heard: bool) -> None:
        cut(town, "acme/web", "trunk")
        with unit_of(town) as uow:
            branch_id = watching.watch_branch(uow, "acme/web", "trunk").id
        choose_trunk(town)
        find_out(post, heard=heard)
        assert town.sql("SELECT id FROM watched_branches WHERE name = 'trunk'") == [(branch_id,)]
        assert factories.audit_actions(town.session, town.organization).count("branch.watched") == 1

    def test_unwatched_default_branch_stays_unwatched(self, town: Town, post: Post) -> None:
        cut(town, "acme/web", "trunk")
        with unit_of(town) as uow:
            branch_id = watching.watch_branch(uow, "acme/web", "trunk").id
        with unit_of(town) as uow:
            watching.unwatch(uow, branch_id)
        choose_trunk(town)
        find_out(post, heard=False)
        assert watched(town) == {"api:main", "web:main"}

    def test_default_branch_of_a_disabled_repository_is_watched_when_enabled(self, town: Town, post: Post) -> None:
        with unit_of(town) as uow:
            enabling.disable(uow, ["acme/web"])
        cut(town, "acme/web", "trunk")
        choose_trunk(town)
        find_out(post, heard=False)
        assert watched(town) == {"api:main", "web:main"}
        with unit_of(town) as uow:
            enabling.enable(uow, ["acme/web"])
        assert watched(town) == {"api:main", "web:main", "web:trunk"}

    @heard_or_not
    def test_default_branch_beyond_the_plan_stays_unwatched(self, town: Town, post: Post, heard: bool) -> None:
        limit = plan_named("free").watched_branches
        assert limit is not None
        town.sql("UPDATE organizations SET plan = 'free'")
        row = town.branches["acme/web"].repository_id
        for number in range(limit - 2):
            town.sql(
                "INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at) "
                "SELECT 'wbr_' || :number, organization_id, id, 'old-' || :number, 'x', created_at "
                "FROM repositories WHERE id = :row",
                number=str(number),
                row=row,
            )
        freeze = town.freeze({"type": "organization", "branches": ["main"]})
        work(town)
        cut(town, "acme/web", "trunk")
        choose_trunk(town)
        require_on_trunk(town)
        find_out(post, heard=heard)
        assert "web:trunk" not in watched(town)
        assert town.sql("SELECT default_branch FROM repositories WHERE name = 'web'") == [("trunk",)]
        assert targets(town, freeze) == {"api:main", "web:main"}
        assert town.merge("acme/web", 1).status_code == 405


def hand_to(town: Town, owner: str, name: str = "web") -> None:
    """Transfer the repository of that name, whoever has it."""
    world = town.host.world
    [record] = [found for found in world.repositories.values() if found.name == name]
    with world.lock:
        repositories.transfer(world, Actor(town.host.maintainer), record, town.host.organization(owner).account)


class TestRepository:
    @heard_or_not
    def test_renamed_repository_stays_frozen_until_the_lift(self, town: Town, post: Post, heard: bool) -> None:
        freeze = town.freeze({"type": "repositories", "repositories": ["acme/web"]})
        work(town)
        assert town.person("PATCH", "/repos/acme/web", {"name": "site"}).status_code == 200
        number = propose(town, "acme/site", "main")
        find_out(post, heard=heard)
        assert town.sql("SELECT name FROM repositories ORDER BY name") == [("api",), ("site",)]
        assert [town.merge("acme/site", pull).status_code for pull in (1, number)] == [405, 405]
        town.lift(freeze)
        work(town)
        assert [town.merge("acme/site", pull).status_code for pull in (1, number)] == [200, 200]

    @heard_or_not
    def test_transferred_repository_stays_frozen_until_the_lift(self, town: Town, post: Post, heard: bool) -> None:
        installed = town.host.organization("initech").installed()
        factories.installation(town.session, town.organization, "initech", id=installed.id)
        town.session.commit()
        freeze = town.freeze()
        work(town)
        hand_to(town, "initech")
        number = propose(town, "initech/web", "main")
        find_out(post, heard=heard)
        assert targets(town, freeze) == {"api:main", "web:main"}
        assert town.sql("SELECT owner, removed_at FROM repositories WHERE name = 'web'") == [("initech", None)]
        assert disagreements(town) == {}
        assert [town.merge("initech/web", pull).status_code for pull in (1, number)] == [405, 405]
        town.lift(freeze)
        work(town)
        assert [town.merge("initech/web", pull).status_code for pull in (1, number)] == [200, 200]

    @heard_or_not
    def test_repository_that_returns_after_the_lift_is_released(self, town: Town, post: Post, heard: bool) -> None:
        freeze = town.freeze()
        work(town)
        hand_to(town, "strangers")
        find_out(post, heard=heard)
        assert town.sql("SELECT removed_at IS NOT NULL FROM repositories WHERE name = 'web'") == [(True,)]
        assert town.merge("strangers/web", 1).status_code == 405
        town.lift(freeze)
        work(town)
        hand_to(town, "acme")
        find_out(post, heard=heard)
        assert town.merge("acme/web", 1).status_code == 200


class TestBranch:
    @heard_or_not
    def test_recreated_branch_is_still_frozen(self, town: Town, post: Post, heard: bool) -> None:
        cut(town, "acme/web", "release/1")
        town.host.organization("acme").repository("web").requires("change-freeze/release/1", "release/1")
        with unit_of(town) as uow:
            watching.watch_branch(uow, "acme/web", "release/1")
        former = propose(town, "acme/web", "release/1")
        post.run()
        freeze = town.freeze()
        work(town)
        before = targets(town, freeze)
        assert town.person("DELETE", "/repos/acme/web/git/refs/heads/release/1").status_code == 204
        find_out(post, heard=heard)
        assert targets(town, freeze) == before
        # The simulated rule has no exemption for creation: the new branch begins at the head that carries our check.
        town.host.organization("acme").repository("web").branch("release/1")
        number = propose(town, "acme/web", "release/1")
        assert town.person("PATCH", f"/repos/acme/web/pulls/{former}", {"state": "open"}).status_code == 200
        assert [town.merge("acme/web", pull).status_code for pull in (former, number)] == [405, 405]
        find_out(post, heard=heard)
        assert [town.merge("acme/web", pull).status_code for pull in (former, number)] == [405, 405]
        assert disagreements(town) == {}
        town.lift(freeze)
        work(town)
        assert [town.merge("acme/web", pull).status_code for pull in (former, number)] == [200, 200]

    def test_branch_with_an_unreported_push_is_read_again(self, town: Town, post: Post) -> None:
        """Every head that moved in silence is judged by one full pass."""
        town.freeze()
        work(town)
        assert push(town, "acme/web", record_of(town).pulls[1].head_ref).status_code == 201
        assert town.conclusions()["acme/web#1"] is None
        assert town.merge("acme/web", 1).status_code == 405
        find_out(post, heard=False)
        assert town.conclusions()["acme/web#1"] == "failure"
