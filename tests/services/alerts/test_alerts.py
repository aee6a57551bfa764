"""Attention items: one open item for each cause, until the cause has gone."""

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from models.organizations import Organization
from services.alerts.alerts import Alert, open_alert, open_alerts, resolve_alert, resolve_alerts
from services.github_access.pauses import pause_installation
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import PATIENCE, at_once
from tests.services.conftest import UnitOfWorkOpener

ITEM = Alert(
    key="unenforced_branch wbr_1",
    type="unenforced_branch",
    severity="warning",
    subject=("branch", "wbr_1", "acme/web main"),
    message="Nothing requires the check.",
    action=("Set up", "/enforcement"),
)


def stored(session: Session) -> list[Any]:
    session.rollback()
    query = "SELECT organization_id, key, severity, since, subject, message, action, cleared_at FROM attention_items"
    return list(session.execute(text(query + " ORDER BY since, key")).all())


def test_reopened_alert_has_the_new_message_and_keeps_its_start(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session, clock: MovableClock
) -> None:
    with unit_of(acme) as uow:
        open_alert(uow, ITEM)
        first = uow.now
    clock.offset += timedelta(hours=1)
    with unit_of(acme) as uow:
        open_alert(uow, replace(ITEM, message="The ruleset is disabled.", severity="critical"))
    (row,) = stored(session)
    assert (row.since, row.message, row.severity) == (first, "The ruleset is disabled.", "critical")


def test_recurring_cause_opens_a_new_alert(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session, clock: MovableClock
) -> None:
    for _ in range(2):
        with unit_of(acme) as uow:
            open_alert(uow, ITEM)
        clock.offset += timedelta(hours=1)
        with unit_of(acme) as uow:
            resolve_alert(uow, ITEM.key)
        clock.offset += timedelta(hours=1)
    assert [round((row.cleared_at - row.since).total_seconds()) for row in stored(session)] == [3600, 3600]


def test_resolving_an_alert_that_is_not_open_changes_nothing(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session, clock: MovableClock
) -> None:
    with unit_of(acme) as uow:
        open_alert(uow, ITEM)
    for _ in range(2):
        clock.offset += timedelta(hours=1)
        with unit_of(acme) as uow:
            resolve_alerts(uow, [ITEM.key, "nothing of that key"])
    (row,) = stored(session)
    assert round((row.cleared_at - row.since).total_seconds()) == 3600


def test_last_alert_of_a_key_wins_when_many_are_opened_together(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session
) -> None:
    with unit_of(acme) as uow:
        open_alerts(uow, [])
        open_alerts(uow, [ITEM, replace(ITEM, key="another"), replace(ITEM, message="The last word.")])
    assert {row.key: row.message for row in stored(session)} == {
        "another": ITEM.message,
        ITEM.key: "The last word.",
    }


def test_concurrent_opening_in_a_different_order_opens_each_alert_once(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session
) -> None:
    items = [replace(ITEM, key=f"item {number}") for number in range(40)]
    start = threading.Barrier(2, timeout=PATIENCE)

    def do(these: list[Alert]) -> None:
        with unit_of(acme) as uow:
            start.wait()
            open_alerts(uow, these)

    at_once(lambda: do(items), lambda: do(items[::-1]))
    assert len(stored(session)) == len(items)


def test_repeated_rate_limits_are_one_pause(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session, clock: MovableClock
) -> None:
    installation = factories.installation(session, acme)
    session.commit()

    def pause(after: timedelta) -> timedelta:
        """Pause for a minute, so long after now, and return how long ago the trouble began then."""
        clock.offset = after
        with unit_of(acme) as uow:
            pause_installation(uow, installation.id, uow.now + timedelta(minutes=1))
        session.refresh(installation)
        assert installation.paused_since is not None
        return uow.now - installation.paused_since

    assert pause(timedelta()) == timedelta()
    assert pause(timedelta(minutes=3)) > timedelta(minutes=2)
    assert pause(timedelta(hours=1)) == timedelta()
