"""Probes: what the code host's rules make of our check is found out, told, and noticed when it changes."""

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from rules.enforcement import Enforcement
from services.chores import full_pass
from services.enabling import disable
from services.enforcement.asking import ask_for_every_probe, ask_for_probes
from services.enforcement.probe_claims import LEASE, claim_probes
from services.enforcement.probe_records import Probed, record
from services.enforcement.probing import JOB, probe_due, probes_wait
from services.unit import Caller
from services.watching import unwatch, watch_branch
from tests import factories
from tests.jobs.conftest import ADA, Builder, Town
from tests.services.conftest import MovedClock
from tests.support.post import Post, work
from tools.codehost.builder import RepositoryBuilder
from tools.codehost.control.seed import required_check_rules
from tools.codehost.model.classic import protect
from tools.codehost.model.installations import register_app
from tools.codehost.model.rulesets import create_ruleset, delete_ruleset, update_ruleset
from tools.codehost.model.world import Actor

CHECK = "change-freeze/main"
TEAM = {"actor_id": 12, "actor_type": "Team", "bypass_mode": "pull_request"}
Change = Callable[[Town, RepositoryBuilder], None]


def probe(town: Town) -> int:
    """Run probes until none is due; returns how many."""
    probes = 0
    while probe_due(town.jobs, town.github):
        probes += 1
        assert probes < 100, "the prober does not come to rest"
    return probes


def ask(town: Town) -> None:
    with town.jobs.open(JOB) as unit:
        ask_for_every_probe(unit)


def look(town: Town) -> None:
    """Have every branch probed."""
    ask(town)
    probe(town)


def found(town: Town, repository: str = "acme/web") -> Any:
    [row] = town.sql("SELECT * FROM branch_enforcement WHERE branch_id = :id", id=town.branches[repository].id)
    return row


def seen(town: Town) -> tuple[str, list[str]]:
    row = found(town)
    return row.light, [finding["code"] for finding in row.findings]


def audits(town: Town) -> list[Any]:
    return town.sql("SELECT * FROM audit_entries WHERE action LIKE 'enforcement.%' ORDER BY at, id")


def attention(town: Town) -> list[tuple[str, str]]:
    rows = town.sql("SELECT type, severity FROM attention_items WHERE cleared_at IS NULL ORDER BY type")
    return [(row.type, row.severity) for row in rows]


def pass_time(town: Town, length: timedelta) -> None:
    cast(MovedClock, town.jobs.clock).ahead += length


@pytest.fixture
def web(town: Town, build: Builder) -> RepositoryBuilder:
    """Build a repository whose one branch is watched and required; another App is known there too."""
    build("web")
    register_app(town.host.world, 99, "another", None)
    return town.host.organization("acme").repository("web")


def change_ruleset(town: Town, web: RepositoryBuilder, **changes: Any) -> None:
    [ruleset] = town.host.world.rules_of["Repository", web.record.id].values()
    update_ruleset(town.host.world, Actor(town.host.maintainer), ruleset, changes)


def pin(town: Town, web: RepositoryBuilder, app_id: int | None) -> None:
    change_ruleset(town, web, rules=required_check_rules(CHECK, app_id))


def remove(town: Town, web: RepositoryBuilder) -> None:
    [ruleset] = town.host.world.rules_of["Repository", web.record.id].values()
    delete_ruleset(town.host.world, Actor(town.host.maintainer), ruleset)


def above(town: Town, web: RepositoryBuilder) -> None:
    remove(town, web)
    conditions = {"ref_name": {"include": ["~DEFAULT_BRANCH"]}, "repository_name": {"include": ["~ALL"]}}
    town.host.organization("acme").ruleset(
        name="Everywhere",
        enforcement="active",
        conditions=conditions,
        rules=required_check_rules(CHECK, town.host.app_id),
    )


def classic(town: Town, web: RepositoryBuilder, app_id: int | None) -> None:
    checks = {"strict": False, "checks": [{"context": CHECK, "app_id": app_id}]}
    others = {"enforce_admins": True, "required_pull_request_reviews": None, "restrictions": None}
    protect(
        town.host.world, Actor(town.host.maintainer), web.record, "main", {"required_status_checks": checks} | others
    )


def permit(town: Town, *lacking: str) -> None:
    [installed] = town.host.world.installations.values()
    installed.permissions = {name: level for name, level in installed.permissions.items() if name not in lacking}


def hide(*lacking: str) -> Change:
    return lambda town, _web: permit(town, *lacking)


def hidden_above(town: Town, web: RepositoryBuilder) -> None:
    above(town, web)
    permit(town, "organization_administration")


