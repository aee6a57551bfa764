"""Seeding: the present verdict is written on every head that could merge, whatever stood there before."""

from typing import Any

from services.core.unit_of_work import Caller, UnitOfWork
from services.enforcement import requests, views
from tests.harness.github_harness import ADA, Builder, Harness

EVERYWHERE = {"type": "organization"}


def runs_of(harness: Harness) -> dict[str, list[str]]:
    """Return the conclusions that each open head's check ever had, the oldest first, by commit."""
    heads = [sha for (sha,) in harness.sql("SELECT head_sha FROM pull_requests WHERE state = 'open'")]
    return {sha: [run["conclusion"] for run in _runs(harness, sha)] for sha in heads}


def _runs(harness: Harness, sha: str) -> list[dict[str, Any]]:
    found = harness.person("GET", f"/repos/acme/web/commits/{sha}/check-runs?filter=all").json()["check_runs"]
    return sorted(found, key=lambda run: run["id"])


def seed(harness: Harness) -> dict[str, Any]:
    with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard")) as uow:
        return requests.seed(uow, EVERYWHERE)


def shown(harness: Harness) -> tuple[int, list[dict[str, Any]]]:
    """Return how many branches are left to be seeded, and the checks of each branch."""
    with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard")) as uow:
        page = views.overview(uow, views.EnforcementFilters(), None, 100)
        return page["pending"]["seed"], [_checks(uow, row["branch_id"]) for row in page["data"]]


def _checks(uow: UnitOfWork, branch_id: str) -> dict[str, Any]:
    checks: dict[str, Any] = views.show(uow, branch_id)["checks"]
    return checks


def test_seeding_writes_every_head_again_and_shows_progress(harness: Harness, build: Builder) -> None:
    build("web", pulls=3)
    harness.run_until_idle()
    assert shown(harness) == (0, [{"state": "written", "total": 3, "written": 3, "last_error": None}])
    answer = seed(harness)
    assert (answer["branch_count"], answer["head_count"]) == (1, 3)
    assert shown(harness) == (1, [{"state": "pending", "total": 3, "written": 0, "last_error": None}])
    harness.run_until_idle()
    assert list(runs_of(harness).values()) == [["success", "success"]] * 3
    assert shown(harness) == (0, [{"state": "written", "total": 3, "written": 3, "last_error": None}])


def test_seeding_writes_the_verdict_of_a_freeze(harness: Harness, build: Builder) -> None:
    build("web", pulls=1)
    harness.run_until_idle()
    harness.freeze()
    harness.run_until_idle()
    seed(harness)
    harness.run_until_idle()
    assert list(runs_of(harness).values()) == [["success", "failure", "failure"]]


def test_seeding_writes_the_first_verdict_of_a_head(harness: Harness, build: Builder) -> None:
    build("web", pulls=2)
    seed(harness)
    harness.run_until_idle()
    assert list(runs_of(harness).values()) == [["success"]] * 2
