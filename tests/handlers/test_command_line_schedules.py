"""The command `freeze`: schedules, their windows, and the branches of a freeze."""

from datetime import timedelta
from pathlib import Path

import pytest

from models.repositories import Repository, WatchedBranch
from models.schedules import Schedule
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.command_line import Command, command_of
from tests.handlers.schedules.requests import FIRST


@pytest.fixture
def freeze(acme: Tenant, served: str, tmp_path: Path) -> Command:
    return command_of(acme, served, tmp_path)


@pytest.fixture
def nights(acme: Tenant, web: WatchedBranch) -> str:
    """Return the id of a schedule with a window each night."""
    answer = acme.key().post("/v1/schedules", {**FIRST, "scope": {"type": "branch", "branchId": web.id}})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


class TestSchedules:
    def test_next_window_is_skipped_and_planned_again(self, freeze: Command, nights: str) -> None:
        coming = freeze.json("schedules", "show", "Nights")["nextOccurrence"]["id"]
        skipped = freeze("schedules", "skip", "Nights")
        assert skipped.stdout.splitlines()[1].split()[:2] == [coming, "skipped"], skipped.output
        planned = freeze("schedules", "unskip", nights, coming)
        assert planned.stdout.splitlines()[1].split()[:2] == [coming, "planned"], planned.output

    def test_named_window_is_skipped_once(self, freeze: Command, nights: str) -> None:
        listed = freeze("schedules", "occurrences", "Nights", "--limit", "3").stdout.splitlines()
        second = listed[2].split()[0]
        for _ in range(2):
            assert freeze.json("schedules", "skip", "Nights", second)["state"] == "skipped"
        shown = freeze("schedules", "occurrences", nights, "--state", "skipped").stdout.splitlines()
        assert [line.split()[0] for line in shown[1:]] == [second]

    def test_schedule_is_paused_and_resumed(self, freeze: Command, nights: str) -> None:
        paused = freeze("schedules", "pause", "Nights")
        assert paused.stdout.startswith(f"{nights}  Nights  off\n  scope       acme/web:main\n"), paused.output
        without = freeze("schedules", "skip", "Nights")
        assert (without.exit_code, "no planned window" in without.stderr) == (1, True)
        assert freeze("schedules", "occurrences", nights, "--state", "planned").stdout == "No windows.\n"
        assert freeze("schedules", "resume", nights).stdout.startswith(f"{nights}  Nights  on\n")

    def test_paused_schedule_names_the_freeze_that_goes_on(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        schedule: Schedule = factories.schedule(acme.session, acme.organization, name="Weekends")
        columns = {"source": "schedule", "schedule_id": schedule.id}
        ends_at = factories.now() + timedelta(hours=1)
        row = factories.freeze(acme.session, acme.organization, [web], ends_at=ends_at, **columns)
        assert f"  in force    {row.id}, until " in freeze("schedules", "pause", "Weekends").stdout


class TestTargets:
    def test_targets_say_whether_each_branch_is_blocked(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        other = factories.branch(acme.session, acme.session.get_one(Repository, web.repository_id), "next")
        factories.branch_enforcement(acme.session, web)
        row = factories.freeze(acme.session, acme.organization, [web, other])
        shown = freeze("targets", row.id)
        lines = {line.split()[0]: line for line in shown.stdout.splitlines()[1:]}
        assert set(lines) == {"acme/web:main", "acme/web:next"}, shown.output
        assert lines["acme/web:main"].split()[1:3] == ["pending", "blocked"]
        assert "not known to be blocked  GitHub's rules were not read yet." in lines["acme/web:next"]
        assert freeze("targets", row.id, "--state", "failed").stdout == "No branches.\n"


class TestExceptions:
    def test_exception_that_was_granted_at_once_says_by_whom(
        self, freeze: Command, acme: Tenant, web: WatchedBranch
    ) -> None:
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id))
        factories.freeze(acme.session, acme.organization, [web])
        granted = freeze("allow", f"acme/web#{pull.number}", "-r", "Hotfix of payments", "--utc")
        assert granted.exit_code == 0, granted.output
        assert "Hotfix of payments  pipeline  20" in granted.stdout