def hide_queue(town: Town, web: RepositoryBuilder) -> None:
    web.merge_queue()
    permit(town, "merge_queues")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda _town, _web: None, ("green", []), id="required of us, bypassed by nobody"),
        pytest.param(above, ("green", []), id="by the organisation's ruleset"),
        pytest.param(remove, ("red", ["check_not_required"]), id="the rule was removed"),
        pytest.param(
            lambda town, web: change_ruleset(town, web, enforcement="disabled"),
            ("red", ["ruleset_disabled"]),
            id="the rule was disabled",
        ),
        pytest.param(
            lambda town, web: change_ruleset(town, web, enforcement="evaluate"),
            ("red", ["ruleset_disabled"]),
            id="the rule only evaluates",
        ),
        pytest.param(lambda town, web: pin(town, web, None), ("amber", ["not_pinned"]), id="anybody's check counts"),
        pytest.param(
            lambda town, web: pin(town, web, 99), ("red", ["pinned_to_other_app"]), id="another App's check counts"
        ),
        pytest.param(
            lambda town, web: change_ruleset(town, web, bypass_actors=[TEAM]),
            ("amber", ["bypass_actors"]),
            id="a team can bypass",
        ),
        pytest.param(
            hide("administration"),
            ("amber", ["cannot_see_bypass_actors", "cannot_see_classic_protection"]),
            id="who can bypass is not shown",
        ),
        pytest.param(
            hide("administration", "metadata"),
            ("amber", ["cannot_see_bypass_actors", "cannot_see_classic_protection"]),
            id="what GraphQL shows needs no permission of REST",
        ),
        pytest.param(
            hidden_above,
            ("amber", ["cannot_see_bypass_actors"]),
            id="who can bypass the organisation's ruleset is not shown",
        ),
        pytest.param(lambda _town, web: web.merge_queue(), ("green", []), id="a merge queue"),
        pytest.param(hide_queue, ("amber", ["merge_queue_not_visible"]), id="a merge queue that is not shown"),
        pytest.param(
            lambda town, web: classic(town, web, 99),
            ("red", ["classic_protection_conflict", "pinned_to_other_app"]),
            id="classic protection that we cannot satisfy",
        ),
        pytest.param(
            lambda town, web: classic(town, web, town.host.app_id),
            ("green", ["classic_protection_conflict"]),
            id="classic protection beside it",
        ),
        pytest.param(
            lambda _town, web: web.record.branches.pop("main"),
            ("green", ["cannot_see_classic_protection", "branch_missing"]),
            id="a branch that does not exist is told by REST",
        ),
        pytest.param(
            lambda _town, web: setattr(web.record, "archived", True),
            ("green", ["repository_archived"]),
            id="an archived repository",
        ),
    ],
)
def test_what_the_code_host_shows_is_told(
    town: Town, web: RepositoryBuilder, change: Change, expected: tuple[str, list[str]]
) -> None:
    change(town, web)
    look(town)
    assert seen(town) == expected


def test_a_branch_that_is_enforced_is_told_with_its_ruleset(town: Town, web: RepositoryBuilder) -> None:
    web.merge_queue(strategy="HEADGREEN")
    look(town)
    row = found(town)
    number, ruleset = next(iter(town.host.world.rulesets.items()))
    assert row.ruleset == {
        "id": number,
        "name": f"Require {CHECK}",
        "enforcement": "active",
        "updated_at": ruleset.updated_at,
    }
    assert (row.required, row.integration_pinned, row.bypass_actors) == (True, True, [])
    assert row.merge_queue == {"groupingStrategy": "HEADGREEN", "reported": True}
    assert row.verified_at is not None
    assert row.probe_due_at is None


def test_who_can_bypass_is_named(town: Town, web: RepositoryBuilder) -> None:
    app = {"actor_id": town.host.app_id, "actor_type": "Integration", "bypass_mode": "always"}
    change_ruleset(town, web, bypass_actors=[TEAM, app, {"actor_id": 7, "actor_type": "User"}])
    look(town)
    assert found(town).bypass_actors == [
        {"type": "Team", "id": 12, "name": "team-12", "mode": "pull_request"},
        {"type": "Integration", "id": town.host.app_id, "name": "Change Freeze", "mode": "always"},
        {"type": "Unknown", "id": None, "name": None, "mode": "always"},
    ]


def test_a_rule_of_a_branch_that_does_not_exist_yet_tells_who_can_bypass_it(town: Town, web: RepositoryBuilder) -> None:
    change_ruleset(town, web, bypass_actors=[TEAM])
    web.record.branches.pop("main")
    look(town)
    assert seen(town)[1][0] == "bypass_actors"


def test_a_ruleset_that_is_disabled_and_back_is_lost_and_restored_once_each(town: Town, web: RepositoryBuilder) -> None:
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


