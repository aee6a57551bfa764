"""Where a rule lets nothing in although a head meets it: limits, people who revoke, and facts that cannot be read."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.github_harness import Harness
from tests.harness.pipeline import revoke
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import FROM_BOT, HOTFIX, People
from tests.jobs.pull_request_exceptions.grants import notify
from tools.fake_github.model.records import PullRequest


def let_in(harness: Harness) -> set[str]:
    """Have passes run until nothing is due; return what GitHub would merge."""
    notify(harness)
    harness.run_until_idle()
    return {name for name, conclusion in harness.conclusions().items() if conclusion == "success"}


def test_rule_lets_in_as_many_as_its_limit(harness: Harness, pulls: list[PullRequest], add_rule: AddRule) -> None:
    add_rule(HOTFIX, per_freeze=2)
    first = let_in(harness)

    assert len(first) == 2
    assert let_in(harness) == first


def test_limit_counts_what_was_let_in_before(
    harness: Harness, pulls: list[PullRequest], people: People, add_rule: AddRule
) -> None:
    add_rule(HOTFIX, per_freeze=1)
    [name] = let_in(harness)
    people.unlabel(pulls[int(name.rpartition("#")[2]) - 1], "captain")

    assert let_in(harness) == set()


def test_head_that_a_person_has_revoked_is_not_let_in_again(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    add_rule(HOTFIX)
    people.label(pull, "captain")
    assert let_in(harness) == {"acme/web#1"}
    [(exception_id,)] = harness.sql("SELECT id FROM exceptions")
    revoke(harness, exception_id)
    assert let_in(harness) == set()

    people.push(pull, "author")
    let_in(harness)  # the new head is seen
    people.unlabel(pull, "captain")
    people.label(pull, "captain")
    assert let_in(harness) == {"acme/web#1"}


@pytest.mark.parametrize(("verified", "merges"), [(True, {"acme/web#1"}), (False, set())])
def test_commit_of_a_bot_counts_by_its_signature(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, verified: bool, merges: set[str]
) -> None:
    people.write(pull, "bot", verified=verified)
    add_rule(FROM_BOT)

    assert let_in(harness) == merges


def no_account(harness: Harness, pull: PullRequest, _people: People) -> None:
    harness.fake_github.world.repositories[pull.repository_id].commits[pull.head_sha].known = False


def no_team(harness: Harness, _pull: PullRequest, people: People) -> None:
    harness.fake_github.world.teams.pop(people.team)


@pytest.mark.parametrize("unknown", [no_account, no_team], ids=lambda unknown: unknown.__name__)
def test_what_github_does_not_know_lets_nothing_in(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, unknown: Callable[..., None]
) -> None:
    people.label(pull, "captain")
    add_rule(HOTFIX)
    unknown(harness, pull, people)

    assert let_in(harness) == set()


def _fail(harness: Harness, **details: Any) -> None:
    harness.fake_github.faults.add("error", "query Facts", status=502, **details)


def test_query_that_fails_once_is_sent_again(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    people.label(pull, "captain")
    add_rule(HOTFIX)
    _fail(harness, count=1)

    assert let_in(harness) == {"acme/web#1"}


def test_exception_ends_while_its_facts_cannot_be_read(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    people.label(pull, "captain")
    add_rule(HOTFIX)
    assert let_in(harness) == {"acme/web#1"}
    people.unlabel(pull, "captain")
    people.label(pull, "captain")
    _fail(harness, count=2)

    assert let_in(harness) == set()
    harness.sql("UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE due_at IS NOT NULL")
    assert let_in(harness) == {"acme/web#1"}
