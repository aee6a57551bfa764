"""Branches that appear while nobody tells us: the pattern's rule blocks them, and the full pass takes them in."""

from typing import Any

import pytest
import requests

from rules.rulesets.rulesets import desired_ruleset
from services.core.unit_of_work import Caller
from services.repositories import enabling
from tests.factories import audit_actions
from tests.harness.webhook_queue import Post, disagreements, look_everywhere, work
from tests.jobs.conftest import ADA, Builder, Town

PATTERN = "release/*"
CHECK = f"change-freeze/{PATTERN}"


@pytest.fixture
def post(town: Town, build: Builder) -> Post:
    """Return the silent post of a town whose two repositories watch `release/*` and have its rule."""
    build("api", "web", pulls=1)
    for name in ("api", "web"):
        ruleset = desired_ruleset(CHECK, town.host.app_id)
        town.host.organization("acme").repository(name).ruleset(**ruleset).branch("release/8")
        with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
            enabling.update(uow, f"acme/{name}", {"autoWatch": [PATTERN]})
    look_everywhere(town)
    return Post(town)


def tip(town: Town, repository: str, branch: str) -> str:
    sha: str = town.person("GET", f"/repos/{repository}/branches/{branch}").json()["commit"]["sha"]
    return sha


def cut(town: Town, repository: str, branch: str, base: str = "main") -> None:
    """Create a branch as a person does."""
    body = {"ref": f"refs/heads/{branch}", "sha": tip(town, repository, base)}
    answer = town.person("POST", f"/repos/{repository}/git/refs", body)
    assert answer.status_code == 201, answer.text


def push(town: Town, repository: str, branch: str) -> requests.Response:
    """Push straight to a branch."""
    files = town.host.world.repository_named(repository).commits
    body = {"message": "More", "content": "bW9yZQ==", "branch": branch}
    return town.person("PUT", f"/repos/{repository}/contents/{len(files)}.txt", body)


def propose(town: Town, repository: str, base: str) -> int:
    """Open a pull request with a commit of its own; returns its number."""
    head = f"change-{len(town.host.world.repository_named(repository).branches)}"
    cut(town, repository, head, base)
    assert push(town, repository, head).status_code == 201
    answer = town.person("POST", f"/repos/{repository}/pulls", {"title": "More", "head": head, "base": base})
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["number"]
    return number


def targets(town: Town, freeze_id: str) -> set[str]:
    query = (
        "SELECT r.name || ':' || b.name FROM freeze_targets t JOIN watched_branches b ON b.id = t.branch_id "
        "JOIN repositories r ON r.id = b.repository_id WHERE t.freeze_id = :id"
    )
    return {row[0] for row in town.sql(query, id=freeze_id)}


