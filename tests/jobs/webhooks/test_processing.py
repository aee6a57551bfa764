"""What each webhook makes of what we know, and what becomes of webhooks that cannot be read."""

import pytest

from rules.access.permissions import CODE_HOST
from services.core.unit_of_work import Caller
from services.webhooks.deliveries import MAX_ATTEMPTS
from tests import factories
from tests.harness.webhook_queue import Post, disagreements, work
from tests.jobs.conftest import Town
from tests.jobs.webhooks.github_actions import change, cut, head_of, propose, push
from tools.fake_github.model import installations, repositories
from tools.fake_github.model.records import Installation
from tools.fake_github.model.world import Actor


class TestPullRequests:
    def test_pushed_head_gets_its_success(self, town: Town, post: Post) -> None:
        push(town, "acme/web", head_of(town, "acme/web", 1))
        assert town.conclusions()["acme/web#1"] is None
        post.run()
        assert town.conclusions()["acme/web#1"] == "success"

    def test_new_pull_request_is_evaluated_at_once(self, town: Town, post: Post) -> None:
        green = propose(town, "acme/web")
        post.run()
        town.freeze()
        red = propose(town, "acme/web")
        post.run()
        shown = town.conclusions()
        assert (shown[f"acme/web#{green}"], shown[f"acme/web#{red}"]) == ("failure", "failure")
        assert town.merge("acme/web", red).status_code == 405

    @pytest.mark.parametrize(("frozen", "expected"), [("main", "success"), ("release/9", "failure")])
    def test_retargeted_pull_request_gets_the_verdict_of_its_new_base(
        self, town: Town, post: Post, frozen: str, expected: str
    ) -> None:
        cut(town, "acme/web", "release/9")
        post.run()
        town.freeze({"type": "branch", "repository": "acme/web", "branch": frozen})
        work(town)
        change(town, "acme/web", 1, base="release/9")
        post.run()
        record = town.host.organization("acme").repository("web").record
        run = town.host.world.newest_run(
            record.id, record.pulls[1].head_sha, "change-freeze/release/*", town.host.app_id
        )
        assert run is not None
        assert run.conclusion == expected
        assert disagreements(town) == {}

    def test_rerequested_check_is_written_again(self, town: Town, post: Post) -> None:
        record = town.host.organization("acme").repository("web").record
        run = town.host.world.newest_run(record.id, record.pulls[1].head_sha, "change-freeze/main", town.host.app_id)
        assert run is not None
        town.host.world.runs[run.id].conclusion = "failure"  # edited by hand, and nobody heard of it
        assert town.person("POST", f"/repos/acme/web/check-runs/{run.id}/rerequest").status_code == 201
        post.run()
        assert town.conclusions()["acme/web#1"] == "success"


class TestRepositories:
    def test_new_branch_matching_globs_is_watched_and_joins_running_freezes(self, town: Town, post: Post) -> None:
        town.freeze()
        cut(town, "acme/web", "release/9")
        cut(town, "acme/web", "feature")
        number = propose(town, "acme/web", "release/9")
        post.run()
        names = [row[0] for row in town.sql("SELECT name FROM watched_branches ORDER BY name")]
        assert names == ["main", "main", "release/9"]
        assert town.conclusions()[f"acme/web#{number}"] == "failure"

    def test_renamed_repository_keeps_its_freeze(self, town: Town, post: Post) -> None:
        town.freeze({"type": "repositories", "repositories": ["acme/web"]})
        work(town)
        town.person("PATCH", "/repos/acme/web", {"name": "site"})
        post.run()
        push(town, "acme/site", head_of(town, "acme/site", 1))
        post.run()
        assert town.sql("SELECT name FROM repositories ORDER BY name") == [("api",), ("site",)]
        assert town.conclusions()["acme/site#1"] == "failure"

    def test_renamed_repository_that_begins_to_match_joins_the_freeze(self, town: Town, post: Post) -> None:
        freeze = town.freeze({"type": "glob", "patterns": ["acme/api", "acme/site"]})
        town.person("PATCH", "/repos/acme/web", {"name": "site"})
        post.run()
        assert town.sql("SELECT count(*) FROM freeze_targets WHERE freeze_id = :id", id=freeze) == [(2,)]
        assert set(town.conclusions().values()) == {"failure"}


