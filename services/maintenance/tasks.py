"""Tasks of the sweeper: record what has become due, find lost work, and resync everything from time to time.

Every task is idempotent and safe with any number of sweepers: rows are locked or skipped, and a periodic task is run
by the sweeper that acquires its period.
"""

import logging
from datetime import timedelta

from sqlalchemy import Row, func, select, text

from models.freezes import Freeze
from models.schedules import Occurrence
from rules.access.permissions import SYSTEM
from services.bypass_detection.reports import resolve_outdated_alerts
from services.core.batch import acquire_periodic, for_each_isolated
from services.core.lease_holder import remove_dead_holders
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.enforcement_status.probe_requests import schedule_all_probes
from services.freezes.completion import repair_completion
from services.freezes.end import expire_freeze
from services.identity import signing_keys
from services.pull_request_exceptions.expiry import next_end as next_end_of_exceptions
from services.repository_sync.sync import request_all_comparisons

logger = logging.getLogger(__name__)

MAX_ENDED_AT_ONCE = 200
DELIVERY_RETENTION = timedelta(days=30)
REPLY_RETENTION = timedelta(hours=24)
SECRET_RETENTION = timedelta(hours=1)
HEAD_RETENTION = timedelta(days=30)
USAGE_RETENTION = timedelta(hours=2)
ATTEMPT_RETENTION = timedelta(days=1)
DEVICE_RETENTION = timedelta(days=1)
TOKEN_RETENTION = timedelta(days=7)
CODE_RETENTION = timedelta(days=1)
REFRESH_RETENTION = timedelta(days=1)
GRANT_RETENTION = timedelta(days=30)
CLIENT_RETENTION = timedelta(days=30)
SESSION_RETENTION = timedelta(days=30)
MAIL_RETENTION = timedelta(days=30)
_DEAD_HEADS = """
    DELETE FROM head_checks
    WHERE NOT tracked AND NOT unconfirmed AND conclusion = 'failure' AND written_at < :before
"""

_UNUSED_CLIENTS = """
    DELETE FROM oauth_clients c
    WHERE coalesce(c.fresh_until, '-infinity') < :before AND c.blocked_at IS NULL
        AND NOT EXISTS (SELECT FROM oauth_grants g WHERE g.client_id = c.client_id)
"""


def end_freezes(uow_factory: UnitOfWorkFactory) -> int:
    """Record the end of freezes that have reached it, each in its own unit of work; return their number."""
    ended = 0
    while True:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            over = uow.session.execute(
                select(Freeze.id, Freeze.organization_id)
                .where(Freeze.ended_at.is_(None), Freeze.ends_at <= uow.now)
                .order_by(Freeze.ends_at)
                .limit(MAX_ENDED_AT_ONCE)
            ).all()
        now_ended = for_each_isolated(over, lambda row: _end_one(uow_factory, row))
        ended += now_ended
        if now_ended < MAX_ENDED_AT_ONCE:
            return ended


def _end_one(uow_factory: UnitOfWorkFactory, row: Row[str, str]) -> bool:
    freeze_id, organization_id = row
    with uow_factory.open(Caller(organization_id, SYSTEM, "system")) as uow:
        return expire_freeze(uow, freeze_id)


def seconds_to_next(uow_factory: UnitOfWorkFactory) -> float | None:
    """Return the seconds until the next window start, freeze end or exception end; None if there is none."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        next_start = select(func.min(Occurrence.starts_at)).where(
            Occurrence.is_unsettled, Occurrence.starts_at > uow.now
        )
        next_end = select(func.min(Freeze.ends_at)).where(Freeze.ended_at.is_(None), Freeze.ends_at > uow.now)
        found = uow.session.execute(select(next_start.scalar_subquery(), next_end.scalar_subquery())).one()
        instants = (*found, next_end_of_exceptions(uow))
        return min(((at - uow.now).total_seconds() for at in instants if at is not None), default=None)


def repair_completions(uow_factory: UnitOfWorkFactory) -> None:
    """Mark freezes as complete whose worker did not."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        repair_completion(uow)


def full_resync(uow_factory: UnitOfWorkFactory, period: timedelta) -> bool:
    """Request that all branches and repositories are read again, once per period; True if requested.

    Heals missed webhooks and checks that were changed by others. Installations are locked before branches, in the same
    order as by a worker that pauses an installation and releases its branches.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "full_resync", period):
            return False
        request_all_comparisons(uow)
        uow.session.execute(
            text(
                "WITH every AS (SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id "
                "JOIN installations i ON i.id = r.installation_id WHERE r.removed_at IS NULL AND i.state = 'active' "
                "ORDER BY b.id FOR NO KEY UPDATE OF b) "
                "UPDATE watched_branches b SET read_back = true, due_at = coalesce(b.due_at, :now) "
                "FROM every WHERE b.id = every.id"
            ),
            {"now": uow.now},
        )
        uow.wake("reconcile")
        schedule_all_probes(uow)
    return True


def purge_expired(uow_factory: UnitOfWorkFactory) -> bool:
    """Delete rows that are past their retention, once per hour; True if it ran."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "purge_expired", timedelta(hours=1)):
            return False
        for statement, age in (
            ("DELETE FROM webhook_deliveries WHERE received_at < :before", DELIVERY_RETENTION),
            ("DELETE FROM idempotency_keys WHERE created_at < :before", REPLY_RETENTION),
            ("UPDATE idempotency_keys SET body = NULL WHERE secret AND created_at < :before", SECRET_RETENTION),
            (_DEAD_HEADS, HEAD_RETENTION),
            ("DELETE FROM github_api_usage WHERE at < :before", USAGE_RETENTION),
            ("DELETE FROM throttled_attempts WHERE at < :before", ATTEMPT_RETENTION),
            ("DELETE FROM device_authorizations WHERE expires_at < :before", DEVICE_RETENTION),
            ("DELETE FROM oauth_codes WHERE expires_at < :before", CODE_RETENTION),
            ("DELETE FROM oauth_refresh_tokens WHERE expires_at < :before", REFRESH_RETENTION),
            ("DELETE FROM oauth_grants WHERE expires_at < :before", GRANT_RETENTION),
            (_UNUSED_CLIENTS, CLIENT_RETENTION),
            ("DELETE FROM one_time_tokens WHERE expires_at < :before", TOKEN_RETENTION),
            ("DELETE FROM sessions WHERE expires_at < :before", SESSION_RETENTION),
            ("DELETE FROM mails WHERE created_at < :before", MAIL_RETENTION),
        ):
            uow.session.execute(text(statement), {"before": uow.now - age})
        resolve_outdated_alerts(uow)
        remove_dead_holders(uow.session, uow.now)
    return True


def rotate_keys(uow_factory: UnitOfWorkFactory) -> bool:
    """Publish, retire and delete signing keys, once per hour; True if it ran."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "signing_keys", timedelta(hours=1)):
            return False
        signing_keys.rotate(uow)
    return True
