"""Facts of many heads are read in turns with other installations."""

from collections import Counter

import pytest

from services.reconcile import reconciler
from tests import factories
from tests.harness.github_harness import Builder, Harness
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import FROM_BOT, HOTFIX, People
from tests.jobs.exception_rules.test_rule_edits import interrupt
from tests.jobs.pull_request_exceptions.grants import notify
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def many(pulls: list[PullRequest], monkeypatch: pytest.MonkeyPatch) -> list[PullRequest]:
    """Return three pull requests with the label of a captain: for one slice these are many."""
    monkeypatch.setattr(reconciler, "FACTS_AT_ONCE", 1)
    monkeypatch.setattr(reconciler, "TIME_SLICE", 0)
    return pulls


def let_in(harness: Harness) -> int:
    """Return how many of the three heads GitHub would merge."""
    return sum(harness.conclusions()[f"acme/web#{number}"] == "success" for number in (1, 2, 3))


def have_another_wait(harness: Harness) -> None:
    """Add another installation, with a branch whose check is due; it is the turn of the first one."""
    globex = harness.fake_github.organization("globex")
    record = globex.repository("app").requires("change-freeze/main").record
    globex.repository("app").pull_request()
    installed = globex.installed()
    organization = factories.organization(harness.session, "Globex")
    factories.installation(
        harness.session, organization, "globex", id=installed.id, permissions=dict(installed.permissions)
    )
    repository = factories.repository(
        harness.session, organization, "globex/app", github_id=record.id, node_id=record.node_id
    )
    factories.branch(harness.session, repository, "main", due_at=factories.now(), wanted_generation=1)
    harness.session.commit()
    harness.reconciler.turn.after = 0


def test_pass_leaves_facts_to_its_next_turn_while_another_installation_waits(
    harness: Harness, many: list[PullRequest], add_rule: AddRule
) -> None:
    add_rule(HOTFIX)
    notify(harness)
    have_another_wait(harness)

    harness.reconciler.run_pass()
    before = let_in(harness), harness.conclusions()["globex/app#1"]
    harness.reconciler.run_pass()
    between = let_in(harness), harness.conclusions()["globex/app#1"]
    harness.run_until_idle()

    assert (before, between) == ((2, None), (2, "success"))
    assert let_in(harness) == 3


def test_pass_reads_all_facts_while_no_other_installation_waits(
    harness: Harness, many: list[PullRequest], add_rule: AddRule
) -> None:
    add_rule(HOTFIX)
    notify(harness)

    harness.reconciler.run_pass()

    assert let_in(harness) == 3


def test_what_a_rule_lets_in_is_judged_first(
    harness: Harness, many: list[PullRequest], add_rule: AddRule, people: People
) -> None:
    """Else its exception could outlast its facts for as long as the others take turns."""
    add_rule(HOTFIX)
    first, second, last = many
    for pull in (first, second):
        people.unlabel(pull, "captain")
    last.draft = True
    notify(harness)
    harness.run_until_idle()
    assert let_in(harness) == 1

    people.unlabel(last, "captain")
    notify(harness)
    have_another_wait(harness)
    harness.reconciler.run_pass()

    assert let_in(harness) == 0


def test_branch_that_is_read_back_gets_all_of_its_facts_in_one_pass(
    harness: Harness, many: list[PullRequest], add_rule: AddRule
) -> None:
    """What an interrupted pass has read would not be trusted by the next one, which would get no further."""
    add_rule(HOTFIX)
    notify(harness)
    harness.request_read_back()
    have_another_wait(harness)
    harness.fake_github.calls.reset()

    harness.reconciler.run_pass()

    assert let_in(harness) == 3
    assert [count for name, count in harness.fake_github.calls.by_operation.items() if name.endswith("/members")] == [1]


def test_what_is_to_be_blocked_waits_for_the_facts_of_a_time_slice(
    harness: Harness, build: Builder, people: People, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of each head take a call of their own."""
    for pull in build("web", pulls=3):
        people.write(pull, "bot", verified=True)
    harness.run_until_idle()
    monkeypatch.setattr(reconciler, "FACTS_AT_ONCE", 1)
    monkeypatch.setattr(reconciler, "TIME_SLICE", 0)
    add_rule(FROM_BOT)
    harness.freeze()
    harness.fake_github.calls.reset()
    before: Counter[str] = Counter()
    interrupt(monkeypatch, "write_checks", lambda: before.update(harness.fake_github.calls.by_operation), lambda: None)

    harness.reconciler.run_pass()

    assert [count for name, count in before.items() if name.endswith("/commits")] == [1]
    assert let_in(harness) == 3
