"""Mails of events: one mail to each member who has chosen at least one of the events.

A member gets no mail of what they did themselves, nor of what happened before they joined. A former member gets none.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import or_, select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.notifications import MailChoice
from models.organizations import Membership, Organization, User
from rules import web_addresses
from rules.access.organization_settings import OrganizationSettings
from rules.access.permissions import Role
from rules.notifications.kinds import BY_IMPORTANCE, UPCOMING
from rules.notifications.links import LinkedPage, in_organization, page_of, page_of_several
from rules.notifications.mails import MailReader, default_kinds
from rules.notifications.sentences import sentence_of, sentence_of_window
from rules.notifications.subjects import name_of, subject_of
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import UnitOfWork
from services.events.event import Event
from services.freezes.scope_names import named_scopes
from services.mail.outbox import enqueue_mail

MAX_LISTED = 20
"""Events that one mail lists; it says how many there are besides."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What one mail says of one event, or of one window."""

    text: str
    event: Event
    target: Mapping[str, Any]
    """The thing that it is about: of a window, its schedule."""
    name: str
    """What a subject calls that thing."""

    @property
    def page(self) -> LinkedPage:
        """Return the page that shows it."""
        return page_of(self.event.action, self.target)


@dataclass(frozen=True, slots=True)
class _Member:
    reader: MailReader
    address: str
    joined_at: datetime
    remind_before: frozenset[int]
    """How many minutes before a window begins they want a mail."""


def take_events(uow: UnitOfWork, destination_id: str, events: Sequence[Event]) -> None:  # noqa: ARG001 - a TakeEvents
    """Queue the mails of events to the members of the organisation, which is the destination."""
    requesters, scopes = _requesters(uow, events), _scopes(uow, events)
    organization = uow.session.get_one(Organization, uow.organization)
    for member in _members(uow, organization):
        lines = [line for event in events for line in _lines(member, event, requesters, scopes)]
        if lines:
            _write(uow, organization, member.address, lines)


def _members(uow: UnitOfWork, organization: Organization) -> list[_Member]:
    approval = OrganizationSettings.from_json(organization.settings).approval
    query = (
        select(Membership, User.email, MailChoice)
        .join(User, User.id == Membership.user_id)
        .outerjoin(
            MailChoice,
            (MailChoice.organization_id == Membership.organization_id) & (MailChoice.user_id == Membership.user_id),
        )
        .where(Membership.organization_id == organization.id)
        .order_by(User.email)
    )
    found = []
    for membership, email, choice in uow.session.execute(query):
        role = cast("Role", membership.role)
        kinds = default_kinds(role) if choice is None or choice.kinds is None else choice.kinds
        reader = MailReader(membership.user_id, role, frozenset(kinds), approval)
        minutes = frozenset(choice.remind_before if choice is not None else ())
        found.append(_Member(reader, email, membership.created_at, minutes))
    return found


def _requesters(uow: UnitOfWork, events: Sequence[Event]) -> Mapping[str, frozenset[str]]:
    """Return the users who requested the exceptions that were decided, by the id of the exception and of its group."""
    named = {str(event.target["id"]) for event in events if event.kind == "exception.decided"}
    if not named:
        return {}
    columns = PullRequestException
    query = select(columns.id, columns.request_group_id, columns.requested_by).where(
        columns.organization_id == uow.organization,
        or_(columns.id.in_(named), columns.request_group_id.in_(named)),
        columns.requested_by["type"].astext == "user",
    )
    requesters: dict[str, set[str]] = defaultdict(set)
    for exception_id, group_id, requested_by in uow.session.execute(query):
        for key in (exception_id, group_id):
            requesters[key].add(requested_by["id"])
    return {key: frozenset(user_ids) for key, user_ids in requesters.items()}


def _scopes(uow: UnitOfWork, events: Sequence[Event]) -> Mapping[str, Mapping[str, Any]]:
    """Return the scopes of the freezes that events are about, as they are shown, by the ids of the freezes."""
    named = {str(event.target["id"]) for event in events if event.target["type"] == "freeze"}
    if not named:
        return {}
    query = select(Freeze.id, Freeze.scope).where(Freeze.organization_id == uow.organization, Freeze.id.in_(named))
    found = uow.session.execute(query).all()
    shown = named_scopes(uow, [row.scope for row in found])
    return {row.id: scope for row, scope in zip(found, shown, strict=True)}


def _lines(
    member: _Member, event: Event, requesters: Mapping[str, frozenset[str]], scopes: Mapping[str, Mapping[str, Any]]
) -> list[_Line]:
    """Return what a mail to the member says of an event: nothing if they do not want it."""
    if event.at < member.joined_at:
        return []
    if event.kind == UPCOMING:
        return [
            _Line(
                sentence_of_window(window),
                event,
                {"type": "schedule", "id": window["scheduleId"]},
                window["scheduleName"],
            )
            for window in event.details["windows"]
            if member.remind_before.intersection(window["remindBefore"])
        ]
    requested_by = requesters.get(str(event.target["id"]), frozenset())
    if event.kind is None or not member.reader.wants(event.kind, event.actor.get("id"), requested_by):
        return []
    text = sentence_of(event.action, event.actor, event.target, event.details)
    return [_Line(text, event, event.target, name_of(event.target, scopes.get(str(event.target["id"]))))]


def _write(uow: UnitOfWork, organization: Organization, address: str, lines: Sequence[_Line]) -> None:
    lines = sorted(lines, key=lambda line: BY_IMPORTANCE.index(line.event.kind or ""))
    first, pages = lines[0], {line.page for line in lines}
    listed = [line.text for line in lines[:MAX_LISTED]]
    if len(lines) > MAX_LISTED:
        listed.append(f"and {len(lines) - MAX_LISTED} more")
    page = pages.pop() if len(pages) == 1 else page_of_several({line.target["type"] for line in lines})
    web = uow.ports[WebOrigin].url
    enqueue_mail(
        uow,
        address,
        "notice",
        what=subject_of(first.event.action, first.event.details, first.name, len(lines) - 1),
        organization=organization.name,
        lines=listed,
        url=f"{web}{in_organization(page.path, organization.id)}",
        action=page.action,
        settings_url=f"{web}{in_organization(web_addresses.NOTIFICATIONS, organization.id)}",
    )
