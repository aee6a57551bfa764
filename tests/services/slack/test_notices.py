"""Notices: one message for a freeze, or for all windows of a minute; what follows changes that message."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.enforcement import BranchEnforcement
from models.freezes import Freeze
from models.organizations import Organization
from models.repositories import Repository, WatchedBranch
from models.slack import SlackSubscription
from rules.slack.notices import render
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.slack.delivery import MESSAGES
from tests import factories
from tests.harness.wakeups import RecordedWakeups
from tests.services.slack.conftest import PAGES, Messages, Take


def of_freeze(action: str, freeze: Freeze) -> tuple[str, str, str, str]:
    """Return an event of a freeze."""
    return action, "freeze", freeze.id, freeze.reason


@dataclass(frozen=True, slots=True)
class Notices:
    """A channel that is given events, and the messages that it gets."""

    session: Session
    acme: Organization
    channel: SlackSubscription
    take: Take
    messages: Messages

    def freeze(self, branches: Iterable[WatchedBranch] = (), **columns: Any) -> Freeze:
        return factories.freeze(self.session, self.acme, branches, **columns)


@pytest.fixture
def slack(session: Session, acme: Organization, channel: SlackSubscription, take: Take, messages: Messages) -> Notices:
    return Notices(session, acme, channel, take, messages)


class TestFreezes:
    def test_freeze_has_one_message_that_its_end_updates(self, slack: Notices, wakeups: RecordedWakeups) -> None:
        branches = [factories.watched(slack.session, slack.acme, f"acme/{name}") for name in ("api", "web")]
        freeze = slack.freeze(branches, reason="Quarter-end close")
        slack.take(of_freeze("freeze.started", freeze))
        [message] = slack.messages()
        assert (message.kind, message.subjects, message.reply_to) == ("freezes", [freeze.id], None)
        shown = message.facts["shown"][0]
        assert (shown["branches"], shown["repositories"]) == (2, 2)
        assert shown["names"] == ["acme/api:main", "acme/web:main"]
        assert (shown["enforcedAt"], shown["endedAt"]) == (None, None)
        assert "slack" in wakeups.sent

        row = slack.session.get_one(Freeze, freeze.id)
        row.enforced_at = row.ended_at = factories.now()
        row.end_reason, row.ended_by = "lifted", {"type": "user", "id": "usr_1", "name": "Ada"}
        slack.take(of_freeze("freeze.enforced", freeze), of_freeze("freeze.lifted", freeze))
        message, end = slack.messages()
        assert (message.facts["enforced"], message.facts["ended"]) == (1, 1)
        assert (end.kind, end.reply_to, end.facts["total"]) == ("ends", message.id, 1)

    def test_message_of_a_freeze_is_redrawn_when_branches_are_not_blocked(self, slack: Notices) -> None:
        branches = [factories.watched(slack.session, slack.acme, f"acme/{name}") for name in ("api", "web")]
        for branch in branches:
            factories.branch_enforcement(slack.session, branch)
        freeze = slack.freeze(branches, enforced_at=factories.now())
        slack.take(of_freeze("freeze.started", freeze))
        [message] = slack.messages()
        assert message.facts["enforced"] == 1
        assert message.facts["shown"][0]["blocking"] == {"states": {"blocked": 2}, "passing": False, "gaps": []}

        found = slack.session.get_one(BranchEnforcement, branches[0].id)
        found.decisive_check = None
        gap = {"state": "not_blocked", "code": "no_rule", "branchCount": 1}
        details = {"targets": 2, "blocked": 1, "unprotected": 1, "gaps": {"no_rule": 1}, "causes": ["no_rule"]}
        slack.take(of_freeze("freeze.unprotected", freeze), **details)
        message, note = slack.messages()
        assert (message.facts["enforced"], message.facts["unprotected"]) == (0, 1)
        shown = message.facts["shown"][0]
        assert shown["enforcedAt"] is None
        assert shown["blocking"] == {"states": {"blocked": 1, "not_blocked": 1}, "passing": False, "gaps": [gap]}
        assert note.facts["action"] == "freeze.unprotected"
        told = note.facts["shown"][0]["told"]
        assert told.startswith("1 of 2 branches is not blocked. No rule in force at GitHub requires our check")

        found.rules_read_at = factories.now() - timedelta(hours=1)
        slack.take(of_freeze("freeze.enforced", freeze))
        assert (slack.messages()[0].facts["unprotected"], slack.messages()[0].facts["unknown"]) == (0, 1)

    def test_message_has_since_when_a_stop_blocks(self, slack: Notices) -> None:
        branch = factories.watched(slack.session, slack.acme, "acme/api")
        reading = factories.branch_enforcement(slack.session, branch)
        factories.head_check(slack.session, branch, "a" * 40, "success")
        freeze = slack.freeze([branch])
        slack.take(of_freeze("freeze.started", freeze))
        reading.stop, freeze.blocked_at = "change-freeze/stop:1", factories.now()
        slack.take(of_freeze("freeze.blocked", freeze))
        [message] = slack.messages()
        assert (message.facts["blocked"], message.facts["enforced"]) == (1, 0)
        [shown] = message.facts["shown"]
        assert (shown["blockedAt"] is None, shown["enforcedAt"]) == (False, None)
        assert "(a stop) · being enforced" in str(render("freezes", message.facts, PAGES))

        reading.stop = None
        slack.take(of_freeze("freeze.unprotected", freeze), targets=1, unprotected=1, late=1, gaps={}, causes=["late"])
        [message, _] = slack.messages()
        assert (message.facts["blocked"], message.facts["shown"][0]["blockedAt"]) == (0, None)

    def test_message_is_redrawn_when_a_freeze_is_not_known_to_block_any_more(self, slack: Notices) -> None:
        branch = factories.watched(slack.session, slack.acme, "acme/api")
        reading = factories.branch_enforcement(slack.session, branch)
        freeze = slack.freeze([branch], enforced_at=factories.now())
        slack.take(of_freeze("freeze.started", freeze))
        [message] = slack.messages()
        assert "fully enforced" in str(render("freezes", message.facts, PAGES))

        reading.rules_read_at = factories.now() - timedelta(hours=1)
        details = {"targets": 1, "unknown": 1, "gaps": {"outdated": 1}, "causes": ["outdated"]}
        slack.take(of_freeze("freeze.unprotected", freeze), **details)
        message, note = slack.messages()
        shown = str(render("freezes", message.facts, PAGES)) + str(render("note", note.facts, PAGES))
        assert "fully enforced" not in shown
        assert "not enforced" in shown
        assert "A freeze does not block" not in shown
        title = ":large_orange_circle: *It is not known whether a freeze blocks all of its branches*"
        assert title in str(render("note", note.facts, PAGES))

    def test_windows_of_one_minute_share_one_message_across_batches(self, slack: Notices) -> None:
        schedule = factories.schedule(slack.session, slack.acme)
        branch = factories.watched(slack.session, slack.acme)
        freezes = []
        for index in range(12):
            starts_at = factories.now().replace(second=0, microsecond=0) + timedelta(seconds=index)
            occurrence = factories.occurrence(slack.session, schedule, starts_at=starts_at)
            terms = {"source": "schedule", "schedule_id": schedule.id, "occurrence_id": occurrence.id}
            freezes.append(slack.freeze([branch], **terms))
        slack.take(*[of_freeze("freeze.started", each) for each in freezes[:7]])
        slack.take(*[of_freeze("freeze.started", each) for each in freezes[7:]])
        [message] = slack.messages()
        assert (message.facts["total"], len(message.facts["shown"])) == (12, 10)
        slack.take(*[of_freeze("freeze.expired", each) for each in freezes])
        _, end = slack.messages()
        assert (end.reply_to, end.facts["total"]) == (message.id, 12)

    def test_freezes_of_people_have_messages_of_their_own(self, slack: Notices) -> None:
        freezes = [slack.freeze() for _ in range(3)]
        slack.take(*[of_freeze("freeze.started", each) for each in freezes])
        assert [message.subjects for message in slack.messages()] == [[each.id] for each in freezes]

    def test_end_without_a_message_of_its_beginning_is_posted_by_itself(self, slack: Notices) -> None:
        slack.take(of_freeze("freeze.expired", slack.freeze()))
        [end] = slack.messages()
        assert (end.kind, end.reply_to) == ("ends", None)


class TestChoices:
    def test_channel_gets_only_what_it_is_subscribed_to(self, slack: Notices) -> None:
        slack.channel.events = ["enforcement.lost"]
        freeze = slack.freeze()
        lost = ("enforcement.lost", "branch", "wbr_1", "acme/web:main")
        restored = ("enforcement.restored", "branch", "wbr_1", "acme/web:main")
        slack.take(of_freeze("freeze.started", freeze), of_freeze("freeze.expired", freeze), lost, restored)
        assert [message.facts["action"] for message in slack.messages()] == ["enforcement.lost", "enforcement.restored"]

    def test_channel_with_patterns_gets_only_what_concerns_its_repositories(self, slack: Notices) -> None:
        slack.channel.patterns = ["acme/*", "!acme/docs"]
        web, docs = (factories.watched(slack.session, slack.acme, f"acme/{name}") for name in ("web", "docs"))
        mine = slack.freeze([web, docs])
        others = slack.freeze([docs])
        slack.take(
            of_freeze("freeze.started", mine),
            of_freeze("freeze.started", others),
            of_freeze("freeze.expired", others),
            ("freeze.bypassed", "branch", web.id, "acme/web:main"),
            ("freeze.bypassed", "branch", docs.id, "acme/docs:main"),
        )
        found = [(message.kind, message.subjects) for message in slack.messages()]
        assert found == [("freezes", [mine.id]), ("note", [web.id])]

    def test_paused_channel_gets_nothing(self, slack: Notices) -> None:
        slack.channel.paused_at, slack.channel.paused_why = factories.now(), "is_archived"
        slack.take(of_freeze("freeze.started", slack.freeze()))
        assert slack.messages() == []


class TestWindows:
    def test_thousand_upcoming_windows_make_one_message(self, slack: Notices) -> None:
        schedule = factories.schedule(slack.session, slack.acme)
        window = {"scheduleId": schedule.id, "scheduleName": "W", "startsAt": "2099-01-01T00:00:00Z"}
        windows = [
            {**window, "occurrenceId": f"occ_{index}", "endsAt": "2099-01-02T00:00:00Z"} for index in range(1000)
        ]
        upcoming = ("window.upcoming", "window", "occ_0", "")
        slack.take(upcoming, minutes=60, windows=windows[:600])
        slack.take(upcoming, minutes=60, windows=windows[600:])
        [message] = slack.messages()
        assert (message.facts["total"], len(message.facts["shown"])) == (1000, 10)
        assert message.useful_until is not None


class TestRequests:
    def test_request_is_redrawn_when_it_is_decided_anywhere(self, slack: Notices) -> None:
        branch = factories.watched(slack.session, slack.acme)
        freeze = slack.freeze([branch])
        ada = {"type": "user", "id": "usr_1", "name": "Ada"}
        repository = slack.session.get_one(Repository, branch.repository_id)
        pull = factories.pull_request(slack.session, repository)
        pending = {"decision": None, "decided_by": None, "decided_at": None}
        requested = {"requested_by": ada, "requested_at": factories.now()}
        row = factories.exception(slack.session, freeze, pull, branch, **pending, **requested)
        entry = ("exception", row.request_group_id, "acme/web#7")
        slack.take(("exception.requested", *entry), rows=[{"id": row.id}])
        [message] = slack.messages()
        assert (message.kind, message.facts["by"], message.facts["decided"]) == ("request", "Ada", None)

        grace = {"type": "user", "id": "usr_2", "name": "Grace"}
        row.decision, row.decided_by, row.decided_at, row.decision_reason = "denied", grace, factories.now(), "Too late"
        slack.take(("exception.denied", *entry), rows=[{"id": row.id}])
        [message] = slack.messages()
        decided = message.facts["decided"]
        assert (decided["how"], decided["by"], decided["reason"]) == ("denied", "Grace", "Too late")


class TestTurns:
    def test_next_message_waits_for_the_second_after_the_last(self, slack: Notices) -> None:
        sent_at = factories.now() + timedelta(seconds=30)
        factories.slack_message(slack.session, slack.channel, sent_at=sent_at)
        slack.take(of_freeze("freeze.started", slack.freeze()))
        assert slack.messages()[-1].due_at == sent_at + timedelta(seconds=1)

    @pytest.mark.usefixtures("channel")
    def test_message_that_was_given_up_stays_so_when_its_freeze_ends(
        self, slack: Notices, jobs: UnitOfWorkFactory
    ) -> None:
        freeze = slack.freeze()
        slack.take(of_freeze("freeze.started", freeze))
        slack.messages()[0].due_at = None
        slack.session.commit()
        slack.take(of_freeze("freeze.enforced", freeze))
        assert slack.messages()[0].due_at is None
        with jobs.open(SYSTEM_CALLER) as uow:
            assert not MESSAGES.has_work(uow)
