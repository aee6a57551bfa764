"""The compatibility API says of every branch at every instant what `GET /v1/freeze-state` says.

Freezes, planned windows and exceptions are random, and so is the instant: the clock of the service is stopped there.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from models.schedules import Occurrence, Schedule
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.compatibility.requests import ClassicClient, shown
from tests.harness.clock import MovableClock

START = datetime(2026, 11, 23, tzinfo=UTC)
HOURS = st.integers(-6, 12)
"""Instants, in hours from the start."""
WINDOWS = st.tuples(HOURS, st.integers(1, 6))
MANUAL = st.fixed_dictionaries(
    {
        "covers": st.sets(st.sampled_from(["web", "api"]), min_size=1),
        "start": HOURS,
        "length": st.none() | st.integers(1, 8),
        "ended": st.none() | st.integers(1, 8),
        "excepted": st.none() | st.sampled_from(["always", "until", "pushed", "revoked"]),
    }
)
SCHEDULES = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["web", "all", "off"]),
        "windows": st.lists(WINDOWS, max_size=3, unique_by=lambda one: one[0]),
    }
)


def at(hours: int) -> datetime:
    return START + timedelta(hours=hours)


class Scene:
    """Two branches, and what covers them."""

    def __init__(
        self, acme: Tenant, session: Session, repository: Repository, branches: dict[str, WatchedBranch]
    ) -> None:
        self.acme, self.session, self.branches = acme, session, branches
        self.pull: PullRequest = factories.pull_request(session, repository)
        self.freezes: list[dict[str, Any]] = []
        self.windows: list[tuple[str, int, int]] = []

    def clear(self) -> None:
        for model in (PullRequestException, FreezeTarget, Occurrence, Freeze, Schedule):
            self.session.execute(delete(model))
        self.freezes, self.windows = [], []

    def add_freeze(self, drawn: dict[str, Any]) -> None:
        start, length, ended = drawn["start"], drawn["length"], drawn["ended"]
        columns: dict[str, Any] = {"started_at": at(start), "ends_at": None if length is None else at(start + length)}
        if ended is not None:
            columns |= {"ended_at": at(start + ended), "end_reason": "lifted"}
        row = factories.freeze(self.session, self.acme.organization, [], **columns)
        for name in drawn["covers"]:
            operation = "apply" if ended is None else "release"
            factories.target(self.session, row, self.branches[name], operation=operation)
        if drawn["excepted"] and "web" in drawn["covers"]:
            changes: dict[str, dict[str, Any]] = {
                "always": {},
                "until": {"expires_at": at(start + 2)},
                "pushed": {"pin_to_head": True, "head_sha": factories.sha("before")},
                "revoked": {"revoked_at": at(start), "revoked_by": {"type": "system", "id": None, "name": "x"}},
            }
            factories.exception(self.session, row, self.pull, self.branches["web"], **changes[drawn["excepted"]])
        self.freezes.append(drawn)

    def add_schedule(self, drawn: dict[str, Any]) -> None:
        name = drawn["scope"]
        scope = {"type": "branch", "branchId": self.branches["web"].id} if name == "web" else {"type": "organization"}
        row = factories.schedule(self.session, self.acme.organization, scope=scope, enabled=name != "off")
        for start, length in drawn["windows"]:
            factories.occurrence(self.session, row, starts_at=at(start), ends_at=at(start + length))
            if name != "off":
                self.windows.append((name, start, start + length))

    def covered(self, branch: str, hours: int) -> list[dict[str, Any]]:
        """Return the freezes in force on a branch, by the definition in words; nobody begins a window that is due."""
        due = [
            {"start": start, "length": end - start, "excepted": None}
            for name, start, end in self.windows
            if start <= hours < end and name in {branch, "all"}
        ]
        return due + [
            one
            for one in self.freezes
            if branch in one["covers"]
            and one["ended"] is None
            and one["start"] <= hours
            and (one["length"] is None or hours < one["start"] + one["length"])
        ]

    def next_changes(self, branch: str, hours: int) -> tuple[int | None, int | None]:
        """Return when a branch is frozen next, and when nothing covers it, hour by hour."""
        covering = self.covered(branch, hours)
        ahead = [(start, end) for name, start, end in self.windows if start > hours and name in {branch, "all"}]
        frozen_at = min((start for start, _ in ahead), default=None)
        if any(one["length"] is None for one in covering) or not (covering or ahead):
            return frozen_at, None
        spans = [(hours, one["start"] + one["length"]) for one in covering] + ahead
        hour = hours if covering else frozen_at
        while hour is not None and any(start <= hour < end for start, end in spans):
            hour += 1
        return frozen_at, hour

    def let_through(self, hours: int) -> bool:
        covering = self.covered("web", hours)
        passes = [
            one["excepted"] == "always" or (one["excepted"] == "until" and hours < one["start"] + 2) for one in covering
        ]
        return bool(covering) and all(passes)


@pytest.fixture
def scene(
    acme: Tenant, session: Session, repository: Repository, web: WatchedBranch, api: WatchedBranch, clock: MovableClock
) -> Iterator[Scene]:
    yield Scene(acme, session, repository, {"web": web, "api": api})
    clock.reset()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MANUAL, max_size=3), st.lists(SCHEDULES, max_size=2), st.lists(HOURS, min_size=1, max_size=2))
def test_branch_agrees_with_the_freeze_state_at_every_instant(
    scene: Scene,
    client: ClassicClient,
    clock: MovableClock,
    manual: list[dict[str, Any]],
    schedules: list[dict[str, Any]],
    instants: list[int],
) -> None:
    scene.clear()
    for drawn in manual:
        scene.add_freeze(drawn)
    for drawn in schedules:
        scene.add_schedule(drawn)
    for hours in instants:
        clock.at = at(hours)
        lists = shown(client.get("/branches/acme"))
        listed = {
            one["name"]: (frozen, one) for frozen in (True, False) for one in lists["frozen" if frozen else "unfrozen"]
        }
        for name in ("web", "api"):
            mine = client.state(f"/branches/acme/{name}/main")
            headers = {"Authorization": f"Bearer {client.token}"}
            theirs = client.http.get(f"/v1/freeze-state?repo=acme/{name}&branch=main", headers=headers).json()
            assert mine["frozen"] is theirs["frozen"] is bool(scene.covered(name, hours)) is listed[name][0]
            assert mine["allow_deployments"] is not mine["frozen"]
            changes = tuple(
                None if one is None else int(at(one).timestamp()) for one in scene.next_changes(name, hours)
            )
            assert (mine["next_freeze_at"], mine["next_unfreeze_at"]) == changes
            assert (listed[name][1]["next_freeze_at"], listed[name][1]["next_unfreeze_at"]) == changes
            assert mine["unblocked_prs"] == ([7] if name == "web" and scene.let_through(hours) else [])