class TestBranchCreatedDuringAFreeze:
    def test_new_branch_blocks_merges_without_its_webhook(self, town: Town, post: Post) -> None:
        town.freeze()
        work(town)
        cut(town, "acme/web", "release/9")
        number = propose(town, "acme/web", "release/9")
        refused = town.merge("acme/web", number)
        assert refused.status_code == 405
        assert f'"{CHECK}" is expected' in refused.json()["message"]
        post.take()

    def test_new_branch_blocks_direct_pushes(self, town: Town, post: Post) -> None:
        town.freeze()
        cut(town, "acme/web", "release/9")
        assert push(town, "acme/web", "release/9").status_code == 409
        post.take()

    @pytest.mark.parametrize("scope", [{"type": "organization"}, {"type": "glob", "patterns": ["acme/w*"]}], ids=str)
    def test_new_branch_joins_an_open_ended_freeze_at_the_next_full_resync(
        self, town: Town, post: Post, scope: dict[str, Any]
    ) -> None:
        freeze = town.freeze(scope)
        work(town)
        before = targets(town, freeze)
        cut(town, "acme/web", "release/9")
        number = propose(town, "acme/web", "release/9")
        post.take()
        look_everywhere(town)
        assert targets(town, freeze) == before | {"web:release/9"}
        assert audit_actions(town.session, town.organization)[-2:] == ["freeze.grew", "branch.watched"]
        refused = town.merge("acme/web", number)
        assert refused.status_code == 405
        assert f'"{CHECK}" is failing' in refused.json()["message"]
        town.lift(freeze)
        work(town)
        assert disagreements(town) == {}
        assert town.merge("acme/web", number).status_code == 200

    @pytest.mark.parametrize("names", [["acme/web"], ["acme/api"]], ids=str)
    def test_new_branch_does_not_join_a_freeze_of_listed_repositories(
        self, town: Town, post: Post, names: list[str]
    ) -> None:
        freeze = town.freeze({"type": "repositories", "repositories": names})
        work(town)
        before = targets(town, freeze)
        cut(town, "acme/web", "release/9")
        number = propose(town, "acme/web", "release/9")
        assert town.merge("acme/web", number).status_code == 405
        post.take()
        look_everywhere(town)
        assert targets(town, freeze) == before
        assert town.merge("acme/web", number).status_code == 200

    def test_new_branch_stays_blocked_when_github_is_unavailable(self, town: Town, post: Post) -> None:
        freeze = town.freeze()
        work(town)
        cut(town, "acme/web", "release/9")
        number = propose(town, "acme/web", "release/9")
        post.take()
        town.host.faults.add("error", "graphql", status=502)
        look_everywhere(town)
        assert town.merge("acme/web", number).status_code == 405
        town.host.faults.clear()
        Post(town, post.taken)
        look_everywhere(town)
        assert "web:release/9" in targets(town, freeze)
        assert town.merge("acme/web", number).status_code == 405

    def test_new_branch_blocks_a_head_with_success_for_another_branch(self, town: Town, post: Post) -> None:
        """A `success` for `main` says nothing about a release: its check has another name."""
        town.freeze({"type": "organization", "branches": [PATTERN]})
        work(town)
        assert town.conclusions()["acme/web#1"] == "success"
        cut(town, "acme/web", "release/9")
        assert town.person("PATCH", "/repos/acme/web/pulls/1", {"base": "release/9"}).status_code == 200
        assert town.merge("acme/web", 1).status_code == 405
        post.take()
        look_everywhere(town)
        assert town.merge("acme/web", 1).status_code == 405


class TestBranchCreatedBefore:
    def test_unreported_branch_is_frozen_by_the_full_resync(self, town: Town, post: Post) -> None:
        cut(town, "acme/web", "release/9")
        number = propose(town, "acme/web", "release/9")
        post.take()
        freeze = town.freeze()
        work(town)
        assert town.merge("acme/web", number).status_code == 405
        look_everywhere(town)
        assert "web:release/9" in targets(town, freeze)
        assert town.merge("acme/web", number).status_code == 405

    def test_unreported_branch_gets_success_from_the_full_resync(self, town: Town, post: Post) -> None:
        cut(town, "acme/web", "release/9")
        number = propose(town, "acme/web", "release/9")
        post.take()
        look_everywhere(town)
        assert town.merge("acme/web", number).status_code == 200

    def test_branch_renamed_during_a_freeze_stays_blocked(self, town: Town, post: Post) -> None:
        """The pull requests follow the branch; their heads keep the pattern's check."""
        number = propose(town, "acme/web", "release/8")
        post.run()
        freeze = town.freeze()
        work(town)
        answer = town.person("POST", "/repos/acme/web/branches/release%2F8/rename", {"new_name": "release/9"})
        assert answer.status_code == 201, answer.text
        assert town.merge("acme/web", number).status_code == 405
        post.take()
        look_everywhere(town)
        assert town.merge("acme/web", number).status_code == 405
        town.lift(freeze)
        work(town)
        assert town.merge("acme/web", number).status_code == 200