def installation(town: Town) -> Installation:
    [found] = town.host.world.installations.values()
    return found


def maintainer(town: Town) -> Actor:
    return Actor(town.host.maintainer)


class TestInstallations:
    def remove(self, town: Town) -> Installation:
        found = installation(town)
        with town.host.world.lock:
            installations.uninstall(town.host.world, maintainer(town), found)
        return found

    def test_removed_installation_ends_its_freezes_once(self, town: Town, post: Post) -> None:
        town.freeze()
        town.freeze({"type": "repositories", "repositories": ["acme/web"]})
        work(town)
        self.remove(town)
        deliveries = post.take()
        for _ in range(2):
            post.hand_over(deliveries)
            work(town)
        assert town.sql("SELECT state FROM installations") == [("removed",)]
        assert town.sql("SELECT DISTINCT end_reason, ended_by ->> 'type' FROM freezes") == [
            ("installation_removed", "code_host")
        ]
        actions = [row[0] for row in town.sql("SELECT action FROM audit_entries WHERE action <> 'freeze.started'")]
        assert sorted(actions) == ["freeze.ended", "freeze.ended", "installation.removed"]
        assert set(town.conclusions().values()) == {"failure"}  # what is written stays

    def test_removed_installation_is_detected_by_the_next_write(self, town: Town, post: Post) -> None:
        self.remove(town)
        town.freeze()
        work(town)
        assert town.sql("SELECT state FROM installations") == [("removed",)]
        assert town.sql("SELECT end_reason FROM freezes") == [("installation_removed",)]

    @pytest.mark.parametrize("heard", [True, False])
    def test_outdated_deletion_of_an_installation_ends_nothing(self, town: Town, post: Post, heard: bool) -> None:
        """A deletion that was heard of late, or that never was: the code host is asked, not the payload."""
        town.freeze()
        work(town)
        found = self.remove(town)
        told_of = post.take() if heard else []
        with town.host.world.lock:
            installations.install(
                town.host.world,
                maintainer(town),
                town.host.app,
                town.host.world.logins["acme"],
                installation_id=found.id,
            )
        post.hand_over(told_of)
        post.run()
        assert town.sql("SELECT state FROM installations") == [("active",)]
        assert town.sql("SELECT end_reason FROM freezes") == [(None,)]

    @pytest.mark.parametrize("same_number", [True, False])
    def test_reinstalled_installation_works_again(self, town: Town, post: Post, same_number: bool) -> None:
        town.freeze()
        work(town)
        found = self.remove(town)
        post.run()
        with town.host.world.lock:
            new = installations.install(
                town.host.world,
                maintainer(town),
                town.host.app,
                town.host.world.logins["acme"],
                installation_id=found.id if same_number else None,
            )
        if not same_number:  # the organisation claims it
            factories.installation(town.session, town.organization, "acme", id=new.id)
            town.session.commit()
        post.run()
        work(town)
        assert set(town.conclusions().values()) == {"success"}
        town.freeze()
        work(town)
        assert set(town.conclusions().values()) == {"failure"}
        assert disagreements(town) == {}

    def test_resumed_installation_applies_the_pending_freeze(self, town: Town, post: Post) -> None:
        with town.host.world.lock:
            installations.suspend(town.host.world, maintainer(town), installation(town), suspended=True)
        post.run()
        assert town.sql("SELECT state FROM installations") == [("suspended",)]
        town.freeze()
        work(town)
        assert set(town.conclusions().values()) == {"success"}
        with town.host.world.lock:
            installations.suspend(town.host.world, maintainer(town), installation(town), suspended=False)
        post.run()
        assert set(town.conclusions().values()) == {"failure"}
        assert town.sql("SELECT end_reason FROM freezes") == [(None,)]

    def test_deselected_repository_is_hidden_until_selected_again(self, town: Town, post: Post) -> None:
        freeze = town.freeze()
        work(town)
        record = town.host.organization("acme").repository("web").record
        for chosen, hidden in (([], True), ([record], False)):
            api = town.host.organization("acme").repository("api").record
            with town.host.world.lock:
                installations.choose_repositories(town.host.world, maintainer(town), installation(town), [api, *chosen])
            post.run()
            work(town)
            assert town.sql("SELECT removed_at IS NOT NULL FROM repositories WHERE name = 'web'") == [(hidden,)]
        town.lift(freeze)
        post.run()
        work(town)
        assert set(town.conclusions().values()) == {"success"}


