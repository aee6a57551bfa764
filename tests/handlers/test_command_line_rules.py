"""The command `freeze`: the rules by which pull requests pass freezes."""

import json
from pathlib import Path

import pytest

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.command_line import Command, command_of
from tests.handlers.exception_rules.rules import EVERYWHERE, opened

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


@pytest.fixture
def freeze(acme: Tenant, served: str, tmp_path: Path) -> Command:
    return command_of(acme, served, tmp_path)


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
