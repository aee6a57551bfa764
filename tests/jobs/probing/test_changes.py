"""Rules that change are noticed: what is lost and regained is audited once, and asks for attention while it lasts."""

from datetime import timedelta
from typing import Any

import pytest

from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.enforcement.probe_queue import PROBES
from services.maintenance.tasks import full_resync
from services.repositories.enabling import disable
from services.repositories.watching import unwatch, watch_branch
from tests.harness.webhook_queue import Post, work
from tests.jobs.conftest import ADA, Builder, Town
from tests.jobs.probing.requests import (
    CHECK,
    above,
    attention,
    audits,
    change_ruleset,
    found,
    look,
    permit,
    probe,
    remove,
    seen,
)
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.rulesets import update_ruleset
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import required_check_rules


def test_disabled_and_enabled_ruleset_is_audited_once_each(town: Town, web: RepositoryBuilder) -> None:
    look(town)
    assert audits(town) == []
    change_ruleset(town, web, enforcement="disabled")
    look(town)
    look(town)
    assert attention(town) == [("unenforced_branch", "critical")]
    change_ruleset(town, web, enforcement="active")
    look(town)
    look(town)
    lost, restored = audits(town)
    assert (lost.action, restored.action) == ("enforcement.lost", "enforcement.restored")
    assert lost.target == {"type": "branch", "id": town.branches["acme/web"].id, "name": "acme/web:main"}
    assert (lost.source, lost.actor["type"]) == ("code_host", "code_host")
    assert lost.details["before"] == {"light": "green", "findings": []}
    assert lost.details["after"]["findings"] == ["ruleset_disabled"]
    assert restored.details["before"]["light"] == "red"
    assert restored.details["after"]["light"] == "green"
    assert attention(town) == []


def test_ruleset_disabled_between_two_probes_is_audited_once(town: Town, build: Builder) -> None:
    build("web", "api")
    remove(town, town.host.organization("acme").repository("api"))
    above(town, town.host.organization("acme").repository("web"))
    look(town)
    begun = town.host.world.clock
    town.host.world.clock = lambda: begun() + timedelta(seconds=2)
    [ruleset] = town.host.world.rulesets.values()
    for enforcement in ("disabled", "active"):
        update_ruleset(town.host.world, Actor(town.host.maintainer), ruleset, {"enforcement": enforcement})
    look(town)
    look(town)
    [changed] = audits(town)
    assert (changed.action, changed.source) == ("enforcement.ruleset_changed", "code_host")
    assert changed.target == {"type": "ruleset", "id": str(ruleset.id), "name": "Everywhere"}
    assert changed.details["before"]["light"] == changed.details["after"]["light"] == "green"
    assert changed.details["before"]["updatedAt"] < changed.details["after"]["updatedAt"]


def test_never_enforced_branch_has_an_alert_and_no_loss(town: Town, web: RepositoryBuilder) -> None:
    remove(town, web)
    look(town)
    assert audits(town) == []
    assert attention(town) == [("unenforced_branch", "critical")]


def test_unreadable_rules_are_neither_lost_nor_restored(town: Town, web: RepositoryBuilder) -> None:
    look(town)
    [installed] = town.host.world.installations.values()
    chosen, installed.repository_selection = installed.repository_ids, "selected"
    look(town)
    assert seen(town) == ("amber", ["cannot_see_rules"])
    assert audits(town) == []
    installed.repository_selection, installed.repository_ids = "all", chosen
    change_ruleset(town, web, enforcement="disabled")
    look(town)
    assert [row.action for row in audits(town)] == ["enforcement.lost"]
    installed.repository_selection = "selected"
    look(town)
    assert seen(town) == ("red", ["ruleset_disabled", "cannot_see_rules"])
    assert len(audits(town)) == 1


def test_lost_permission_is_a_finding_without_a_hot_loop(town: Town, web: RepositoryBuilder) -> None:
    look(town)
    permit(town, "administration")
    look(town)
    row = found(town)
    assert seen(town) == ("amber", ["cannot_see_bypass_actors", "cannot_see_classic_protection"])
    assert (row.bypass_actors, row.due_at) == (None, None)
    assert probe(town) == 0


@pytest.mark.parametrize("way", ["webhook", "full pass"])
def test_rule_loosened_by_hand_is_detected(town: Town, web: RepositoryBuilder, way: str) -> None:
    post = Post(town)
    look(town)
    number = next(iter(town.host.world.rulesets))
    town.person("PUT", f"/repos/acme/web/rulesets/{number}", {"enforcement": "disabled"})
    assert probe(town) == 0
    if way == "webhook":
        post.run()
    else:
        full_resync(town.jobs, timedelta(0))
    with town.jobs.open(SYSTEM_CALLER) as uow:
        assert PROBES.has_work(uow)
    probe(town)
    assert seen(town) == ("red", ["ruleset_disabled"])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param(
            "PUT",
            "/repos/acme/web/branches/main/protection",
            {
                "required_status_checks": {"strict": False, "checks": [{"context": CHECK, "app_id": 99}]},
                "enforce_admins": True,
                "required_pull_request_reviews": None,
                "restrictions": None,
            },
            id="classic protection",
        ),
        pytest.param(
            "POST",
            "/orgs/acme/rulesets",
            {
                "name": "Another App's",
                "enforcement": "active",
                "conditions": {"ref_name": {"include": ["~ALL"]}, "repository_name": {"include": ["~ALL"]}},
                "rules": required_check_rules(CHECK, 99),
            },
            id="a ruleset of the organisation",
        ),
    ],
)
def test_conflicting_rule_is_detected_by_webhook(
    town: Town, web: RepositoryBuilder, method: str, path: str, body: dict[str, Any]
) -> None:
    post = Post(town)
    look(town)
    answer = town.person(method, path, body)
    assert answer.status_code in {200, 201}, answer.text
    post.run()
    probe(town)
    assert found(town).light == "red"


def test_newly_watched_branch_is_probed(town: Town, web: RepositoryBuilder) -> None:
    web.branch("next")
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        watch_branch(uow, "acme/web", "next")
    probe(town)
    rows = town.sql("SELECT light FROM branch_enforcement")
    assert [row.light for row in rows] == ["red"]


@pytest.mark.parametrize("way", ["unwatched", "disabled"])
def test_orphaned_rule_has_an_alert_until_it_is_removed(town: Town, web: RepositoryBuilder, way: str) -> None:
    look(town)
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        if way == "unwatched":
            unwatch(uow, town.branches["acme/web"].id)
        else:
            disable(uow, ["acme/web"])
    probe(town)
    assert seen(town) == ("amber", ["orphaned_requirement"])
    assert attention(town) == [("orphaned_requirement", "warning")]
    work(town)
    assert set(town.conclusions().values()) == {"success"}
    remove(town, web)
    look(town)
    assert (seen(town), attention(town), audits(town)) == (("amber", []), [], [])
