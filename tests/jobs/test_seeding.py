"""Seeding: the present verdict is written on every head that could merge, whatever stood there before."""

from typing import Any

from services.core.unit_of_work import Caller, UnitOfWork
from services.enforcement import requests, views
from tests.jobs.conftest import ADA, Builder, Town

EVERYWHERE = {"type": "organization"}


def runs_of(town: Town) -> dict[str, list[str]]:
    """Return the conclusions that each open head's check ever had, the oldest first, by commit."""
    heads = [sha for (sha,) in town.sql("SELECT head_sha FROM pull_requests WHERE state = 'open'")]
    return {sha: [run["conclusion"] for run in _runs(town, sha)] for sha in heads}


def _runs(town: Town, sha: str) -> list[dict[str, Any]]:
    found = town.person("GET", f"/repos/acme/web/commits/{sha}/check-runs?filter=all").json()["check_runs"]
    return sorted(found, key=lambda run: run["id"])


def seed(town: Town) -> dict[str, Any]:
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard")) as uow:
        return requests.seed(uow, EVERYWHERE)


def shown(town: Town) -> tuple[int, list[dict[str, Any]]]:
    """Return how many branches are left to be seeded, and the checks of each branch."""
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard")) as uow:
        page = views.overview(uow, views.EnforcementFilters(), None, 100)
        return page["pending"]["seed"], [_checks(uow, row["branch_id"]) for row in page["data"]]


def _checks(uow: UnitOfWork, branch_id: str) -> dict[str, Any]:
    checks: dict[str, Any] = views.show(uow, branch_id)["checks"]
    return checks


def test_seeding_writes_every_head_again_and_shows_progress(town: Town, build: Builder) -> None:
    build("web", pulls=3)
    town.settle()
    assert shown(town) == (0, [{"state": "written", "total": 3, "written": 3, "last_error": None}])
    answer = seed(town)
    assert (answer["branch_count"], answer["head_count"]) == (1, 3)
    assert shown(town) == (1, [{"state": "pending", "total": 3, "written": 0, "last_error": None}])
    town.settle()
    assert list(runs_of(town).values()) == [["success", "success"]] * 3
    assert shown(town) == (0, [{"state": "written", "total": 3, "written": 3, "last_error": None}])


def test_seeding_writes_the_verdict_of_a_freeze(town: Town, build: Builder) -> None:
    build("web", pulls=1)
    town.settle()
    town.freeze()
    town.settle()
    seed(town)
    town.settle()
    assert list(runs_of(town).values()) == [["success", "failure", "failure"]]


def test_seeding_writes_the_first_verdict_of_a_head(town: Town, build: Builder) -> None:
    build("web", pulls=2)
    seed(town)
    town.settle()
    assert list(runs_of(town).values()) == [["success"]] * 2