def make_deliveries_due(town: Town) -> None:
    town.sql("UPDATE webhook_deliveries SET due_at = received_at WHERE due_at IS NOT NULL")


class TestDeliveries:
    def test_failed_delivery_is_retried(self, town: Town, post: Post) -> None:
        town.person("PATCH", "/repos/acme/web", {"name": "site"})
        down = town.host.faults.add("error", status=500)
        post.hand_over(post.take())
        [[waiting]] = town.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL")
        town.host.faults.clear(down.id)
        town.hear()
        assert town.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(waiting,)]
        make_deliveries_due(town)
        town.hear()
        assert town.sql("SELECT name FROM repositories ORDER BY name") == [("api",), ("site",)]
        assert town.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]
        assert waiting > 0

    def test_delivery_is_abandoned_after_the_maximum_of_attempts(self, town: Town, post: Post) -> None:
        town.person("PATCH", "/repos/acme/web", {"name": "site"})
        town.host.faults.add("error", status=500)
        post.hand_over(post.take())
        for _ in range(MAX_ATTEMPTS):
            make_deliveries_due(town)
            town.hear()
        assert town.sql("SELECT max(attempts), count(due_at) FROM webhook_deliveries") == [(MAX_ATTEMPTS, 0)]

    def test_malformed_and_foreign_deliveries_are_processed_without_effect(self, town: Town, post: Post) -> None:
        before = town.sql("SELECT id, wanted_generation, due_at FROM watched_branches ORDER BY id")
        with town.uow_factory.open(Caller(None, CODE_HOST, "code_host")) as uow:
            for number, (event, payload) in enumerate(
                [
                    ("push", "{}"),
                    ("push", '{"ref": 7, "repository": []}'),
                    ("push", '{"ref": "refs/heads/main", "repository": {"id": 999999999}}'),
                    ("installation", '{"action": "deleted", "installation": {"id": 999999999}}'),
                    ("pull_request", '{"action": "opened", "repository": {"id": 999999999}, "pull_request": {}}'),
                    ("something_new", '{"action": "done"}'),
                    ("repository", '{"action": "deleted", "repository": {"id": 999999999}}'),
                ]
            ):
                uow.session.connection().exec_driver_sql(
                    "INSERT INTO webhook_deliveries (delivery_id, event, payload, received_at, due_at)"
                    " VALUES (%s, %s, %s, now(), now())",
                    (str(number), event, payload),
                )
        town.hear()
        assert town.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]
        assert town.sql("SELECT id, wanted_generation, due_at FROM watched_branches ORDER BY id") == before

    def test_deleted_repository_is_hidden_and_its_freeze_can_be_lifted(self, town: Town, post: Post) -> None:
        freeze = town.freeze()
        work(town)
        with town.host.world.lock:
            repositories.delete(
                town.host.world, maintainer(town), town.host.organization("acme").repository("web").record
            )
        post.run()
        work(town)
        assert town.sql("SELECT removed_at IS NOT NULL FROM repositories ORDER BY name") == [(False,), (True,)]
        town.lift(freeze)
        work(town)
        assert town.conclusions() == {"acme/api#1": "success", "acme/api#2": "success"}
