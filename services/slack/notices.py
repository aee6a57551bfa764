"""Notices: what happened becomes messages of subscribed channels, and changes those that were posted before.

Events that belong together share a message, which the name of their bundle finds: a freeze that a person started, all
freezes whose windows begin in one minute, all other events of one action within a minute. What follows later, such as
the decision on a request, is shown in the same message, and the end of a freeze in the thread of its message. A message
stores its subjects (the ids of what it is about) and the facts that it shows. A job posts and updates messages
(`services/slack/delivery.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from models.schedules import Schedule
from models.slack import SlackMessage, SlackSubscription
from rules.freezes.blocking_words import first_gap, meaning_of, numbers_of_audit
from rules.freezes.globs import Glob, compile_globs
from rules.ids import new_id
from rules.notifications.kinds import UPCOMING
from rules.slack.notices import MAX_SHOWN
from rules.time.instants import format_instant
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import REQUEST
from services.events.event import Event
from services.freezes.scopes import resolve
from services.slack.connections import find_connection
from services.slack.facts import (
    Facts,
    freezes_facts,
    freezes_in,
    request_facts,
    shown_freezes,
    window_starts,
)

JOB = "slack"
PAUSE = timedelta(seconds=1)
"""Between two messages of one channel: Slack refuses more."""
MAX_DELAY = timedelta(hours=1)
"""After which it is useless to post that a freeze has begun or ended."""
_KIND_SUBSCRIBED_TO = {
    "exception.used": "exception.decided",
    "enforcement.restored": "enforcement.lost",
    "enforcement.late": "enforcement.lost",
}
"""For a kind of notification without a subscription of its own: the kind whose subscribers get it."""

# A message that was given up stays so; one that is leased is due again when its lease is released.
_CHANGE = text(f"""
    UPDATE slack_messages m SET subjects = :subjects, facts = :facts,
        due_at = CASE WHEN m.ts IS NOT NULL OR m.due_at IS NOT NULL THEN {REQUEST.format(row="m")} END
    WHERE m.id = :id
""").bindparams(bindparam("facts", type_=JSONB))  # noqa: S608 - a constant


def take_events(uow: UnitOfWork, destination_id: str, events: Sequence[Event]) -> None:
    """Write and change the messages of a subscribed channel; none while it is paused or no workspace is connected."""
    subscription = uow.session.get(SlackSubscription, destination_id)
    connection = find_connection(uow)
    if subscription is None or subscription.paused_at is not None or connection is None:
        return
    if connection.lost_at is None:
        _Channel(uow, subscription).take(events)
        uow.wake(JOB)


def redraw(uow: UnitOfWork, subject_id: str) -> None:
    """Have all messages about a freeze or an exception updated, so that they show it as it is now."""
    query = select(SlackMessage).where(
        SlackMessage.organization_id == uow.organization, SlackMessage.subjects.contains([subject_id])
    )
    for message in uow.session.scalars(query.order_by(SlackMessage.position).with_for_update()):
        _refresh(uow, message)


def _refresh(uow: UnitOfWork, message: SlackMessage) -> None:
    """Read the facts of a locked message again, and have it updated."""
    if message.kind == "freezes":
        _change(uow, message, message.subjects, freezes_facts(uow, message.subjects))
    elif message.kind == "request":
        facts = request_facts(uow, message.subjects)
        if facts is not None:
            _change(uow, message, message.subjects, facts)


def _change(uow: UnitOfWork, message: SlackMessage, subjects: Sequence[str], facts: Mapping[str, Any]) -> None:
    values = {"id": message.id, "subjects": list(subjects), "facts": facts, "now": uow.now}
    uow.session.execute(_CHANGE, values)
    uow.session.expire(message)
    uow.wake(JOB)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A message to write, or what is added to the message of its bundle."""

    kind: str
    """The kind of message, which `rules/slack/notices.py` renders."""
    bundle: str
    """Unique in the channel."""
    subjects: Sequence[str]
    facts_of: Callable[[Sequence[str], Mapping[str, Any] | None], Facts]
    """Returns the facts, given all subjects of the message and the facts that it had."""
    useful_until: datetime | None = None
    reply_to: str | None = None


