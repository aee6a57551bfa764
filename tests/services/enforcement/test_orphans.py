"""A repository that the installation does not cover any more: no rule of ours blocks it unnoticed."""

from datetime import timedelta
from typing import Any, cast

import pytest

from rules.access.permissions import CODE_HOST
from services.core.unit_of_work import GITHUB_CALLER, Caller
from services.enforcement.orphans import MIN_REMOVED_FOR, report_orphans
from services.installations.sync_requests import request_comparison
from services.repository_sync import sync as repository_sync
from tests.jobs.conftest import Town, fake_github, private_key, town
from tests.jobs.setup.requests import ORGANIZATION, add, ask, names, permit, work
from tests.services.conftest import MovedClock
from tools.fake_github.model import repositories as at_host
from tools.fake_github.model.world import Actor

__all__ = ["fake_github", "private_key", "town"]

OWN = {"type": "repositories", "repositories": ["acme/web", "acme/api"]}
ALERT = [("orphaned_requirement", "acme/web", "https://github.com/acme/web/settings/rules")]
ORGANIZATION_ALERT = [("orphaned_requirement", "acme/web", "https://github.com/organizations/acme/settings/rules")]


def enforced(town: Town, scope: dict[str, Any]) -> None:
    add(town, "web", "api")
    ask(town, scope=scope)
    work(town)


def select(town: Town, *repositories: str) -> None:
    """Let the installation cover these repositories only, and compare."""
    [installation] = town.host.world.installations.values()
    numbers = [town.host.organization("acme").repository(name).record.id for name in repositories]
    installation.repository_selection, installation.repository_ids = "selected", numbers
    sync(town)


def sync(town: Town) -> None:
    with town.jobs.open(GITHUB_CALLER) as uow:
        request_comparison(uow, list(town.host.world.installations))
    assert repository_sync.sync_due(town.jobs, town.github)


def report(town: Town) -> None:
    caller = Caller(town.organization.id, CODE_HOST, "code_host")
    report_orphans(town.jobs, town.github, caller, next(iter(town.host.world.installations)))


def settle(town: Town) -> None:
    cast(MovedClock, town.jobs.clock).ahead += MIN_REMOVED_FOR + timedelta(seconds=1)
    sync(town)


def attention(town: Town) -> list[tuple[str, str, str]]:
    rows = town.sql(
        "SELECT type, subject ->> 'name', action ->> 'url' FROM attention_items WHERE cleared_at IS NULL ORDER BY since"
    )
    return [(row[0], row[1], row[2]) for row in rows]


def covered_above(town: Town) -> int:
    [ruleset] = town.host.world.rulesets.values()
    return len(ruleset.conditions["repository_id"]["repository_ids"])


class TestRepositoryRuleset:
    def test_orphaned_ruleset_has_an_alert_until_the_repository_is_covered(self, town: Town) -> None:
        enforced(town, OWN)
        select(town, "api")
        assert attention(town) == ALERT
        sync(town)
        settle(town)
        assert attention(town) == ALERT
        select(town, "api", "web")
        assert attention(town) == []
        assert names(town.host) == {"web": ["Change freeze: main"], "api": ["Change freeze: main"]}

    def test_alert_is_resolved_when_people_remove_the_orphaned_ruleset(self, town: Town) -> None:
        """A public repository is shown to us though it is not covered."""
        enforced(town, OWN)
        town.sql("UPDATE repositories SET removed_at = clock_timestamp() WHERE name = 'web'")
        report(town)
        assert attention(town) == ALERT
        [number] = [each.id for each in town.host.world.rulesets.values() if each.source_id == web(town)]
        town.person("DELETE", f"/repos/acme/web/rulesets/{number}").raise_for_status()
        report(town)
        assert attention(town) == []
        assert len(town.sql("SELECT 1 FROM written_rulesets")) == 1

    def test_orphaned_ruleset_has_no_alert_when_the_repository_is_deleted(self, town: Town) -> None:
        enforced(town, OWN)
        record = town.host.organization("acme").repository("web").record
        at_host.delete(town.host.world, Actor(town.host.maintainer), record)
        sync(town)
        assert attention(town) == []

    def test_repository_without_a_ruleset_has_no_alert_when_uncovered(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town, scope={"type": "repositories", "repositories": ["acme/api"]})
        work(town)
        select(town, "api")
        assert attention(town) == []


class TestOrganizationRuleset:
    def test_organization_ruleset_drops_the_uncovered_repository_after_a_delay(self, town: Town) -> None:
        enforced(town, ORGANIZATION)
        select(town, "api")
        assert (attention(town), covered_above(town)) == (ORGANIZATION_ALERT, 2)
        settle(town)
        assert (attention(town), covered_above(town)) == ([], 1)
        changes = town.sql("SELECT action, source FROM audit_entries WHERE action LIKE 'ruleset.%' ORDER BY at")
        assert changes[-1] == ("ruleset.updated", "system")
        assert len(town.sql("SELECT 1 FROM written_rulesets")) == 1

    def test_organization_ruleset_is_deleted_when_no_repository_is_left(self, town: Town) -> None:
        enforced(town, ORGANIZATION)
        select(town)
        settle(town)
        assert (attention(town), names(town.host)) == ([], {})
        assert town.sql("SELECT 1 FROM written_rulesets") == []

    def test_organization_ruleset_keeps_the_repository_while_frozen(self, town: Town) -> None:
        enforced(town, ORGANIZATION)
        freeze = town.freeze()
        select(town, "api")
        settle(town)
        assert (attention(town), covered_above(town)) == (ORGANIZATION_ALERT, 2)
        town.lift(freeze)
        sync(town)
        assert (attention(town), covered_above(town)) == ([], 1)

    def test_organization_ruleset_is_kept_without_the_write_permission(self, town: Town) -> None:
        enforced(town, ORGANIZATION)
        permit(town, administration="write", organization_administration="read")
        select(town, "api")
        settle(town)
        assert (attention(town), covered_above(town)) == (ORGANIZATION_ALERT, 2)

    @pytest.mark.parametrize("hidden", ["permission", "fault"])
    def test_alert_stays_open_when_the_organization_ruleset_is_unreadable(self, town: Town, hidden: str) -> None:
        enforced(town, ORGANIZATION)
        select(town, "api")
        if hidden == "permission":
            permit(town, administration="write")
        else:
            town.host.faults.add("error", "GET /orgs/acme/rulesets", status=502)
        settle(town)
        assert (attention(town), covered_above(town)) == (ORGANIZATION_ALERT, 2)


def web(town: Town) -> int:
    return town.host.organization("acme").repository("web").record.id
