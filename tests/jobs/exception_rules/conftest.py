"""A frozen branch with pull requests, and rules that a pass applies to them."""

from collections.abc import Callable
from typing import Any

import pytest

from models.exception_rules import ExceptionRule
from tests import factories
from tests.harness.github_harness import Builder, Harness
from tests.jobs.exception_rules.people import CAPTAINS, People
from tools.fake_github.model.records import PullRequest

AddRule = Callable[..., ExceptionRule]


@pytest.fixture
def people(harness: Harness) -> People:
    """Have a captain, a bot and a stranger at GitHub."""
    return People(harness)


@pytest.fixture
def pull(harness: Harness, build: Builder, people: People) -> PullRequest:
    """Return a pull request of an author who is no captain; its branch is frozen, and its head has been seen."""
    [pull] = build("web", pulls=1)
    people.write(pull, "author")
    harness.freeze()
    harness.run_until_idle()
    harness.pass_time(seconds=30)
    return pull


@pytest.fixture
def pulls(harness: Harness, build: Builder, people: People) -> list[PullRequest]:
    """Return three pull requests into a frozen branch, each with the label of a captain."""
    pulls = build("web", pulls=3)
    for pull in pulls:
        people.write(pull, "author")
    harness.freeze()
    harness.run_until_idle()
    for pull in pulls:
        people.label(pull, "captain")
    return pulls


@pytest.fixture
def add_rule(harness: Harness, people: People) -> AddRule:
    """Add a rule; its names have the ids that accounts and teams have at GitHub now."""

    def add(*allow: dict[str, Any], **columns: Any) -> ExceptionRule:
        row = factories.exception_rule(
            harness.session,
            harness.organization,
            allow={"all": list(allow)},
            identities={"accounts": people.accounts, "teams": {CAPTAINS: [people.acme, people.team]}},
            **columns,
        )
        harness.session.commit()
        harness.make_due()
        return row

    return add