class _Channel:
    """The messages of one subscribed channel."""

    def __init__(self, uow: UnitOfWork, subscription: SlackSubscription) -> None:
        self._uow = uow
        self._subscription = subscription
        patterns = subscription.patterns
        self._repositories: Glob | None = None if patterns is None else compile_globs(patterns, "repository", "")

    def take(self, events: Sequence[Event]) -> None:
        """Write and change messages, those of beginnings before those of ends."""
        by_kind: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            by_kind[event.kind or ""].append(event)
        self._start(by_kind.pop("freeze.started", []))
        changed = [*by_kind.pop("freeze.blocked", []), *by_kind.pop("freeze.enforced", [])]
        self._redraw([*changed, *by_kind.get("enforcement.late", [])])
        self._end(by_kind.pop("freeze.ended", []))
        for event in by_kind.pop("exception.requested", []):
            self._request(event)
        for event in by_kind.pop("exception.decided", []):
            self._decide(event)
        for event in by_kind.pop(UPCOMING, []):
            self._announce(event)
        for kind, others in by_kind.items():
            if self._wants(kind):
                self._note(others)

    def _wants(self, kind: str) -> bool:
        return _KIND_SUBSCRIBED_TO.get(kind, kind) in self._subscription.events

    def _start(self, events: Sequence[Event]) -> None:
        """Post freezes that started; those whose windows begin in the same minute share a message."""
        if not self._wants("freeze.started"):
            return
        ids = self._covering([event.target["id"] for event in events])
        starts = window_starts(self._uow, ids)
        bundles: dict[str, list[str]] = defaultdict(list)
        for freeze_id in ids:
            bundles[f"windows {_minute(starts[freeze_id])}" if freeze_id in starts else freeze_id].append(freeze_id)
        for bundle, subjects in bundles.items():
            self._write(_Draft("freezes", bundle, subjects, self._freezes_facts, self._uow.now + MAX_DELAY))

    def _freezes_facts(self, subjects: Sequence[str], _: Mapping[str, Any] | None) -> Facts:
        return freezes_facts(self._uow, subjects)

    def _redraw(self, events: Sequence[Event]) -> None:
        """Show in the messages of freezes whether they are enforced now."""
        for message in self._messages_about("freezes", [event.target["id"] for event in events]):
            _refresh(self._uow, message)

    def _end(self, events: Sequence[Event]) -> None:
        """Update the messages of freezes that have ended, and post the end in their threads."""
        ended = {event.target["id"]: _minute(event.at) for event in events}
        parents: dict[str, str] = {}
        for message in self._messages_about("freezes", ended):
            parents |= dict.fromkeys(ended.keys() & set(message.subjects), message.id)
            _refresh(self._uow, message)
        if not self._wants("freeze.ended"):
            return
        without_message = self._covering([freeze_id for freeze_id in ended if freeze_id not in parents])
        bundles: dict[tuple[str, str | None], list[str]] = defaultdict(list)
        for freeze_id, minute in ended.items():
            if freeze_id in parents or freeze_id in without_message:
                bundles[minute, parents.get(freeze_id)].append(freeze_id)
        for (minute, parent), subjects in bundles.items():
            bundle = f"ends {parent or ''} {minute}"
            useful_until = self._uow.now + MAX_DELAY
            self._write(_Draft("ends", bundle, subjects, self._ends_facts, useful_until, parent))

    def _ends_facts(self, subjects: Sequence[str], _: Mapping[str, Any] | None) -> Facts:
        return {"total": len(subjects), "shown": shown_freezes(self._uow, subjects[:MAX_SHOWN])}

    def _request(self, event: Event) -> None:
        """Post a request for an exception, with its buttons."""
        ids = _exceptions_of(event)
        facts = request_facts(self._uow, ids)
        if facts is not None and self._wants("exception.requested") and self._covers(facts["repository"]):
            self._write(_Draft("request", f"request {ids[0]}", ids, lambda _subjects, _before: facts))

    def _decide(self, event: Event) -> None:
        """Show a decision in the message of its request, or else in one of its own."""
        ids = _exceptions_of(event)
        messages = self._messages_about("request", ids)
        for message in messages:
            _refresh(self._uow, message)
        facts = request_facts(self._uow, ids)
        if messages or facts is None or facts["decided"] is None:
            return
        if self._wants("exception.decided") and self._covers(facts["repository"]):
            self._write(_Draft("decision", f"decision {event.entry_id}", ids, lambda _subjects, _before: facts))

    def _announce(self, event: Event) -> None:
        """Announce windows, in the message of those that begin in the same minute, if there is one."""
        windows = [dict(window) for window in event.details["windows"] if self._reaches(window["scheduleId"])]
        if not windows or not self._wants(UPCOMING):
            return
        starts_at = datetime.fromisoformat(windows[0]["startsAt"])
        minutes = event.details["minutes"]

        def facts_of(subjects: Sequence[str], before: Mapping[str, Any] | None) -> Facts:
            shown = [*(before or {}).get("shown", ()), *windows][:MAX_SHOWN]
            return {"minutes": minutes, "total": len(subjects), "shown": shown}

        ids = [window["occurrenceId"] for window in windows]
        self._write(_Draft("windows", f"upcoming {minutes} {_minute(starts_at)}", ids, facts_of, starts_at))

    def _note(self, events: Sequence[Event]) -> None:
        """Post events of the same action within a minute as one message."""
        bundles: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in self._covered(events):
            bundles[event.action, _minute(event.at)].append(event)
        for (action, minute), together in bundles.items():
            ids = [event.target["id"] for event in together]
            self._write(_Draft("note", f"{action} {minute}", ids, partial(_note_facts, action, together)))

    def _covered(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that are about repositories of the channel."""
        freezes = [event.target["id"] for event in events if event.target["type"] == "freeze"]
        covering = set(self._covering(freezes))
        return [
            event
            for event in events
            if (
                event.target["id"] in covering
                if event.target["type"] == "freeze"
                else self._covers(event.target["name"].partition("#")[0].partition(":")[0])
            )
        ]

    def _covering(self, freeze_ids: Sequence[str]) -> list[str]:
        """Return the freezes that cover a repository of the channel, in the given order."""
        if self._repositories is None or not freeze_ids:
            return list(freeze_ids)
        found = freezes_in(self._uow, freeze_ids, self._repositories)
        return [freeze_id for freeze_id in freeze_ids if freeze_id in found]

    def _covers(self, repository: str) -> bool:
        return self._repositories is None or self._repositories.matches(repository)

    def _reaches(self, schedule_id: str) -> bool:
        """True if the scope of a schedule reaches a repository of the channel."""
        if self._repositories is None:
            return True
        schedule = self._uow.session.get(Schedule, schedule_id)
        if schedule is None:
            return False
        branches = resolve(self._uow, schedule.scope, stored=True).branches
        return any(self._repositories.matches(branch.repository) for branch in branches)

    def _messages_about(self, kind: str, subjects: Iterable[str]) -> Sequence[SlackMessage]:
        """Return the messages of the channel about any of these, locked."""
        query = select(SlackMessage).where(
            SlackMessage.subscription_id == self._subscription.id,
            SlackMessage.kind == kind,
            SlackMessage.subjects.overlap(list(subjects)),
        )
        return self._uow.session.scalars(query.order_by(SlackMessage.position).with_for_update()).all()

    def _write(self, draft: _Draft) -> None:
        """Add a message, or add its subjects to that of its bundle."""
        existing = self._find_bundle(draft.bundle)
        if existing is not None:
            subjects = list(dict.fromkeys([*existing.subjects, *draft.subjects]))
            _change(self._uow, existing, subjects, draft.facts_of(subjects, existing.facts))
            return
        self._uow.session.add(
            SlackMessage(
                id=new_id("slm"),
                organization_id=self._uow.organization,
                subscription_id=self._subscription.id,
                kind=draft.kind,
                bundle=draft.bundle,
                subjects=list(draft.subjects),
                facts=draft.facts_of(draft.subjects, None),
                useful_until=draft.useful_until,
                reply_to=draft.reply_to,
                created_at=self._uow.now,
                due_at=self._next_send_at(),
                attempts=0,
            )
        )
        self._uow.session.flush()

    def _find_bundle(self, bundle: str) -> SlackMessage | None:
        query = select(SlackMessage).where(
            SlackMessage.subscription_id == self._subscription.id, SlackMessage.bundle == bundle
        )
        return self._uow.session.scalars(query.with_for_update()).one_or_none()

    def _next_send_at(self) -> datetime:
        """Return when the channel may get its next message."""
        sent = select(func.max(SlackMessage.sent_at)).where(SlackMessage.subscription_id == self._subscription.id)
        last = self._uow.session.scalar(sent)
        return self._uow.now if last is None else max(self._uow.now, last + PAUSE)


def _note_facts(
    action: str, events: Sequence[Event], _subjects: Sequence[str], before: Mapping[str, Any] | None
) -> Facts:
    earlier = before or {"total": 0, "shown": []}
    shown = [{name: event.target[name] for name in ("type", "id", "name")} | _told(event) for event in events]
    return {
        "action": action,
        "total": earlier["total"] + len(events),
        "shown": [*earlier["shown"], *shown][:MAX_SHOWN],
    }


def _told(event: Event) -> Facts:
    """Return what a message says of a freeze that does not block: the numbers of branches, and the first reason.

    `unknown`: whether that is only not known.
    """
    if event.action != "freeze.unprotected":
        return {}
    gap = first_gap(event.details.get("gaps") or {}, event.details.get("causes") or ())
    sentences = [f"{each.text}." for each in numbers_of_audit(event.details).statements if each.state != "blocked"]
    told = " ".join([*sentences, *([meaning_of(gap)] if gap else [])])
    return {"told": told, "unknown": not event.details.get("unprotected")}


def _exceptions_of(event: Event) -> list[str]:
    """Return the ids of the exceptions that an event is about: of a request, one for each freeze."""
    return [row["id"] for row in event.details.get("rows", ())] or [event.target["id"]]


def _minute(at: datetime) -> str:
    """Return the minute of a time, as text."""
    return format_instant(at.replace(second=0, microsecond=0))
