"""Branches get rules of their own, however they came to be watched, once an administrator has authorised that."""

from typing import Any

import pytest

from models.repositories import Repository
from tests.handlers.callers import EVERYTHING, Tenant, answered
from tests.harness.github_harness import Harness
from tests.jobs.probes.requests import look, probe
from tests.jobs.setup.requests import AUTHORIZED, work
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.rulesets import delete_ruleset
from tools.fake_github.model.world import Actor

NEXT = "next"


@pytest.fixture
def authorized(acme: Tenant) -> Repository:
    """Return acme/web, whose rulesets an administrator has authorised; no branch of it is watched."""
    return acme.repository("web", NEXT, **AUTHORIZED)


def builder(tenant: Tenant) -> RepositoryBuilder:
    return tenant.host.organization("acme").repository("web")


def rules(tenant: Tenant) -> list[str]:
    return sorted(each.name for each in tenant.host.world.rulesets.values())


def serve(workers: Harness) -> None:
    """Do what is due: probes, the setups that they queue, and the probes after these."""
    probe(workers)
    work(workers)
    probe(workers)


def watch(tenant: Tenant, name: str = NEXT) -> str:
    branch_id: str = answered(tenant.key().post("/v1/repos/acme%2Fweb/branches", {"name": name}), 201)["id"]
    return branch_id


def freeze(tenant: Tenant, **body: Any) -> None:
    assert tenant.key().post("/v1/freezes", {**EVERYTHING, **body}).status_code in {201, 202}


def setups(workers: Harness) -> int:
    [[count]] = workers.sql("SELECT count(*) FROM enforcement_setups")
    return int(count)


def test_branch_watched_by_name_gets_its_rule_and_is_blocked(
    acme: Tenant, authorized: Repository, workers: Harness
) -> None:
    pull = builder(acme).pull_request(base=NEXT)
    branch_id = watch(acme)
    serve(workers)
    assert rules(acme) == ["Change freeze: next"]
    assert acme.key().get(f"/v1/enforcement/branches/{branch_id}").json()["light"] == "green"
    freeze(acme)
    workers.run_until_idle()
    assert workers.merge("acme/web", pull.number).status_code == 405


def test_rule_of_a_branch_watched_by_name_that_people_remove_stays_removed(
    acme: Tenant, authorized: Repository, workers: Harness
) -> None:
    watch(acme)
    serve(workers)
    [ruleset] = acme.host.world.rulesets.values()
    with acme.host.world.lock:
        delete_ruleset(acme.host.world, Actor(acme.host.maintainer), ruleset)
    look(workers)
    serve(workers)
    assert rules(acme) == []
    assert setups(workers) == 1


def test_branches_of_a_repository_enabled_later_get_their_rules(acme: Tenant, workers: Harness) -> None:
    acme.repository("web", enabled=False, **AUTHORIZED)
    assert acme.key().post("/v1/repos/enable", {"repositories": ["acme/web"]}).status_code == 200
    serve(workers)
    assert rules(acme) == ["Change freeze: main"]


def test_branch_gets_no_rule_without_authorization(acme: Tenant, workers: Harness) -> None:
    acme.repository("web", NEXT)
    watch(acme)
    serve(workers)
    assert rules(acme) == []


def test_no_setup_of_a_branch_is_queued_while_a_wider_one_is_under_way(
    acme: Tenant, authorized: Repository, workers: Harness
) -> None:
    watch(acme)
    answer = acme.person("admin").post("/v1/enforcement/setup", {"scope": {"type": "organization"}, "mode": "apply"})
    assert answer.json()["state"] == "applying"
    watch(acme, "main")
    serve(workers)
    assert rules(acme) == ["Change freeze: main", "Change freeze: next"]
    assert setups(workers) == 1


def test_branch_that_a_wider_setup_left_out_gets_its_rule_at_its_end(
    acme: Tenant, authorized: Repository, workers: Harness
) -> None:
    acme.repository("api", **AUTHORIZED)
    assert acme.key().post("/v1/repos/acme%2Fapi/branches", {"name": "main"}).status_code == 201
    scope = {"type": "repositories", "repositories": ["acme/api"]}
    setup = {"scope": scope, "mode": "apply"}
    assert acme.person("admin").post("/v1/enforcement/setup", setup).json()["state"] == "applying"
    watch(acme)
    probe(workers)
    assert setups(workers) == 1
    work(workers)
    serve(workers)
    assert rules(acme) == ["Change freeze: main", "Change freeze: next"]
