"""Requests to compare the mirror of repositories with GitHub, marked on the installation."""

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import select

from models.installations import Installation
from services.core.unit_of_work import UnitOfWork

SYNC_TIMEOUT = timedelta(minutes=5)
"""After this, a started comparison counts as lost and is started again."""


def request_comparison(uow: UnitOfWork, installation_ids: Collection[int], *, join: bool = False) -> None:
    """Mark installations to be compared, unless they are marked.

    With `join` a comparison that is running is enough; otherwise it may have read too early, and another one follows.
    """
    query = select(Installation).where(Installation.id.in_(installation_ids)).order_by(Installation.id)
    for installation in uow.session.scalars(query.with_for_update()):
        if not is_pending(installation) or (is_running(installation, uow.now) and not join):
            installation.sync_requested_at = uow.now
    uow.wake("sync")


def is_pending(installation: Installation) -> bool:
    """True if a comparison was requested after the last complete one."""
    requested, synced = installation.sync_requested_at, installation.synced_at
    return requested is not None and (synced is None or synced < requested)


def is_running(installation: Installation, now: datetime) -> bool:
    """True if the requested comparison has started and not timed out."""
    requested, started = installation.sync_requested_at, installation.sync_started_at
    if requested is None or started is None or not is_pending(installation):
        return False
    return requested <= started and now < started + SYNC_TIMEOUT