def test_a_ruleset_that_was_off_and_on_again_between_two_looks_is_told_once(town: Town, build: Builder) -> None:
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


def test_a_branch_that_was_never_enforced_has_lost_nothing_and_needs_attention(
    town: Town, web: RepositoryBuilder
) -> None:
    remove(town, web)
    look(town)
    assert audits(town) == []
    assert attention(town) == [("unenforced_branch", "critical")]


def test_losing_sight_is_neither_losing_nor_regaining_the_block(town: Town, web: RepositoryBuilder) -> None:
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


def test_a_permission_that_is_lost_is_a_finding_and_no_hot_loop(town: Town, web: RepositoryBuilder) -> None:
    look(town)
    permit(town, "administration")
    look(town)
    row = found(town)
    assert seen(town) == ("amber", ["cannot_see_bypass_actors", "cannot_see_classic_protection"])
    assert (row.bypass_actors, row.probe_due_at) == (None, None)
    assert probe(town) == 0


@pytest.mark.parametrize("way", ["webhook", "full pass"])
def test_a_rule_that_is_loosened_by_hand_is_noticed(town: Town, web: RepositoryBuilder, way: str) -> None:
    post = Post(town)
    look(town)
    number = next(iter(town.host.world.rulesets))
    town.person("PUT", f"/repos/acme/web/rulesets/{number}", {"enforcement": "disabled"})
    assert probe(town) == 0
    if way == "webhook":
        post.run()
    else:
        full_pass(town.jobs, timedelta(0))
    with town.jobs.open(JOB) as unit:
        assert probes_wait(unit)
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
def test_what_conflicts_is_heard_of_by_webhook(
    town: Town, web: RepositoryBuilder, method: str, path: str, body: dict[str, Any]
) -> None:
    post = Post(town)
    look(town)
    answer = town.person(method, path, body)
    assert answer.status_code in {200, 201}, answer.text
    post.run()
    probe(town)
    assert found(town).light == "red"


def test_a_branch_that_begins_to_be_watched_is_probed(town: Town, web: RepositoryBuilder) -> None:
    web.branch("next")
    with town.units.open(Caller(town.organization.id, ADA, "dashboard", "business")) as unit:
        watch_branch(unit, "acme/web", "next")
    probe(town)
    rows = town.sql("SELECT light FROM branch_enforcement")
    assert [row.light for row in rows] == ["red"]


@pytest.mark.parametrize("way", ["unwatched", "disabled"])
def test_a_rule_that_outlives_the_watching_is_told_until_it_is_removed(
    town: Town, web: RepositoryBuilder, way: str
) -> None:
    look(town)
    with town.units.open(Caller(town.organization.id, ADA, "dashboard", "business")) as unit:
        if way == "unwatched":
            unwatch(unit, town.branches["acme/web"].id)
        else:
            disable(unit, ["acme/web"])
    probe(town)
    assert seen(town) == ("amber", ["orphaned_requirement"])
    assert attention(town) == [("orphaned_requirement", "warning")]
    work(town)
    assert set(town.conclusions().values()) == {"success"}
    remove(town, web)
    look(town)
    assert (seen(town), attention(town), audits(town)) == (("amber", []), [], [])


def test_a_thousand_branches_are_probed_in_few_calls(town: Town, build: Builder) -> None:
    build(*(f"service-{number}" for number in range(1000)), pulls=0)
    ask(town)
    town.host.calls.reset()
    probe(town)
    assert {row.light for row in town.sql("SELECT light FROM branch_enforcement")} == {"green"}
    assert town.host.calls.total <= 60


def test_one_ruleset_over_many_branches_is_read_once(town: Town, build: Builder) -> None:
    build("api", "web")
    for ruleset in list(town.host.world.rulesets.values()):
        delete_ruleset(town.host.world, Actor(town.host.maintainer), ruleset)
    conditions = {"ref_name": {"include": ["~ALL"]}, "repository_name": {"include": ["~ALL"]}}
    body = {"name": "All", "enforcement": "active", "conditions": conditions}
    rules = required_check_rules(CHECK, town.host.app_id)
    account = town.host.organization("acme").account
    create_ruleset(town.host.world, Actor(town.host.maintainer), "Organization", account.id, {**body, "rules": rules})
    look(town)
    assert {row.light for row in town.sql("SELECT light FROM branch_enforcement")} == {"green"}
    assert town.host.calls.by_operation["graphql query Rulesets rateLimit nodes"] == 1


