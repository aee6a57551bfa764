"""Probers at work: few calls, no result of one that was overtaken, patience with a GitHub that fails or limits."""

import threading
import time
from datetime import timedelta
from itertools import pairwise

import pytest

from rules.rulesets.enforcement import Enforcement
from services.core.unit_of_work import SYSTEM_CALLER, Caller
from services.enforcement.probe_queue import PROBES, acquire_probes
from services.enforcement.probe_records import ProbeResult, save_results
from services.enforcement.probes import probe_due
from services.enforcement_status.probe_requests import schedule_probes
from services.maintenance.resync import full_resync
from tests import factories
from tests.harness.concurrency import meanwhile
from tests.harness.github_harness import ADA, Builder, Harness
from tests.jobs.probes.requests import (
    CHECK,
    ask,
    attention,
    audits,
    change_ruleset,
    found,
    look,
    probe,
    remove,
)
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset, update_ruleset
from tools.fake_github.seeding import required_check_rules


@pytest.mark.check
@pytest.mark.slow(6)
def test_thousand_branches_are_probed_in_few_calls(harness: Harness, build: Builder) -> None:
    build(*(f"service-{number}" for number in range(1000)), pulls=0)
    harness.sql("UPDATE repositories SET rulesets_authorized_at = created_at")
    harness.sql("ANALYZE")  # as autovacuum does; with the statistics of earlier tests the joins would be quadratic
    ask(harness)
    harness.fake_github.calls.reset()
    probe(harness)
    assert {row.light for row in harness.sql("SELECT light FROM branch_enforcement")} == {"green"}
    assert harness.fake_github.calls.total <= 60


def test_shared_ruleset_is_read_once(harness: Harness, build: Builder) -> None:
    build("api", "web")
    harness.sql("UPDATE repositories SET rulesets_authorized_at = created_at")
    for ruleset in list(harness.fake_github.world.rulesets.values()):
        harness.act(delete_ruleset, ruleset)
    conditions = {"ref_name": {"include": ["~ALL"]}, "repository_name": {"include": ["~ALL"]}}
    body = {"name": "All", "enforcement": "active", "conditions": conditions}
    rules = required_check_rules(CHECK, harness.fake_github.app_id)
    account = harness.fake_github.organization("acme").account
    harness.act(create_ruleset, "Organization", account.id, {**body, "rules": rules})
    look(harness)
    assert {row.light for row in harness.sql("SELECT light FROM branch_enforcement")} == {"green"}
    assert harness.fake_github.calls.by_operation["graphql query Rulesets rateLimit nodes"] == 1


def test_overtaken_probe_records_nothing(harness: Harness, web: RepositoryBuilder) -> None:
    ask(harness)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        late = acquire_probes(uow)
    assert late is not None
    harness.pass_time(PROBES.lease * 2)
    change_ruleset(harness, web, enforcement="disabled")
    probe(harness)
    assert found(harness).light == "red"
    with harness.jobs.open(Caller(harness.organization.id, ADA, "system")) as uow:
        save_results(uow, late, [ProbeResult(late.probes[0], green())])
    assert found(harness).light == "red"
    assert attention(harness) == [("unenforced_branch", "critical")]


def green() -> Enforcement:
    return Enforcement("green", True, True, CHECK, (), None, True, (), None, (), seen=True)


def test_branch_requested_during_its_probe_is_probed_again(harness: Harness, web: RepositoryBuilder) -> None:
    ask(harness)
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        claim = acquire_probes(uow)
        assert claim is not None
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        assert acquire_probes(uow) is None, "one prober at a time"
        schedule_probes(uow, [harness.branches["acme/web"].id])
    with harness.jobs.open(Caller(harness.organization.id, ADA, "system")) as uow:
        save_results(uow, claim, [ProbeResult(claim.probes[0], green())])
    assert found(harness).due_at is not None
    harness.pass_time(milliseconds=5)
    change_ruleset(harness, web, enforcement="disabled")
    probe(harness)
    assert found(harness).light == "red"


def test_concurrent_probes_record_the_final_state(harness: Harness, build: Builder) -> None:
    build(*(f"service-{number}" for number in range(20)), pulls=0)

    def prober(over: threading.Event) -> None:
        while not over.is_set():
            if not probe_due(harness.jobs, harness.github):
                over.wait(0.005)

    with meanwhile(*[prober] * 3):
        for enforcement in ["disabled", "active"] * 5 + ["disabled"]:
            for ruleset in harness.fake_github.world.rulesets.values():
                harness.act(update_ruleset, ruleset, {"enforcement": enforcement})
            ask(harness)
            time.sleep(0.02)
    probe(harness)
    assert {row.light for row in harness.sql("SELECT light FROM branch_enforcement")} == {"red"}
    trail = [row.action for row in audits(harness) if row.target["name"] == "acme/service-7:main"]
    assert all(first != second for first, second in pairwise(trail))


@pytest.mark.parametrize("kind", ["error", "disconnect"])
def test_probe_is_retried_later_when_github_fails(harness: Harness, web: RepositoryBuilder, kind: str) -> None:
    look(harness)
    harness.fake_github.faults.add(kind, "graphql query Rules")
    look(harness)
    row = found(harness)
    assert (row.light, row.attempts, row.lease_until) == ("green", 1, None)
    assert row.due_at is not None
    assert probe(harness) == 0
    harness.fake_github.faults.clear()
    harness.pass_time(minutes=1)
    change_ruleset(harness, web, enforcement="disabled")
    assert probe(harness) == 1
    assert found(harness).light == "red"


def test_rate_limit_pauses_probes_of_every_worker(harness: Harness, web: RepositoryBuilder) -> None:
    look(harness)
    harness.fake_github.faults.add("error", "graphql query Rules", status=429, headers={"retry-after": "30"})
    look(harness)
    [installation] = harness.sql("SELECT paused_until FROM installations")
    assert installation.paused_until is not None
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        assert not PROBES.has_work(uow)
    ask(harness)
    assert probe(harness) == 0


def test_branch_of_another_installation_is_not_delayed(harness: Harness, web: RepositoryBuilder) -> None:
    other = factories.organization(harness.session, "Globex")
    installation = factories.installation(harness.session, other, "globex", state="suspended")
    repository = factories.repository(harness.session, other, "globex/web", node_id="R_unknown")
    factories.branch(harness.session, repository)
    harness.session.commit()
    look(harness)
    assert found(harness).light == "green"
    assert installation.state == "suspended"


def test_alert_links_to_the_rules_of_its_branch(harness: Harness, web: RepositoryBuilder) -> None:
    remove(harness, web)
    look(harness)
    [(action,)] = harness.sql("SELECT action FROM attention_items")
    address = "https://github.com/acme/web/rules?ref=refs%2Fheads%2Fmain"
    assert action == {"label": "Open the branch's rules", "url": address}


def test_alerts_of_a_removed_repository_are_resolved(harness: Harness, web: RepositoryBuilder) -> None:
    remove(harness, web)
    look(harness)
    assert attention(harness) == [("unenforced_branch", "critical")]
    harness.sql("UPDATE repositories SET removed_at = now()")
    full_resync(harness.jobs, timedelta(0))
    assert attention(harness) == []
