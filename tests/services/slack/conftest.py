"""A channel of acme that is subscribed, and the jobs that write and send its messages."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.organizations import Organization
from models.slack import SlackMessage, SlackSubscription
from rules.access.permissions import SYSTEM
from rules.ids import new_id
from rules.notifications.kinds import kind_of
from rules.slack.pages import Pages
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.events.event import Event
from services.slack.notices import take_events
from services.slack.subscriptions import EVENTS
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

WEB_URL = "https://freezes.test"
PAGES = Pages(WEB_URL, "org_1")
Take = Callable[..., None]
Messages = Callable[[], Sequence[SlackMessage]]


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    """Units of work as jobs open them."""
    engine: Engine = engine_of(database, WORKER_ROLE)
    secret = factories.SECRET_KEY.encode()
    return UnitOfWorkFactory(engine, clock, wakeups, Ports(WebOrigin(WEB_URL), SecretKey(secret)))


@pytest.fixture
def channel(session: Session, acme: Organization) -> SlackSubscription:
    """Subscribe #releases to everything, in a connected workspace."""
    factories.slack_connection(session, acme, team_id="T0ACME")
    subscription = factories.slack_subscription(session, acme, events=list(EVENTS))
    session.commit()
    return subscription


@pytest.fixture
def take(jobs: UnitOfWorkFactory, acme: Organization, channel: SlackSubscription, session: Session) -> Take:
    """Hand events to the channel: `take((action, target_type, target_id, target_name), …)`, with details."""

    def hand_over(*given: tuple[str, str, str, str], **details: Any) -> None:
        session.commit()
        with jobs.open(Caller(acme.id, SYSTEM, "system")) as uow:
            events = [
                Event(
                    organization_id=acme.id,
                    sequence=None,
                    entry_id=new_id("aud"),
                    at=uow.now,
                    action=action,
                    kind=kind_of(action) or action,
                    actor=factories.SYSTEM,
                    source="dashboard",
                    target={"type": kind, "id": target_id, "name": name},
                    details=details,
                    request_id=None,
                )
                for action, kind, target_id, name in given
            ]
            take_events(uow, channel.id, events)

    return hand_over


@pytest.fixture
def messages(session: Session, channel: SlackSubscription) -> Messages:
    """Return the messages of the channel in order, as they are committed."""

    def read() -> Sequence[SlackMessage]:
        session.rollback()
        query = select(SlackMessage).where(SlackMessage.subscription_id == channel.id)
        return session.scalars(query.order_by(SlackMessage.position).execution_options(populate_existing=True)).all()

    return read
