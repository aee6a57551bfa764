"""Filters by schedule: of the list of schedules, of occurrences and of the calendar."""

from typing import Any

import pytest

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Caller, Tenant
from tests.handlers.schedules.preview_requests import DAY
from tests.handlers.schedules.requests import created

SCOPES: dict[str, dict[str, Any]] = {
    "everything": {"type": "organization"},
    "releases": {"type": "organization", "branches": ["release/*"]},
    "glob": {"type": "glob", "patterns": ["acme/*", "!acme/api"]},
    "listed": {"type": "repositories", "repositories": ["acme/api"], "branches": ["main"]},
    "branch": {"type": "branch", "repository": "acme/web", "branch": "main"},
}


@pytest.fixture
def key(acme: Tenant, web: WatchedBranch) -> Caller:
    """Return a key of an organisation that watches main of two repositories and a release branch of one."""
    factories.branch(acme.session, acme.session.get_one(Repository, web.repository_id), "release/1.x")
    factories.branch(acme.session, acme.repository("api"), "main")
    acme.repository("docs")
    return acme.key()


@pytest.fixture
def made(key: Caller) -> dict[str, str]:
    """Return the names of schedules with each scope, by id."""
    given = SCOPES.items()
    return {created(key, name=f"Freeze {name}", scope=scope, allowOverlap=True)["id"]: name for name, scope in given}


FILTERS: list[tuple[dict[str, str], set[str]]] = [
    ({}, set(SCOPES)),
    ({"repo": "acme/web"}, {"everything", "releases", "glob", "branch"}),
    ({"repo": "ACME/api"}, {"everything", "listed"}),
    ({"repo": "acme/docs"}, set()),
    ({"branch": "main"}, {"everything", "glob", "listed", "branch"}),
    ({"branch": "release/1.x"}, {"everything", "releases", "glob"}),
    ({"branch": "release/2.x"}, set()),
    ({"repo": "acme/api", "branch": "release/1.x"}, set()),
    ({"repo": "acme/web", "branch": "main"}, {"everything", "glob", "branch"}),
    ({"name": "EEZE b"}, {"branch"}),
    ({"name": "%"}, set()),
    ({"name": "_"}, set()),
    ({"source": "import"}, set()),
    ({"source": "manual", "name": "s", "repo": "acme/web"}, {"releases"}),
]
"""Filters, and the schedules that match."""


class TestFilters:
    def test_list_of_schedules_has_those_that_match(self, key: Caller, made: dict[str, str]) -> None:
        for filters, expected in FILTERS:
            shown = key.get("/v1/schedules", **filters).json()["data"]
            assert ({made[one["id"]] for one in shown}, filters) == (expected, filters)

    @pytest.mark.parametrize("days", [4, 300], ids=["stored", "later"])
    def test_list_of_occurrences_has_those_that_match(self, key: Caller, made: dict[str, str], days: int) -> None:
        day = (factories.now() + DAY * days).date()
        span = {"from": f"{day}T21:00:00Z", "to": f"{day}T23:00:00Z"}
        for filters, expected in FILTERS:
            shown = key.get("/v1/schedules/occurrences", **span, **filters).json()["data"]
            assert (sorted(made[one["scheduleId"]] for one in shown), filters) == (sorted(expected), filters)

    @pytest.mark.parametrize("days", [33, 300], ids=["stored", "later"])
    def test_calendar_has_occurrences_that_match(self, key: Caller, made: dict[str, str], days: int) -> None:
        month = f"{factories.now() + DAY * days:%Y-%m}"
        for filters, expected in FILTERS[::4]:
            shown = key.get("/v1/schedules/calendar", month=month, timezone="UTC", **filters).json()["days"][14]
            assert ({made[one["scheduleId"]] for one in shown["occurrences"]}, filters) == (expected, filters)


def test_occurrences_of_deleted_schedules_are_filtered_as_well(acme: Tenant, key: Caller) -> None:
    for name in ("Old", "Older"):
        gone = factories.schedule(acme.session, acme.organization, name=name, deleted_at=factories.now())
        factories.occurrence(acme.session, gone)
    shown = key.get("/v1/schedules/occurrences", name="older", branch="main").json()["data"]
    assert [one["scheduleId"] for one in shown] == [gone.id]
