"""Rules that change are noticed: what is lost and regained is audited once, and an alert is open while it lasts."""

from datetime import timedelta
from typing import Any

import pytest

from rules.freezes.blocking import state_of
from services.core.unit_of_work import SYSTEM_CALLER
from services.enforcement.probe_queue import PROBES
from services.maintenance.resync import full_resync
from services.repositories.enablement import disable
from services.repositories.watches import unwatch, watch_branch
from services.verdicts.blocking import blocking_of_branches
from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.probes.requests import (
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
from tools.fake_github.seeding import required_check_rules


def test_disabled_and_enabled_ruleset_is_audited_once_each(harness: Harness, web: RepositoryBuilder) -> None:
    look(harness)
    assert audits(harness) == []
    change_ruleset(harness, web, enforcement="disabled")
    look(harness)
    look(harness)
    assert attention(harness) == [("unenforced_branch", "critical")]
    change_ruleset(harness, web, enforcement="active")
    look(harness)
    look(harness)
    lost, restored = audits(harness)
    assert (lost.action, restored.action) == ("enforcement.lost", "enforcement.restored")
    assert lost.target == {"type": "branch", "id": harness.branches["acme/web"].id, "name": "acme/web:main"}
    assert (lost.source, lost.actor["type"]) == ("code_host", "code_host")
    assert lost.details["before"] == {"light": "green", "findings": []}
    assert lost.details["after"]["findings"] == ["ruleset_disabled"]
    assert restored.details["before"]["light"] == "red"
    assert restored.details["after"]["light"] == "green"
    assert attention(harness) == []


def test_ruleset_disabled_between_two_probes_is_audited_once(harness: Harness, build: Builder) -> None:
    build("web", "api")
    harness.sql("UPDATE repositories SET rulesets_authorized_at = created_at")
    remove(harness, harness.fake_github.organization("acme").repository("api"))
    above(harness, harness.fake_github.organization("acme").repository("web"))
    look(harness)
    started = harness.fake_github.world.clock
    harness.fake_github.world.clock = lambda: started() + timedelta(seconds=2)
    [ruleset] = harness.fake_github.world.rulesets.values()
    for enforcement in ("disabled", "active"):
        harness.act(update_ruleset, ruleset, {"enforcement": enforcement})
    look(harness)
    look(harness)
    [changed] = audits(harness)
    assert (changed.action, changed.source) == ("enforcement.ruleset_changed", "code_host")
    assert changed.target == {"type": "ruleset", "id": str(ruleset.id), "name": "Everywhere"}
    assert changed.details["before"]["light"] == changed.details["after"]["light"] == "green"
    assert changed.details["before"]["updatedAt"] < changed.details["after"]["updatedAt"]


def test_never_enforced_branch_has_an_alert_and_no_loss(harness: Harness, web: RepositoryBuilder) -> None:
    remove(harness, web)
    look(harness)
    assert [entry.action for entry in audits(harness)] == ["enforcement.setup_requested"]
    assert attention(harness) == [("unenforced_branch", "critical")]


def test_unreadable_rules_are_neither_lost_nor_restored(harness: Harness, web: RepositoryBuilder) -> None:
    look(harness)
    installed = harness.installed
    chosen, installed.repository_selection = installed.repository_ids, "selected"
    look(harness)
    assert seen(harness) == ("amber", ["cannot_see_rules"])
    assert audits(harness) == []
    installed.repository_selection, installed.repository_ids = "all", chosen
    change_ruleset(harness, web, enforcement="disabled")
    look(harness)
    assert [row.action for row in audits(harness)] == ["enforcement.lost"]
    installed.repository_selection = "selected"
    look(harness)
    assert seen(harness) == ("red", ["ruleset_disabled", "cannot_see_rules"])
    assert len(audits(harness)) == 1


def test_lost_permission_is_a_finding_without_a_hot_loop(harness: Harness, web: RepositoryBuilder) -> None:
    look(harness)
    permit(harness, "administration")
    look(harness)
    row = found(harness)
    codes = ["cannot_see_bypass_actors", "can_be_replaced", "cannot_see_classic_protection"]
    assert seen(harness) == ("amber", codes)
    assert (row.bypass_actors, row.due_at) == (None, None)
    assert probe(harness) == 0


@pytest.mark.parametrize("way", ["webhook", "full resync"])
def test_rule_loosened_by_hand_is_detected(harness: Harness, web: RepositoryBuilder, way: str) -> None:
    webhook_queue = WebhookQueue(harness)
    look(harness)
    number = next(iter(harness.fake_github.world.rulesets))
    harness.person("PUT", f"/repos/acme/web/rulesets/{number}", {"enforcement": "disabled"})
    assert probe(harness) == 0
    if way == "webhook":
        webhook_queue.run()
    else:
        full_resync(harness.jobs, timedelta(0))
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        assert PROBES.has_work(uow)
    probe(harness)
    assert seen(harness) == ("red", ["ruleset_disabled"])


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
    harness: Harness, web: RepositoryBuilder, method: str, path: str, body: dict[str, Any]
) -> None:
    webhook_queue = WebhookQueue(harness)
    look(harness)
    answer = harness.person(method, path, body)
    assert answer.status_code in {200, 201}, answer.text
    webhook_queue.run()
    probe(harness)
    assert found(harness).light == "red"


def test_reported_change_that_cannot_be_read_makes_the_blocking_unknown(
    harness: Harness, web: RepositoryBuilder
) -> None:
    def state() -> str:
        branch_id = harness.branches["acme/web"].id
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            return state_of(blocking_of_branches(uow.session, {branch_id}, uow.now)[branch_id].facts)

    webhook_queue = WebhookQueue(harness)
    look(harness)
    harness.freeze()
    work(harness)
    number = next(iter(harness.fake_github.world.rulesets))
    harness.person("PUT", f"/repos/acme/web/rulesets/{number}", {"enforcement": "disabled"})
    harness.fake_github.faults.add("error", count=100)
    webhook_queue.deliver(webhook_queue.take())
    assert state() == "partly"
    harness.pass_time(seconds=6)
    probe(harness)
    assert state() == "unknown"
    harness.fake_github.faults.clear()
    harness.pass_time(minutes=5)
    probe(harness)
    assert state() == "not_blocked"


def test_newly_watched_branch_is_probed(harness: Harness, web: RepositoryBuilder) -> None:
    web.branch("next")
    with harness.unit() as uow:
        watch_branch(uow, "acme/web", "next")
    probe(harness)
    rows = harness.sql("SELECT light FROM branch_enforcement")
    assert [row.light for row in rows] == ["red"]


@pytest.mark.parametrize("way", ["unwatched", "disabled"])
def test_orphaned_rule_has_an_alert_until_it_is_removed(harness: Harness, web: RepositoryBuilder, way: str) -> None:
    look(harness)
    with harness.unit() as uow:
        if way == "unwatched":
            unwatch(uow, harness.branches["acme/web"].id)
        else:
            disable(uow, ["acme/web"])
    probe(harness)
    assert seen(harness) == ("amber", ["orphaned_requirement"])
    assert attention(harness) == [("orphaned_requirement", "warning")]
    work(harness)
    assert set(harness.conclusions().values()) == {"success"}
    remove(harness, web)
    look(harness)
    assert (seen(harness), attention(harness), audits(harness)) == (("amber", []), [], [])
