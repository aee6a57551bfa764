"""Rules, teams and pull requests that change while facts are read or after they were: nothing else is let in."""

from collections.abc import Callable
from typing import Any

import pytest

from integrations.github import InstallationClient
from services.exception_rules.changes import change, delete
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.exception_rules.answers import rules_of_pull
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import BY_CAPTAINS, DOCS, FROM_BOT, HOTFIX, People, edits
from tests.jobs.pull_request_exceptions.grants import notify
from tools.fake_github.model.branches import make_commit, move
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor

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


KEPT = "S2VwdA=="


class Repository:
    """The repository of a pull request, and who changes it between two reads."""

    def __init__(self, harness: Harness, pull: PullRequest) -> None:
        self.harness, self.world, self.pull = harness, harness.fake_github.world, pull
        self.record = self.world.repositories[pull.repository_id]
        self.actor = Actor(self.world.logins["mallory"])

    def commit(self, parent: str, files: dict[str, str | None]) -> str:
        return make_commit(self.world, self.record, self.pull.author_id, "Change", [parent], files).sha

    def move(self, branch: str, sha: str, how: str = "push") -> None:
        with self.world.lock:
            move(self.world, self.actor, self.record, branch, sha, how)

    def retarget(self, base: str) -> None:
        self.harness.person("PATCH", f"/repos/acme/web/pulls/{self.pull.number}", {"base": base})


def interrupt(
    monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[], None], after: Callable[[], None]
) -> None:
    """Do something before the first call of a method of the client, and something after it."""
    original = getattr(InstallationClient, name)

    def interrupted(client: InstallationClient, *args: Any) -> Any:
        monkeypatch.setattr(InstallationClient, name, original)
        before()
        found = original(client, *args)
        after()
        return found

    monkeypatch.setattr(InstallationClient, name, interrupted)


def granted(harness: Harness) -> int:
    notify(harness)
    harness.run_until_idle()
    return len(harness.sql("SELECT id FROM audit_entries WHERE action = 'exception.granted'"))


@pytest.fixture
def renaming(harness: Harness, pull: PullRequest, people: People) -> Repository:
    """Have a pull request that renames `src/b.md`, of which the branch `other` has one half already."""
    found = Repository(harness, pull)
    found.move("main", found.commit(pull.base_sha, {"src/b.md": KEPT}))
    half = found.commit(found.record.branches["main"], {"src/b.md": None})
    found.record.branches["other"] = half
    found.move(pull.head_ref, found.commit(half, {"docs/b.md": KEPT}))
    notify(harness)
    harness.run_until_idle()
    return found


def test_files_of_another_base_let_nothing_in(
    harness: Harness, renaming: Repository, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "all_files", lambda: renaming.retarget("other"), lambda: renaming.retarget("main"))
    add_rule(DOCS)

    assert granted(harness) == 0
    assert [event.kind for event in renaming.pull.timeline] == ["BaseRefChangedEvent"] * 2


def test_files_of_another_head_let_nothing_in(
    harness: Harness, renaming: Repository, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch, head = renaming.pull.head_ref, renaming.pull.head_sha
    harmless = renaming.commit(renaming.record.branches["main"], {"docs/c.md": KEPT})
    interrupt(
        monkeypatch,
        "all_files",
        lambda: renaming.move(branch, harmless, "force_push"),
        lambda: renaming.move(branch, head, "force_push"),
    )
    add_rule(DOCS)

    assert granted(harness) == 0
    assert len(renaming.pull.timeline) == 2


def test_commits_of_another_base_let_nothing_in(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Repository(harness, pull)
    people.write(pull, "author")
    found.record.branches["other"] = pull.head_sha
    own = found.commit(pull.head_sha, {"a.txt": KEPT})
    found.record.commits[own].author_id, found.record.commits[own].verified = people.accounts["bot"], True
    pull.author_id = people.accounts["bot"]
    found.move(pull.head_ref, own)
    notify(harness)
    harness.run_until_idle()
    interrupt(monkeypatch, "commits_of", lambda: found.retarget("other"), lambda: found.retarget("main"))
    add_rule(FROM_BOT)

    assert granted(harness) == 0
    assert len(pull.timeline) == 2


@pytest.fixture
def webhooks(harness: Harness) -> WebhookQueue:
    return WebhookQueue(harness)


@pytest.fixture
def let_in(
    harness: Harness, webhooks: WebhookQueue, pull: PullRequest, people: People, add_rule: AddRule
) -> PullRequest:
    """Return a pull request that a captain has let in by a label."""
    add_rule(HOTFIX)
    people.label(pull, "captain")
    webhooks.run()
    assert set(harness.conclusions().values()) == {"success"}
    return pull


def test_head_is_blocked_in_the_pass_after_the_team_is_deleted(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People
) -> None:
    people.delete_captains()
    webhooks.deliver(webhooks.take())
    harness.reconciler.run_pass()

    assert harness.merge("acme/web", let_in.number).status_code == 405
    [rule] = rules_of_pull(harness)
    [condition] = rule["conditions"]
    assert condition["outcome"] == "missed"
    assert condition["found"].startswith("It is not known: GitHub does not say who is in @acme/captains (")
    assert not harness.reconciler.run_pass()


def test_head_is_blocked_in_a_pass_a_minute_later_if_the_webhook_is_lost(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People
) -> None:
    people.delete_captains()
    webhooks.take()
    harness.pass_time(seconds=61)
    notify(harness)
    harness.reconciler.run_pass()

    assert harness.merge("acme/web", let_in.number).status_code == 405


def test_team_that_is_made_again_under_the_name_lets_nothing_in(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People
) -> None:
    people.delete_captains()
    people.set_captains("captain")
    webhooks.run()

    assert harness.merge("acme/web", let_in.number).status_code == 405


def test_rule_that_names_no_team_lets_in_what_meets_it(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People, add_rule: AddRule
) -> None:
    people.delete_captains()
    add_rule({"label": {"name": "docs", "setBy": {"accounts": ["deputy"]}}})
    people.label(let_in, "deputy", "docs")
    webhooks.run()

    assert harness.merge("acme/web", let_in.number).status_code == 200
