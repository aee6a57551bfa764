"""Pages say first whether GitHub blocks what is frozen, and why not; nothing else says that it does."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from models.enforcement import BranchEnforcement
from models.freezes import Freeze
from models.repositories import WatchedBranch
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words

REASON = "Database migration until Friday"
NO_RULE = "No rule in force at GitHub requires our check, so everything can be merged. Set up enforcement."
DELETION = "Everybody who may push can delete the branch and create it again."
NOT_READ = "GitHub's rules were not read yet."
WRITING = "Checks that say success are being replaced."
CLAIMS = ("✓", "takes a merge", "Blocked since", "is blocked.", "are blocked.", "GitHub refuses")
"""What only a freeze that blocks may say."""

Cause = Callable[[Scene, WatchedBranch], Any]


def change(acme: Scene, branch: WatchedBranch, **columns: Any) -> None:
    """Change what was read of the rules of a branch."""
    found = acme.session.get_one(BranchEnforcement, branch.id)
    for name, value in columns.items():
        setattr(found, name, value)
    acme.session.flush()


def lose_rule(acme: Scene, branch: WatchedBranch) -> None:
    change(acme, branch, light="red", decisive_check=None, findings=[dict(factories.FINDINGS["red"])])


def allow_deletion(acme: Scene, branch: WatchedBranch) -> None:
    change(acme, branch, open_ways=["deletion"])


def forget_rules(acme: Scene, branch: WatchedBranch) -> None:
    acme.session.delete(acme.session.get_one(BranchEnforcement, branch.id))
    acme.session.flush()


def read_long_ago(acme: Scene, branch: WatchedBranch) -> None:
    change(acme, branch, rules_read_at=factories.now() - timedelta(hours=1))


def succeed(acme: Scene, branch: WatchedBranch) -> None:
    """Let the check of a commit say success, which is to be replaced."""
    factories.head_check(acme.session, branch, "a" * 40, "success")


def succeed_late(acme: Scene, branch: WatchedBranch) -> None:
    succeed(acme, branch)
    factories.check(acme.session, branch).outdated_since = factories.now() - timedelta(minutes=2)
    acme.session.flush()


def suspend(acme: Scene, branch: WatchedBranch) -> None:
    succeed(acme, branch)
    acme.session.execute(text("UPDATE installations SET state = 'suspended'"))


def hold(acme: Scene, branch: WatchedBranch) -> None:
    """Let a stop hold a branch, on which the check of a commit still says success."""
    succeed(acme, branch)
    change(acme, branch, stop="change-freeze/stop:1")


def start(acme: Scene, *causes: Cause | None, **columns: Any) -> Freeze:
    """Start a freeze of one or both branches, each changed by its cause; the checks of all are written."""
    freeze = factories.freeze(acme.session, acme.organization, reason=REASON, **columns)
    for branch, cause in zip((acme.web, acme.api), causes, strict=False):
        factories.target(acme.session, freeze, branch, state="applied")
        if cause is not None:
            cause(acme, branch)
    return freeze


BOTH_BLOCKED: tuple[Cause | None, ...] = (None, None)
STATES: list[tuple[tuple[Cause | None, ...], str, str, str]] = [
    ((lose_rule, None), "1 of 2 branches is not blocked.", NO_RULE, "/enforcement/setup"),
    ((lose_rule, lose_rule), "None of the 2 branches is blocked.", NO_RULE, "/enforcement/setup"),
    ((lose_rule,), "The branch is not blocked.", NO_RULE, "/enforcement/setup"),
    ((allow_deletion, None), "1 of 2 branches is blocked only in part.", DELETION, "/enforcement/"),
    ((forget_rules, None), "It is not known whether 1 of 2 branches is blocked.", NOT_READ, "/branches"),
    ((read_long_ago,), "It is not known whether the branch is blocked.", "could not be read for a while", "/branches"),
    ((succeed,), "The branch is not blocked yet.", WRITING, ""),
    ((succeed, lose_rule), "None of the 2 branches is blocked.", NO_RULE, "/enforcement/setup"),
    ((succeed_late,), "The branch is not blocked.", "No worker of the service writes checks.", "/status"),
    ((suspend,), "The branch is not blocked.", "The GitHub App is suspended", "/attention"),
]
"""What befalls the branches, the first sentence of the pages, the reason in it, and the page that mends it."""
PATHS = ("/freezes/{freeze}", "/freezes/{freeze}/progress", "/freezes", "/freezes/{freeze}/lift")


def main_of(shown: str) -> str:
    """Return the words of a page after those of its frame, which says as well that everything is frozen."""
    below = shown.partition("Settings")[2] or shown
    return below.partition("See why")[2] or below


class TestFreeze:
    @pytest.mark.parametrize(
        ("path", "causes", "sentence", "reason", "mended_at"),
        [(PATHS[0], *state) for state in STATES] + [(path, *state) for path in PATHS[1:] for state in STATES[3:5]],
    )
    def test_page_says_first_what_is_not_blocked(
        self,
        member: Enter,
        acme: Scene,
        path: str,
        causes: tuple[Cause | None, ...],
        sentence: str,
        reason: str,
        mended_at: str,
    ) -> None:
        freeze = start(acme, *causes)
        page = member("member").open(path.format(freeze=freeze.id))
        shown = main_of(words(page))
        assert sentence in shown
        first = shown.index(sentence)
        assert first < shown.index(reason)
        assert all(shown.find(claim) in {-1, *range(first, len(shown))} for claim in (*CLAIMS, REASON))
        listed = next((at for text, at in page.links.items() if text.startswith("See which branches")), None)
        light = "red" if sentence.endswith(("not blocked.", "is blocked.")) and "known" not in sentence else "amber"
        assert listed == (None if len(causes) == 1 else f"/branches?light={light}")
        assert not mended_at or any(link.startswith(mended_at) for link in page.links.values())

    @pytest.mark.parametrize("path", PATHS[::3])
    def test_page_says_first_that_all_branches_are_blocked(self, member: Enter, acme: Scene, path: str) -> None:
        freeze = start(acme, *BOTH_BLOCKED, enforced_at=factories.now(), first_enforced_at=factories.now())
        shown = words(member("member").open(path.format(freeze=freeze.id)))
        assert "✓ All 2 branches are blocked." in shown
        assert "not blocked" not in shown

    @pytest.mark.parametrize("path", PATHS[::3])
    def test_page_gives_no_check_mark_before_the_freeze_is_enforced(
        self, member: Enter, acme: Scene, path: str
    ) -> None:
        freeze = start(acme, *BOTH_BLOCKED)
        shown = words(member("member").open(path.format(freeze=freeze.id)))
        assert "All 2 branches so far are blocked." in shown
        assert "✓ All" not in shown
        assert "Blocked since" not in shown


class TestEnforcedBefore:
    @pytest.mark.parametrize("path", ["/freezes/{freeze}", "/freezes/{freeze}/progress", "/freezes?show=ended"])
    def test_page_says_nothing_of_blocking_once_a_freeze_has_ended(self, member: Enter, acme: Scene, path: str) -> None:
        times = dict.fromkeys(("first_enforced_at", "ended_at", "released_at"), factories.now())
        freeze = start(acme, lose_rule, None, end_reason="lifted", ended_by=factories.SYSTEM, **times)
        acme.session.execute(text("UPDATE freeze_targets SET state = 'released', operation = 'release'"))
        shown = main_of(words(member("viewer").open(path.format(freeze=freeze.id))))
        assert "All 2 branches are released" in shown
        assert not any(word in shown for word in ("blocked", "enforced from", "✓"))

    def test_page_says_that_the_stop_of_an_ended_freeze_is_left(self, member: Enter, acme: Scene) -> None:
        freeze = start(acme, None, None, end_reason="lifted", ended_by=factories.SYSTEM, ended_at=factories.now())
        acme.session.execute(text("UPDATE freeze_targets SET state = 'released', operation = 'release'"))
        shown = main_of(words(member("viewer").open(f"/freezes/{freeze.id}/progress")))
        assert "Checks are released; GitHub may still refuse merges by a stop" in shown

    @pytest.mark.parametrize("path", PATHS[:3])
    def test_page_says_that_a_freeze_was_enforced(self, member: Enter, acme: Scene, path: str) -> None:
        freeze = start(acme, lose_rule, first_enforced_at=factories.now() - timedelta(minutes=30))
        shown = words(member("viewer").open(path.format(freeze=freeze.id)))
        assert shown.index("The branch is not blocked.") < shown.index("It was enforced from")
        assert "and is not any more" in shown
        assert "Blocked since" not in shown

    def test_page_says_since_when_a_freeze_is_enforced(self, member: Enter, acme: Scene) -> None:
        now = factories.now()
        freeze = start(acme, allow_deletion, enforced_at=now, first_enforced_at=now)
        shown = words(member("viewer").open(f"/freezes/{freeze.id}"))
        first = shown.index("The branch is blocked only in part.")
        assert first < shown.index(DELETION) < shown.index("Blocked since")

    @pytest.mark.parametrize("path", PATHS[:3])
    def test_page_says_since_when_a_stop_holds_a_freeze(self, member: Enter, acme: Scene, path: str) -> None:
        freeze = start(acme, hold, None, blocked_at=factories.now())
        page = member("viewer").open(path.format(freeze=freeze.id))
        shown = words(page)
        assert "✓ All 2 branches are blocked." in shown
        assert "Blocked since" in shown
        assert "by a stop, until all checks are written" in shown
        assert "so far" not in shown

    def test_page_says_since_when_checks_alone_block_after_a_stop(self, member: Enter, acme: Scene) -> None:
        now = factories.now()
        freeze = start(acme, None, blocked_at=now - timedelta(minutes=2), enforced_at=now, first_enforced_at=now)
        shown = words(member("viewer").open(f"/freezes/{freeze.id}"))
        assert shown.index("Blocked since") < shown.index("By checks alone since")
        assert "by a stop" not in shown

    @pytest.mark.parametrize("path", ["/branches/{branch}", "/freezes/{freeze}"])
    def test_page_of_a_branch_says_that_a_stop_holds_it(self, member: Enter, acme: Scene, path: str) -> None:
        freeze = start(acme, hold, blocked_at=factories.now())
        shown = words(member("viewer").open(path.format(freeze=freeze.id, branch=acme.web.id)))
        assert "GitHub refuses every change. A stop holds it until the checks are written." in shown


class TestBranchesOfAFreeze:
    @pytest.mark.parametrize(
        ("cause", "word"),
        [
            (None, "✓ Blocked"),
            (lose_rule, f"Not blocked Why {NO_RULE}"),
            (allow_deletion, f"Blocked in part Why {DELETION}"),
            (forget_rules, f"Not checked yet Why {NOT_READ}"),
            (read_long_ago, "Not checked lately"),
            (succeed, f"Not blocked yet Why {WRITING}"),
        ],
    )
    def test_row_of_a_branch_says_whether_it_is_blocked(
        self, member: Enter, acme: Scene, cause: Cause | None, word: str
    ) -> None:
        freeze = start(acme, cause)
        shown = words(member("viewer").open(f"/freezes/{freeze.id}"))
        assert f"acme/web:main {word}" in shown

    def test_row_of_a_branch_names_who_may_bypass_and_what_is_let_in(self, member: Enter, acme: Scene) -> None:
        freeze = start(acme, None)
        change(acme, acme.web, bypass_actors=[{"type": "Team", "id": 7, "name": "ops", "mode": "always"}])
        pull = factories.pull_request(acme.session, acme.repositories[0], 7)
        factories.exception(acme.session, freeze, pull, acme.web)
        shown = words(member("viewer").open(f"/freezes/{freeze.id}"))
        assert "✓ Blocked Why GitHub refuses every change, except by one actor who may bypass the rule." in shown
        assert "Lets in #7" in shown


class TestOtherPages:
    @pytest.mark.parametrize(
        ("causes", "sentence", "reason"),
        [
            ((lose_rule, None), "1 of 2 frozen branches is not blocked.", NO_RULE),
            ((forget_rules,), "It is not known whether the frozen branch is blocked.", NOT_READ),
            ((succeed,), "The frozen branch is not blocked yet.", WRITING),
        ],
    )
    def test_overview_says_first_what_is_not_blocked(
        self, member: Enter, acme: Scene, causes: tuple[Cause | None, ...], sentence: str, reason: str
    ) -> None:
        freeze = start(acme, *causes)
        factories.freeze(acme.session, acme.organization, [acme.web], reason="Another one")
        viewer = member("viewer")
        for path in ("/", "/overview"):
            shown = main_of(words(viewer.open(path)))
            first = shown.index(sentence)
            assert first < shown.index(reason) < shown.index(freeze.reason)
            assert first < min(shown.find(claim) % len(shown) for claim in (*CLAIMS, "frozen by", "In force"))

    def test_overview_says_that_all_frozen_branches_are_blocked(self, member: Enter, acme: Scene) -> None:
        start(acme, None)
        assert "✓ The frozen branch is blocked." in words(member("viewer").open("/"))

    def test_frame_does_not_claim_that_nothing_can_be_merged(self, member: Enter, acme: Scene) -> None:
        start(acme, *BOTH_BLOCKED)
        viewer = member("viewer")
        shown = words(viewer.open("/audit"))
        assert "Everything is frozen: none of" in shown
        assert "2 watched branches takes a merge. See why" in shown
        lose_rule(acme, acme.web)
        shown = words(viewer.open("/audit"))
        assert "1 of 2 frozen branches is not blocked. Everything is frozen. See why" in shown
        assert "takes a merge" not in shown

    def test_branch_whose_checks_no_worker_writes_does_not_block(self, member: Enter, acme: Scene) -> None:
        start(acme, succeed_late)
        viewer = member("viewer")
        for path in ("", "/doctor"):
            shown = words(viewer.open(f"/branches/{acme.web.id}{path}"))
            assert "Does not block" in shown
            assert "Not blocked yet" not in shown

    @pytest.mark.parametrize(
        ("cause", "sentence", "reason"),
        [
            (allow_deletion, "The branch is blocked only in part.", DELETION),
            (succeed, "The branch is not blocked yet.", WRITING),
        ],
    )
    def test_page_of_a_frozen_branch_says_first_what_is_not_blocked(
        self, member: Enter, acme: Scene, cause: Cause, sentence: str, reason: str
    ) -> None:
        freeze = start(acme, cause)
        viewer = member("viewer")
        shown = main_of(words(viewer.open(f"/branches/{acme.web.id}")))
        assert shown.index(sentence) < shown.index(reason) < shown.index(freeze.reason)
        assert "The reason is at the top of this page." in shown
        assert ("Not blocked yet" in shown) is (cause is succeed)
        assert "Does not block" not in shown
        part = words(viewer.open(f"/branches/{acme.web.id}/doctor"))
        assert ("Not blocked yet" in part, "Does not block" in part) == (cause is succeed, False)
        links, rows = viewer.open("/branches").links, words(viewer.open("/branches"))
        assert (links["See why"], rows.count("Nothing to fix")) == (f"/branches/{acme.web.id}", 1)
        of_repository = main_of(words(viewer.open(f"/repositories/{acme.repositories[0].id}")))
        assert of_repository.index(sentence.replace("branch", "frozen branch", 1)) < of_repository.index("Frozen")

    def test_page_of_a_frozen_branch_says_that_it_is_blocked(self, member: Enter, acme: Scene) -> None:
        start(acme, None)
        change(acme, acme.web, bypass_actors=[{"type": "Team", "id": 7, "name": "ops", "mode": "always"}])
        shown = words(member("viewer").open(f"/branches/{acme.web.id}"))
        assert "✓ The branch is blocked. GitHub refuses every change, except by one actor" in shown

    def test_page_of_an_open_branch_says_nothing_of_being_blocked(self, member: Enter, acme: Scene) -> None:
        viewer = member("viewer")
        for path in (f"/branches/{acme.web.id}", f"/repositories/{acme.repositories[0].id}"):
            shown = main_of(words(viewer.open(path)))
            assert "is blocked" not in shown
            assert "not blocked" not in shown

    @pytest.mark.parametrize(
        ("cause", "sentence", "verdict", "reason"),
        [
            (lose_rule, "The pull request is not blocked.", "must not be merged", NO_RULE),
            (forget_rules, "It is not known whether the pull request is blocked.", "must not be merged", NOT_READ),
            (succeed, "The pull request is not blocked yet.", "must not be merged", WRITING),
            (allow_deletion, "The pull request is blocked only in part.", "must not be merged", DELETION),
            (None, "✓ The pull request is blocked.", "is blocked", ""),
        ],
    )
    def test_look_up_of_a_pull_request_says_first_whether_it_is_blocked(
        self, member: Enter, acme: Scene, cause: Cause | None, sentence: str, verdict: str, reason: str
    ) -> None:
        factories.pull_request(acme.session, acme.repositories[0], 7, head_sha="a" * 40)
        start(acme, cause)
        shown = main_of(words(member("viewer").open("/pulls", ref="acme/web#7")))
        assert shown.index(sentence) < shown.index(f"acme/web#7 {verdict}")
        assert reason in shown

    def test_pull_request_without_a_freeze_says_nothing_of_blocking(self, member: Enter, acme: Scene) -> None:
        factories.pull_request(acme.session, acme.repositories[0], 7)
        lose_rule(acme, acme.web)
        shown = words(member("viewer").open("/pulls", ref="acme/web#7"))
        assert "acme/web#7 may merge" in shown
        assert "blocked." not in shown

    def test_branch_that_was_never_checked_is_not_said_to_block(self, member: Enter, acme: Scene) -> None:
        forget_rules(acme, acme.web)
        viewer = member("viewer")
        for path in ("/branches", f"/branches/{acme.web.id}", f"/repositories/{acme.repositories[0].id}"):
            assert "Not checked yet" in words(viewer.open(path))
        assert "1 is not checked yet 1 blocks" in words(viewer.open("/branches"))

    @pytest.mark.parametrize(("state", "word"), [("suspended", "App suspended"), ("removed", "App uninstalled")])
    def test_branch_that_the_app_does_not_cover_says_so_in_a_word(
        self, member: Enter, acme: Scene, state: str, word: str
    ) -> None:
        acme.session.execute(text("UPDATE installations SET state = :state"), {"state": state})
        viewer = member("viewer")
        for path in ("/branches", f"/branches/{acme.web.id}"):
            assert word in words(viewer.open(path))

    def test_rules_that_were_read_long_ago_are_not_said_to_have_gaps(self, member: Enter, acme: Scene) -> None:
        read_long_ago(acme, acme.web)
        viewer = member("viewer")
        assert "1 is not checked yet" in words(viewer.open("/"))
        assert "Not checked lately" in words(viewer.open("/branches"))

    @pytest.mark.parametrize("path", ["/", "/freezes/{freeze}", "/branches/{branch}", "/pulls?ref=acme/web%237"])
    def test_one_button_mends_what_is_not_blocked(self, member: Enter, acme: Scene, path: str) -> None:
        factories.pull_request(acme.session, acme.repositories[0], 7)
        freeze = start(acme, lose_rule)
        page = member("admin").open(path.format(freeze=freeze.id, branch=acme.web.id))
        first = re.findall(r'<a class="button ?" href="([^"]*)"', page.answer.text)
        assert [each.partition("?")[0] for each in first] == ["/enforcement/setup"]

    def test_step_of_the_rules_is_done_once_rules_require_the_check(self, member: Enter, acme: Scene) -> None:
        viewer = member("viewer")
        done = "Rules require our check on all watched branches."
        assert done in words(viewer.open("/onboarding"))
        change(acme, acme.web, decisive_check=None)
        assert done not in words(viewer.open("/onboarding"))
