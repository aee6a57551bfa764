"""Deletion of rows that are past their retention, in short transactions.

Rows are found in one scan, since an index for it would cost every write, and deleted in batches. What bounds the other
tables is in `docs/operations/retention.md`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString

from sqlalchemy import TextClause, text

from rules.retention import Retention
from services.bypass_detection.reports import resolve_outdated_alerts
from services.core import stored_replies
from services.core.batch import acquire_periodic, make_periodic_due
from services.core.lease_holder import remove_dead_holders
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.identity import throttle

PERIOD = timedelta(hours=1)
MAX_ROWS = 20_000
"""Rows that one run deletes, so that other tasks of the sweep are not late."""
BATCH_SIZE = 1000
"""Rows that one transaction deletes."""
_TASK = "purge_expired"
_A_DAY = timedelta(days=1)


_OPEN_ON_HEAD: LiteralString = """
    SELECT FROM pull_requests p WHERE p.repository_id = head_checks.repository_id AND p.head_sha = head_checks.head_sha
      AND p.state = 'open'
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of a table that are to be deleted."""

    table: LiteralString
    expired: LiteralString
    """The condition, in which `:before` is the instant `age` ago."""
    age: timedelta
    erases: LiteralString | None = None
    """The column that is erased instead, while the row stays."""


def rules_of(retention: Retention) -> Iterator[Rule]:
    """Yield what is deleted, and when."""
    yield Rule("webhook_deliveries", "received_at < :before", retention.deliveries)
    yield Rule("idempotency_keys", "created_at < :before", stored_replies.RETENTION)
    replies = "secret AND body IS NOT NULL AND created_at < :before"
    yield Rule("idempotency_keys", replies, stored_replies.SECRET_RETENTION, erases="body")
    dead = f"NOT unconfirmed AND conclusion = 'failure' AND written_at < :before AND NOT EXISTS ({_OPEN_ON_HEAD})"
    yield Rule("head_checks", dead, timedelta(days=30))
    yield Rule("github_api_usage", "at < :before", timedelta(hours=2))
    yield Rule("throttled_attempts", "at < :before", throttle.RETENTION)
    yield Rule("device_authorizations", "expires_at < :before", _A_DAY)
    yield Rule("oauth_codes", "expires_at < :before", _A_DAY)
    yield Rule("oauth_refresh_tokens", "expires_at < :before", _A_DAY)
    yield Rule("oauth_grants", "expires_at < :before", retention.sessions)
    unused = "NOT EXISTS (SELECT FROM oauth_grants g WHERE g.client_id = oauth_clients.client_id)"
    outdated = f"coalesce(fresh_until, '-infinity') < :before AND blocked_at IS NULL AND {unused}"
    yield Rule("oauth_clients", outdated, timedelta(days=30))
    yield Rule("one_time_tokens", "expires_at < :before", timedelta(days=7))
    yield Rule("sessions", "expires_at < :before", retention.sessions)
    yield Rule("slack_messages", "created_at < :before", retention.messages)
    yield Rule("mails", "created_at < :before", retention.messages)
    yield Rule("cancelled_windows", "ends_at < :before", timedelta(days=30))
    yield Rule("reminders", "created_at < :before", timedelta(days=30))
    yield Rule("webhook_messages", "created_at < :before", retention.messages)
    empty = "NOT EXISTS (SELECT FROM webhook_messages m WHERE m.endpoint_id = webhook_endpoints.id)"
    yield Rule("webhook_endpoints", f"deleted_at < :before AND {empty}", timedelta())


def purge_expired(uow_factory: UnitOfWorkFactory) -> bool:
    """Delete rows that are past their retention, once per hour; True if it ran.

    What is left after `MAX_ROWS` is deleted by the next sweep.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, _TASK, PERIOD):
            return False
        resolve_outdated_alerts(uow)
        remove_dead_holders(uow.session, uow.now)
        now = uow.now
    left = MAX_ROWS
    for rule in rules_of(uow_factory.ports[Retention]):
        left -= _purge(uow_factory, rule, now - rule.age, left)
        if left == 0:
            with uow_factory.open(SYSTEM_CALLER) as uow:
                make_periodic_due(uow, _TASK, PERIOD)
            break
    return True


def _purge(uow_factory: UnitOfWorkFactory, rule: Rule, before: datetime, limit: int) -> int:
    """Apply a rule; return how many rows were found, at most `limit`. One that has changed meanwhile is left."""
    find = text(f"SELECT CAST(ctid AS text) FROM {rule.table} WHERE {rule.expired} LIMIT :limit")  # noqa: S608 - constants
    with uow_factory.open(SYSTEM_CALLER) as uow:
        places = uow.session.scalars(find, {"before": before, "limit": limit}).all()
    for start in range(0, len(places), BATCH_SIZE):
        with uow_factory.open(SYSTEM_CALLER) as uow:
            uow.session.execute(change_of(rule), {"places": list(places[start : start + BATCH_SIZE]), "before": before})
    return len(places)


def change_of(rule: Rule) -> TextClause:
    """Return the statement that applies a rule to the rows at `:places`."""
    change = f"DELETE FROM {rule.table}" if rule.erases is None else f"UPDATE {rule.table} SET {rule.erases} = NULL"  # noqa: S608 - constants
    return text(f"{change} WHERE ctid = ANY(CAST(:places AS tid[])) AND {rule.expired}")