def test_a_probe_that_was_overtaken_records_nothing(town: Town, web: RepositoryBuilder) -> None:
    ask(town)
    with town.jobs.open(JOB) as unit:
        late = claim_probes(unit)
    assert late is not None
    pass_time(town, LEASE * 2)
    change_ruleset(town, web, enforcement="disabled")
    probe(town)
    assert found(town).light == "red"
    with town.jobs.open(Caller(town.organization.id, ADA, "system")) as unit:
        record(unit, late, [Probed(late.probes[0], green())])
    assert found(town).light == "red"
    assert attention(town) == [("unenforced_branch", "critical")]


def green() -> Enforcement:
    return Enforcement("green", True, None, True, (), None, (), seen=True)


def test_a_branch_that_is_asked_for_during_its_probe_is_probed_again(town: Town, web: RepositoryBuilder) -> None:
    ask(town)
    with town.jobs.open(JOB) as unit:
        claim = claim_probes(unit)
        assert claim is not None
    with town.jobs.open(JOB) as unit:
        assert claim_probes(unit) is None, "one prober at a time"
        ask_for_probes(unit, [town.branches["acme/web"].id])
    with town.jobs.open(Caller(town.organization.id, ADA, "system")) as unit:
        record(unit, claim, [Probed(claim.probes[0], green())])
    assert found(town).probe_due_at is not None
    pass_time(town, timedelta(milliseconds=5))
    change_ruleset(town, web, enforcement="disabled")
    probe(town)
    assert found(town).light == "red"


def test_many_probers_record_what_is_there_in_the_end(town: Town, build: Builder) -> None:
    build(*(f"service-{number}" for number in range(20)), pulls=0)
    stop = threading.Event()

    def prober() -> None:
        while not stop.is_set():
            if not probe_due(town.jobs, town.github):
                stop.wait(0.005)

    probers = [threading.Thread(target=prober) for _ in range(3)]
    for each in probers:
        each.start()
    for enforcement in ["disabled", "active"] * 5 + ["disabled"]:
        with town.host.world.lock:
            for ruleset in town.host.world.rulesets.values():
                update_ruleset(town.host.world, Actor(town.host.maintainer), ruleset, {"enforcement": enforcement})
        ask(town)
        stop.wait(0.02)
    stop.set()
    for each in probers:
        each.join()
    probe(town)
    assert {row.light for row in town.sql("SELECT light FROM branch_enforcement")} == {"red"}
    trail = [row.action for row in audits(town) if row.target["name"] == "acme/service-7:main"]
    assert all(first != second for first, second in pairwise(trail))


@pytest.mark.parametrize("kind", ["error", "disconnect"])
def test_a_code_host_that_fails_is_asked_again_later(town: Town, web: RepositoryBuilder, kind: str) -> None:
    look(town)
    town.host.faults.add(kind, "graphql query Rules")
    look(town)
    row = found(town)
    assert (row.light, row.probe_attempts, row.probe_lease_until) == ("green", 1, None)
    assert row.probe_due_at is not None
    assert probe(town) == 0
    town.host.faults.clear()
    pass_time(town, timedelta(minutes=1))
    change_ruleset(town, web, enforcement="disabled")
    assert probe(town) == 1
    assert found(town).light == "red"


def test_a_limit_of_the_code_host_holds_every_worker_back(town: Town, web: RepositoryBuilder) -> None:
    look(town)
    town.host.faults.add("error", "graphql query Rules", status=429, headers={"retry-after": "30"})
    look(town)
    [installation] = town.sql("SELECT paused_until FROM installations")
    assert installation.paused_until is not None
    with town.jobs.open(JOB) as unit:
        assert not probes_wait(unit)
    ask(town)
    assert probe(town) == 0


def test_a_branch_of_another_installation_is_not_held_back(town: Town, web: RepositoryBuilder) -> None:
    other = factories.organization(town.session, "Globex")
    installation = factories.installation(town.session, other, "globex", state="suspended")
    repository = factories.repository(town.session, other, "globex/web", node_id="R_unknown")
    factories.branch(town.session, repository)
    town.session.commit()
    look(town)
    assert found(town).light == "green"
    assert installation.state == "suspended"


def test_an_item_leads_to_the_rules_of_its_branch_at_the_code_host(town: Town, web: RepositoryBuilder) -> None:
    remove(town, web)
    look(town)
    [(action,)] = town.sql("SELECT action FROM attention_items")
    address = "https://github.com/acme/web/rules?ref=refs%2Fheads%2Fmain"
    assert action == {"label": "Open the branch's rules", "url": address}


def test_a_repository_that_is_gone_needs_nobodys_attention(town: Town, web: RepositoryBuilder) -> None:
    remove(town, web)
    look(town)
    assert attention(town) == [("unenforced_branch", "critical")]
    town.sql("UPDATE repositories SET removed_at = now()")
    look(town)
    assert attention(town) == []
