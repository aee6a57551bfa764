"""What Slack messages and sentences of mails say of freezes, as another surface of what is blocked."""

import re
from collections.abc import Mapping
from typing import Any

from rules.notifications.sentences import sentence_of
from rules.slack.notices import render
from rules.slack.pages import Pages
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import SYSTEM_CALLER
from services.events.destinations import add_destination
from services.notifications.dispatch import dispatch_due
from services.slack.subscriptions import EVENTS
from tests import factories
from tests.harness.blocking_surfaces import SAYS_BLOCKED, Said
from tests.harness.github_harness import Harness

_EVERY = re.compile(r"\b(\d+) of \1 (?:blocked|enforced)")
Frozen = Mapping[tuple[int, str], Said]


class Messages:
    """A subscribed channel of an organisation, and what is new in it and in the audit log since the last look."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.shown: dict[str, Any] = {}
        """The text of each message of freezes, by its id."""
        self.seen = 0
        """The number of the last sealed audit entry."""
        session, organization = harness.session, harness.organization
        factories.slack_connection(session, organization)
        subscription = factories.slack_subscription(session, organization, events=list(EVENTS))
        session.commit()
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            uow.bind_organization(organization.id)
            add_destination(uow, subscription.id, "slack")

    def dispatch(self) -> None:
        """Seal what was recorded, and give it to the channel."""
        seal_entries(self.harness.jobs)
        while dispatch_due(self.harness.jobs):
            pass

    def add_claims(self, frozen: Frozen, *, sure: bool) -> None:
        """Add what was newly said to the surfaces of each branch.

        `sure`: nothing is untold, also before what follows from an event was recorded; else mails do not count.
        """
        before, messages = self.shown, self._messages()
        self.shown = {message: text for message, text, _ids in messages}
        for message, text, ids in messages:
            if before.get(message) != text:
                _add(frozen, ids, "Slack", _claimed_in(text))
        for freeze_id, sentence in self._sentences():
            if sure:
                _add(frozen, [freeze_id], "mail", _claimed_in(sentence))

    def check_last_words(self, frozen: Frozen) -> None:
        """Check that the last that Slack says of each freeze in force is so, also where nothing new happens."""
        for _message, text, ids in self._messages():
            claimed = _claimed_in(text)
            for (_, branch), said in frozen.items():
                if claimed and any(f"target of {each}" in said.states for each in ids):
                    assert said.states["facts"] in SAYS_BLOCKED, f"Slack says {text!r} of {branch}: {said}"

    def _messages(self) -> list[tuple[str, str, list[str]]]:
        """Return id, text and freezes of the messages of freezes."""
        rows = self.harness.sql("SELECT id, facts, subjects FROM slack_messages WHERE kind = 'freezes' ORDER BY id")
        return [
            (
                row.id,
                _text_of(render("freezes", row.facts, Pages("http://web.test", self.harness.organization.id))),
                row.subjects,
            )
            for row in rows
        ]

    def _sentences(self) -> list[tuple[str, str]]:
        """Return the last new sentence on each freeze: its id, and what a mail says."""
        rows = self.harness.sql(
            "SELECT s.sequence, a.action, a.actor, a.target, a.details FROM audit_seals s "
            "JOIN audit_entries a ON a.id = s.entry_id AND a.action = ANY(:actions) "
            "WHERE s.organization_id = :organization AND s.sequence > :seen ORDER BY s.sequence",
            actions=["freeze.blocked", "freeze.enforced", "freeze.unprotected"],
            organization=self.harness.organization.id,
            seen=self.seen,
        )
        self.seen = max([self.seen, *(row.sequence for row in rows)])
        said = {row.target["id"]: sentence_of(row.action, row.actor, row.target, row.details) for row in rows}
        return list(said.items())


def _text_of(message: Any) -> str:
    """Return everything that a message shows."""
    return f"{message.text} {message.blocks}"


def _claimed_in(text: str) -> str | None:
    """Return the state of all branches that a text claims; None if it claims none."""
    if "fully enforced" in text:
        return "blocked"
    if "blocks merges into all" in text:
        return "partly" if " only in part" in text else "blocked"
    return "partly" if "· enforced " in text or "· blocked since " in text or _EVERY.search(text) else None


def _add(frozen: Frozen, freeze_ids: list[str], surface: str, claimed: str | None) -> None:
    """Add what a text claims of all branches of freezes."""
    for said in frozen.values() if claimed else ():
        for freeze_id in freeze_ids:
            if f"target of {freeze_id}" in said.states:
                said.states[f"{surface} on {freeze_id}"] = claimed or ""
