"""Rules that are edited during a pass: what is shown at rest follows from the rule as it is then."""

from collections.abc import Callable
from typing import Any

import pytest

from services.exception_rules.changes import change, delete
from tests.harness.github_harness import Harness
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import BY_CAPTAINS, DOCS, HOTFIX, People, edits
from tests.jobs.exception_rules.test_changes_while_read import interrupt
from tools.fake_github.model.records import PullRequest

Edit = Callable[[Harness, str], None]
URGENT = {"label": {"name": "urgent", "setBy": BY_CAPTAINS}}


def require(condition: dict[str, Any]) -> Edit:
    """Return an edit after which a rule has this condition alone."""

    def edit(harness: Harness, rule_id: str) -> None:
        with edits(harness) as uow:
            change(uow, rule_id, {"allow": {"all": [condition]}})

    return edit


def disable(harness: Harness, rule_id: str) -> None:
    with edits(harness) as uow:
        change(uow, rule_id, {"enabled": False})


def remove(harness: Harness, rule_id: str) -> None:
    with edits(harness) as uow:
        delete(uow, rule_id)


def while_facts_are_read(monkeypatch: pytest.MonkeyPatch, edit: Callable[[], None]) -> None:
    """Have a rule edited after the facts that it asks for were read, and before anything follows from them."""
    interrupt(monkeypatch, "rule_facts", before=lambda: None, after=edit)


def before_checks_are_written(monkeypatch: pytest.MonkeyPatch, edit: Callable[[], None]) -> None:
    """Have a rule edited after it has granted an exception, and before GitHub is told."""
    interrupt(monkeypatch, "write_checks", before=edit, after=lambda: None)


both_moments = pytest.mark.parametrize("when", [while_facts_are_read, before_checks_are_written])


@both_moments
@pytest.mark.parametrize(
    "edit", [require(URGENT), require(DOCS), disable, remove], ids=["label", "paths", "disable", "remove"]
)
def test_head_stays_blocked_that_meets_only_what_a_rule_required_before(
    harness: Harness,
    pull: PullRequest,
    people: People,
    add_rule: AddRule,
    monkeypatch: pytest.MonkeyPatch,
    edit: Edit,
    when: Callable[..., None],
) -> None:
    people.label(pull, "captain")
    rule = add_rule(HOTFIX)
    when(monkeypatch, lambda: edit(harness, rule.id))

    assert harness.run_until_idle() == 2

    assert harness.merge("acme/web", pull.number).status_code == 405


@pytest.mark.parametrize(
    "edit", [require(HOTFIX), require({"paths": {"onlyMatching": ["changes/**"]}})], ids=["label", "paths"]
)
def test_head_is_let_in_that_meets_what_a_rule_requires_now(
    harness: Harness,
    pull: PullRequest,
    people: People,
    add_rule: AddRule,
    monkeypatch: pytest.MonkeyPatch,
    edit: Edit,
) -> None:
    """The paths are no fact that the rule asked for when the facts were read."""
    people.label(pull, "captain")
    rule = add_rule(URGENT)
    while_facts_are_read(monkeypatch, lambda: edit(harness, rule.id))

    harness.run_until_idle()

    assert harness.merge("acme/web", pull.number).status_code == 200


def test_nothing_is_let_in_by_a_rule_as_it_was_when_facts_were_read(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.label(pull, "captain")
    rule = add_rule(HOTFIX)
    harness.fake_github.calls.reset()
    while_facts_are_read(monkeypatch, lambda: require(URGENT)(harness, rule.id))

    harness.run_until_idle()

    assert [write["conclusion"] for write in harness.fake_github.calls.writes] == []
