"""Branches that appear without a webhook: the pattern's rule blocks them, and the full resync watches them."""

from typing import Any

import pytest

from rules.rulesets.rulesets import desired_ruleset
from services.repositories import enablement
from tests.factories import audit_actions
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import cut, edit, propose, push
from tests.harness.webhook_queue import WebhookQueue, disagreements, full_resync, work
from tests.jobs.conftest import EnterScene

PATTERN = "release/*"
CHECK = f"change-freeze/{PATTERN}"


def watch_releases(harness: Harness, build: Builder, *, proposed: bool = False) -> None:
    """Have two repositories watch `release/*`, with rules; with a pull request into `release/8` if it is `proposed`."""
    build("api", "web", pulls=1)
    for name in ("api", "web"):
        builder = harness.fake_github.organization("acme").repository(name).branch("release/8")
        builder.ruleset(**desired_ruleset(CHECK, harness.fake_github.app_id))
        builder.ruleset(**desired_ruleset("change-freeze/release/8", harness.fake_github.app_id))
        if proposed:
            builder.pull_request(base="release/8")
        with harness.unit() as uow:
            enablement.update(uow, f"acme/{name}", {"autoWatch": [PATTERN]})
    full_resync(harness)
    harness.sql("UPDATE branch_enforcement SET own_rule = true")


@pytest.fixture
def webhook_queue(harness: Harness, build: Builder, enter_scene: EnterScene) -> WebhookQueue:
    """Return the silent webhook queue of a harness whose two repositories watch `release/*` and have rules."""
    enter_scene(lambda: watch_releases(harness, build))
    return WebhookQueue(harness)


def targets(harness: Harness, freeze_id: str) -> set[str]:
    query = (
        "SELECT r.name || ':' || b.name FROM freeze_targets t JOIN watched_branches b ON b.id = t.branch_id "
        "JOIN repositories r ON r.id = b.repository_id WHERE t.freeze_id = :id"
    )
    return {row[0] for row in harness.sql(query, id=freeze_id)}


class TestBranchCreatedDuringAFreeze:
    def test_new_branch_blocks_merges_without_its_webhook(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        harness.freeze()
        work(harness)
        cut(harness, "acme/web", "release/9")
        number = propose(harness, "acme/web", "release/9")
        refused = harness.merge("acme/web", number)
        assert refused.status_code == 405
        assert f'"{CHECK}" is expected' in refused.json()["message"]
        webhook_queue.take()

    def test_new_branch_blocks_direct_pushes(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        harness.freeze()
        cut(harness, "acme/web", "release/9")
        assert push(harness, "acme/web", "release/9").status_code == 409
        webhook_queue.take()

    @pytest.mark.parametrize("scope", [{"type": "organization"}, {"type": "glob", "patterns": ["acme/w*"]}], ids=str)
    def test_new_branch_joins_an_open_ended_freeze_at_the_next_full_resync(
        self, harness: Harness, webhook_queue: WebhookQueue, scope: dict[str, Any]
    ) -> None:
        freeze = harness.freeze(scope)
        work(harness)
        before = targets(harness, freeze)
        cut(harness, "acme/web", "release/9")
        number = propose(harness, "acme/web", "release/9")
        webhook_queue.take()
        full_resync(harness)
        assert targets(harness, freeze) == before | {"web:release/9"}
        assert audit_actions(harness.session, harness.organization)[-2:] == ["freeze.grew", "branch.watched"]
        refused = harness.merge("acme/web", number)
        assert refused.status_code == 405
        assert f'"{CHECK}" is failing' in refused.json()["message"]
        harness.lift(freeze)
        work(harness)
        assert disagreements(harness) == {}
        assert harness.merge("acme/web", number).status_code == 200

    @pytest.mark.parametrize("names", [["acme/web"], ["acme/api"]], ids=str)
    def test_new_branch_does_not_join_a_freeze_of_listed_repositories(
        self, harness: Harness, webhook_queue: WebhookQueue, names: list[str]
    ) -> None:
        freeze = harness.freeze({"type": "repositories", "repositories": names})
        work(harness)
        before = targets(harness, freeze)
        cut(harness, "acme/web", "release/9")
        number = propose(harness, "acme/web", "release/9")
        assert harness.merge("acme/web", number).status_code == 405
        webhook_queue.take()
        full_resync(harness)
        assert targets(harness, freeze) == before
        assert harness.merge("acme/web", number).status_code == 200

    def test_new_branch_stays_blocked_when_github_is_unavailable(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        freeze = harness.freeze()
        work(harness)
        cut(harness, "acme/web", "release/9")
        number = propose(harness, "acme/web", "release/9")
        webhook_queue.take()
        harness.fake_github.faults.add("error", "graphql", status=502)
        full_resync(harness)
        assert harness.merge("acme/web", number).status_code == 405
        harness.fake_github.faults.clear()
        WebhookQueue(harness, webhook_queue.taken)
        full_resync(harness)
        assert "web:release/9" in targets(harness, freeze)
        assert harness.merge("acme/web", number).status_code == 405

    def test_new_branch_blocks_a_head_with_success_for_another_branch(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        """A `success` for `main` says nothing about a release: its check has another name."""
        harness.freeze({"type": "organization", "branches": [PATTERN]})
        work(harness)
        assert harness.conclusions()["acme/web#1"] == "success"
        cut(harness, "acme/web", "release/9")
        edit(harness, 1, base="release/9")
        assert harness.merge("acme/web", 1).status_code == 405
        webhook_queue.take()
        full_resync(harness)
        assert harness.merge("acme/web", 1).status_code == 405


class TestBranchCreatedBefore:
    def test_unreported_branch_is_frozen_by_the_full_resync(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        cut(harness, "acme/web", "release/9")
        number = propose(harness, "acme/web", "release/9")
        webhook_queue.take()
        freeze = harness.freeze()
        work(harness)
        assert harness.merge("acme/web", number).status_code == 405
        full_resync(harness)
        assert "web:release/9" in targets(harness, freeze)
        assert harness.merge("acme/web", number).status_code == 405

    def test_unreported_branch_gets_success_from_the_full_resync(
        self, harness: Harness, webhook_queue: WebhookQueue
    ) -> None:
        cut(harness, "acme/web", "release/9")
        number = propose(harness, "acme/web", "release/9")
        webhook_queue.take()
        full_resync(harness)
        assert harness.merge("acme/web", number).status_code == 200

    def test_branch_renamed_during_a_freeze_stays_blocked(self, harness: Harness, webhook_queue: WebhookQueue) -> None:
        """The pull requests follow the branch; their heads keep the pattern's check."""
        number = propose(harness, "acme/web", "release/8")
        webhook_queue.run()
        freeze = harness.freeze()
        work(harness)
        answer = harness.person("POST", "/repos/acme/web/branches/release%2F8/rename", {"new_name": "release/9"})
        assert answer.status_code == 201, answer.text
        assert harness.merge("acme/web", number).status_code == 405
        webhook_queue.take()
        full_resync(harness)
        assert harness.merge("acme/web", number).status_code == 405
        harness.lift(freeze)
        work(harness)
        assert harness.merge("acme/web", number).status_code == 200
