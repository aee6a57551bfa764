"""The command `freeze`: schedules, their windows, the branches of a freeze, and rules by which pull requests pass."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from models.repositories import Repository, WatchedBranch
from models.schedules import Schedule
from tests import factories
from tests.handlers.callers import Tenant, answered
from tests.handlers.command_line import Command, command_of
from tests.handlers.exception_rules.rules import EVERYWHERE, opened
from tests.handlers.schedules.requests import FIRST


@pytest.fixture
def freeze(acme: Tenant, served: str, tmp_path: Path) -> Command:
    return command_of(acme, served, tmp_path)


@pytest.fixture
def nights(acme: Tenant, web: WatchedBranch) -> str:
    """Return the id of a schedule with a window each night."""
    answer = answered(acme.key().post("/v1/schedules", {**FIRST, "scope": {"type": "branch", "branchId": web.id}}), 201)
    return str(answer["id"])


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


ALLOW = {
    "all": [
        {"paths": {"onlyMatching": ["docs/**", "*.md"], "noneMatching": ["docs/api/**"]}},
        {
            "any": [
                {"label": {"name": "hotfix", "setBy": {"teams": ["acme/captains"], "accounts": ["octocat"]}}},
                {"author": {"accounts": ["dependabot[bot]"]}},
                {"approvals": {"fromTeam": "acme/captains", "atLeast": 2}},
            ]
        },
        {"head": {"sameRepository": True}},
        {"changedLines": {"atMost": 200}},
    ]
}
SHOWN = """\
  scope    everything
  freezes  every freeze
  reason   Documentation is not part of the release
  limit    20 pull requests for each freeze
  used     by 0 pull requests
  lets in  what meets all of:
    - only files that match docs/** or *.md and no file that matches docs/api/**
    - one of:
      - the label hotfix set by @acme/captains or octocat
      - dependabot[bot] as author, and as verified signer of every commit
      - 2 approvals from @acme/captains
    - a head in the repository itself
    - at most 200 changed lines
"""


class TestRules:
    def test_rule_is_shown_in_words_by_id_and_name(self, freeze: Command, acme: Tenant) -> None:
        rule = factories.exception_rule(acme.session, acme.organization, name="Docs", allow=ALLOW, per_freeze=20)
        for reference in (rule.id, "docs"):
            first, *lines = freeze("rules", "show", reference).stdout.splitlines(keepends=True)
            assert first == f"{rule.id}  Docs  on\n"
            assert "".join(line for line in lines if not line.startswith("  by ")) == SHOWN
        assert freeze.json("rules", "show", "Docs")["allow"] == ALLOW

    def test_rules_are_listed(self, freeze: Command, acme: Tenant) -> None:
        assert freeze("rules", "list").stdout == "No rules.\n"
        rule = factories.exception_rule(acme.session, acme.organization, name="Docs", enabled=False)
        [_titles, line] = freeze("rules", "list").stdout.splitlines()
        assert line.split()[:3] == [rule.id, "Docs", "off"]

    def test_rule_that_is_not_there_is_refused(self, freeze: Command) -> None:
        unknown = freeze("rules", "show", "Docs")
        assert (unknown.exit_code, unknown.stderr) == (1, "freeze: No rule has the name Docs.\n")


class TestPreviews:
    @pytest.fixture
    def pull(self, acme: Tenant, repository: Repository, web: WatchedBranch) -> str:
        """Return the name of an open pull request that changes one file of code."""
        pull = opened(acme, acme.session, repository, "src/app.py")
        acme.session.commit()
        return f"acme/web#{pull.number}"

    def test_rule_is_previewed(self, freeze: Command, acme: Tenant, pull: str) -> None:
        factories.exception_rule(acme.session, acme.organization, name="Docs")
        summary, _titles, line = freeze("rules", "preview", "Docs").stdout.splitlines()
        assert summary == "0 of 1 open pull requests would be let in."
        assert line.split()[:2] == [pull, "no"]
        assert line.endswith("only files that match docs/**: It changes src/app.py.")

    def test_draft_is_previewed(self, freeze: Command, pull: str, tmp_path: Path) -> None:
        draft = tmp_path / "draft.json"
        allow = {"all": [{"paths": {"onlyMatching": ["*.md"]}}]}
        draft.write_text(json.dumps({"appliesTo": EVERYWHERE, "allow": allow}))
        assert freeze.json("rules", "preview", "--draft", str(draft))["judgedCount"] == 1

    def test_preview_of_nothing_is_refused(self, freeze: Command) -> None:
        refused = freeze("rules", "preview")
        assert (refused.exit_code, "Give a rule, or a draft" in refused.stderr) == (2, True)
