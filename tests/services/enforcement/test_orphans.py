"""A repository that the installation does not cover any more: no rule of ours blocks it unnoticed."""

from datetime import timedelta
from typing import Any

import pytest

from rules.access.permissions import CODE_HOST
from services.core.unit_of_work import GITHUB_CALLER, Caller
from services.enforcement.orphans import MIN_REMOVED_FOR, report_orphans
from services.installations.sync_requests import request_comparison
from services.repository_sync import sync as repository_sync
from tests.harness.github_harness import Harness
from tests.jobs.conftest import fake_github, harness
from tests.jobs.frozen_branches import requests as frozen_branches
from tests.jobs.probes.requests import look
from tests.jobs.setup.requests import ORGANIZATION, add, ask, names, permit, work
from tools.fake_github.model import repositories as at_host

__all__ = ["fake_github", "harness"]

OWN = {"type": "repositories", "repositories": ["acme/web", "acme/api"]}
ALERT = [("orphaned_requirement", "acme/web", "https://github.com/acme/web/settings/rules")]
ORGANIZATION_ALERT = [("orphaned_requirement", "acme/web", "https://github.com/organizations/acme/settings/rules")]


def enforced(harness: Harness, scope: dict[str, Any]) -> None:
    add(harness, "web", "api")
    ask(harness, scope=scope)
    work(harness)


def select(harness: Harness, *repositories: str) -> None:
    """Let the installation cover these repositories only, and compare."""
    installation = harness.installed
    numbers = [harness.fake_github.organization("acme").repository(name).record.id for name in repositories]
    installation.repository_selection, installation.repository_ids = "selected", numbers
    sync(harness)


def sync(harness: Harness) -> None:
    with harness.jobs.open(GITHUB_CALLER) as uow:
        request_comparison(uow, list(harness.fake_github.world.installations))
    assert repository_sync.sync_due(harness.jobs, harness.github)


def report(harness: Harness) -> None:
    caller = Caller(harness.organization.id, CODE_HOST, "code_host")
    report_orphans(harness.jobs, harness.github, caller, harness.installed.id)


def settle(harness: Harness) -> None:
    harness.pass_time(MIN_REMOVED_FOR + timedelta(seconds=1))
    sync(harness)


def attention(harness: Harness) -> list[tuple[str, str, str]]:
    rows = harness.sql(
        "SELECT type, subject ->> 'name', action ->> 'url' FROM attention_items WHERE cleared_at IS NULL ORDER BY since"
    )
    return [(row[0], row[1], row[2]) for row in rows]


def covered_above(harness: Harness) -> int:
    [ruleset] = harness.fake_github.world.rulesets.values()
    return len(ruleset.conditions["repository_id"]["repository_ids"])


