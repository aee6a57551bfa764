"""Pull requests with as many files as GitHub lists, and with more: those meet no condition on paths."""

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.exception_rules.answers import rules_of_pull
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import DOCS
from tools.fake_github.model.records import PullRequest


def change_files(harness: Harness, pull: PullRequest, count: int) -> None:
    """Have the head change so many files, all of documentation."""
    world = harness.fake_github.world
    with world.lock:
        commit = world.repositories[pull.repository_id].commits[pull.head_sha]
        commit.files = {f"docs/{number}.md": "RG9jcw==" for number in range(count)}


@pytest.mark.parametrize(("count", "status"), [(3000, 200), (3001, 405)])
def test_pull_request_is_let_in_with_as_many_files_as_github_lists(
    harness: Harness, pull: PullRequest, add_rule: AddRule, count: int, status: int
) -> None:
    change_files(harness, pull, count)
    add_rule(DOCS)

    harness.run_until_idle()

    assert harness.merge("acme/web", pull.number).status_code == status


def test_pull_request_with_more_files_says_why_it_is_blocked(
    harness: Harness, pull: PullRequest, add_rule: AddRule
) -> None:
    change_files(harness, pull, 3001)
    add_rule(DOCS)

    harness.run_until_idle()

    [rule] = rules_of_pull(harness)
    [condition] = rule["conditions"]
    assert (rule["outcome"], condition["outcome"]) == ("missed", "missed")
    assert condition["found"] == "It is not known: GitHub lists 3,000 files of a pull request, and it changes more."


def test_last_of_many_files_is_judged(harness: Harness, pull: PullRequest, add_rule: AddRule) -> None:
    change_files(harness, pull, 2999)
    world = harness.fake_github.world
    world.repositories[pull.repository_id].commits[pull.head_sha].files["src/last.py"] = "bGFzdA=="
    add_rule(DOCS)

    harness.run_until_idle()

    assert harness.merge("acme/web", pull.number).status_code == 405
