"""Probes in tests: run them, read their findings, and change rules at GitHub."""

from collections.abc import Callable
from typing import Any

from services.core.unit_of_work import SYSTEM_CALLER
from services.enforcement.probes import probe_due
from tests.harness.github_harness import Harness
from tests.harness.probing import schedule_all_probes
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.classic import protect
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset
from tools.fake_github.seeding import required_check_rules

CHECK = "change-freeze/main"
TEAM = {"actor_id": 12, "actor_type": "Team", "bypass_mode": "pull_request"}
Change = Callable[[Harness, RepositoryBuilder], None]


def probe(harness: Harness) -> int:
    """Run probes until none is due; returns how many."""
    probes = 0
    while probe_due(harness.jobs, harness.github):
        probes += 1
        assert probes < 100, "the prober does not come to rest"
    return probes


def ask(harness: Harness) -> None:
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        schedule_all_probes(uow)


def look(harness: Harness) -> None:
    """Have every branch probed."""
    ask(harness)
    probe(harness)


def found(harness: Harness, repository: str = "acme/web") -> Any:
    [row] = harness.sql("SELECT * FROM branch_enforcement WHERE branch_id = :id", id=harness.branches[repository].id)
    return row


def seen(harness: Harness) -> tuple[str, list[str]]:
    row = found(harness)
    return row.light, [finding["code"] for finding in row.findings]


def audits(harness: Harness) -> list[Any]:
    return harness.sql("SELECT * FROM audit_entries WHERE action LIKE 'enforcement.%' ORDER BY at, id")


def attention(harness: Harness) -> list[tuple[str, str]]:
    rows = harness.sql("SELECT type, severity FROM attention_items WHERE cleared_at IS NULL ORDER BY type")
    return [(row.type, row.severity) for row in rows]


def change_ruleset(harness: Harness, web: RepositoryBuilder, **changes: Any) -> None:
    [ruleset] = harness.fake_github.world.rules_of["Repository", web.record.id].values()
    harness.act(update_ruleset, ruleset, changes)


def pin(harness: Harness, web: RepositoryBuilder, app_id: int | None) -> None:
    change_ruleset(harness, web, rules=required_check_rules(CHECK, app_id))


def remove(harness: Harness, web: RepositoryBuilder) -> None:
    [ruleset] = harness.fake_github.world.rules_of["Repository", web.record.id].values()
    harness.act(delete_ruleset, ruleset)


def above(harness: Harness, web: RepositoryBuilder) -> None:
    remove(harness, web)
    conditions = {"ref_name": {"include": ["refs/heads/main"]}, "repository_name": {"include": ["~ALL"]}}
    harness.fake_github.organization("acme").ruleset(
        name="Everywhere",
        enforcement="active",
        conditions=conditions,
        rules=required_check_rules(CHECK, harness.fake_github.app_id),
    )


def classic(harness: Harness, web: RepositoryBuilder, app_id: int | None) -> None:
    checks = {"strict": False, "checks": [{"context": CHECK, "app_id": app_id}]}
    others = {"enforce_admins": True, "required_pull_request_reviews": None, "restrictions": None}
    harness.act(protect, web.record, "main", {"required_status_checks": checks} | others)


def permit(harness: Harness, *lacking: str) -> None:
    installed = harness.installed
    installed.permissions = {name: level for name, level in installed.permissions.items() if name not in lacking}


def hide(*lacking: str) -> Change:
    return lambda harness, _web: permit(harness, *lacking)


def hidden_above(harness: Harness, web: RepositoryBuilder) -> None:
    above(harness, web)
    permit(harness, "organization_administration")


def hide_queue(harness: Harness, web: RepositoryBuilder) -> None:
    web.merge_queue()
    permit(harness, "merge_queues")