class TestRepositoryRuleset:
    def test_orphaned_ruleset_has_an_alert_until_the_repository_is_covered(self, harness: Harness) -> None:
        enforced(harness, OWN)
        select(harness, "api")
        assert attention(harness) == ALERT
        sync(harness)
        settle(harness)
        assert attention(harness) == ALERT
        select(harness, "api", "web")
        assert attention(harness) == []
        assert names(harness.fake_github) == {"web": ["Change freeze: main"], "api": ["Change freeze: main"]}

    def test_alert_is_resolved_when_people_remove_the_orphaned_ruleset(self, harness: Harness) -> None:
        """A public repository is shown to us though it is not covered."""
        enforced(harness, OWN)
        harness.sql("UPDATE repositories SET removed_at = clock_timestamp() WHERE name = 'web'")
        report(harness)
        assert attention(harness) == ALERT
        [number] = [each.id for each in harness.fake_github.world.rulesets.values() if each.source_id == web(harness)]
        harness.person("DELETE", f"/repos/acme/web/rulesets/{number}").raise_for_status()
        report(harness)
        assert attention(harness) == []
        assert len(harness.sql("SELECT 1 FROM written_rulesets")) == 1

    def test_frozen_branches_that_stay_undeletable_have_an_alert(self, harness: Harness) -> None:
        enforced(harness, OWN)
        look(harness)
        harness.freeze()
        frozen_branches.settle(harness)
        harness.sql("UPDATE repositories SET removed_at = clock_timestamp() WHERE name = 'web'")
        for each in list(harness.fake_github.world.rulesets.values()):
            if each.source_id == web(harness) and each not in frozen_branches.ours(harness):
                harness.person("DELETE", f"/repos/acme/web/rulesets/{each.id}").raise_for_status()
        report(harness)
        assert attention(harness) == ALERT
        [(message,)] = harness.sql("SELECT message FROM attention_items WHERE cleared_at IS NULL")
        assert "keeps branches there from being deleted and created. Delete the ruleset" in message
        [ruleset] = [each for each in frozen_branches.ours(harness) if each.source_id == web(harness)]
        harness.person("DELETE", f"/repos/acme/web/rulesets/{ruleset.id}").raise_for_status()
        report(harness)
        assert attention(harness) == []

    def test_orphaned_ruleset_has_no_alert_when_the_repository_is_deleted(self, harness: Harness) -> None:
        enforced(harness, OWN)
        record = harness.record()
        harness.act(at_host.delete, record)
        sync(harness)
        assert attention(harness) == []

    def test_repository_without_a_ruleset_has_no_alert_when_uncovered(self, harness: Harness) -> None:
        add(harness, "web", "api")
        ask(harness, scope={"type": "repositories", "repositories": ["acme/api"]})
        work(harness)
        select(harness, "api")
        assert attention(harness) == []


class TestOrganizationRuleset:
    def test_organization_ruleset_drops_the_uncovered_repository_after_a_delay(self, harness: Harness) -> None:
        enforced(harness, ORGANIZATION)
        select(harness, "api")
        assert (attention(harness), covered_above(harness)) == (ORGANIZATION_ALERT, 2)
        settle(harness)
        assert (attention(harness), covered_above(harness)) == ([], 1)
        changes = harness.sql("SELECT action, source FROM audit_entries WHERE action LIKE 'ruleset.%' ORDER BY at")
        assert changes[-1] == ("ruleset.updated", "system")
        assert len(harness.sql("SELECT 1 FROM written_rulesets")) == 1

    def test_organization_ruleset_is_deleted_when_no_repository_is_left(self, harness: Harness) -> None:
        enforced(harness, ORGANIZATION)
        select(harness)
        settle(harness)
        assert (attention(harness), names(harness.fake_github)) == ([], {})
        assert harness.sql("SELECT 1 FROM written_rulesets") == []

    def test_organization_ruleset_keeps_the_repository_while_frozen(self, harness: Harness) -> None:
        enforced(harness, ORGANIZATION)
        freeze = harness.freeze()
        select(harness, "api")
        settle(harness)
        assert (attention(harness), covered_above(harness)) == (ORGANIZATION_ALERT, 2)
        harness.lift(freeze)
        sync(harness)
        assert (attention(harness), covered_above(harness)) == ([], 1)

    def test_organization_ruleset_is_kept_without_the_write_permission(self, harness: Harness) -> None:
        enforced(harness, ORGANIZATION)
        select(harness, "api")
        permit(harness, administration="write", organization_administration="read")
        settle(harness)
        assert (attention(harness), covered_above(harness)) == (ORGANIZATION_ALERT, 2)

    @pytest.mark.parametrize("hidden", ["permission", "fault"])
    def test_alert_stays_open_when_the_organization_ruleset_is_unreadable(self, harness: Harness, hidden: str) -> None:
        enforced(harness, ORGANIZATION)
        select(harness, "api")
        if hidden == "permission":
            permit(harness, administration="write")
        else:
            harness.fake_github.faults.add("error", "GET /orgs/acme/rulesets", status=502)
        settle(harness)
        assert (attention(harness), covered_above(harness)) == (ORGANIZATION_ALERT, 2)


def web(harness: Harness) -> int:
    return harness.record().id
