"""Probes in tests: having branches looked at, what is found of them, and what people change at the code host."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from services.core.unit_of_work import SYSTEM_CALLER
from services.enforcement.probing import probe_due
from services.enforcement_status.probe_requests import schedule_all_probes
from tests.jobs.conftest import Town
from tests.services.conftest import MovedClock
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.classic import protect
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import required_check_rules

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
    with town.jobs.open(SYSTEM_CALLER) as uow:
        schedule_all_probes(uow)


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
