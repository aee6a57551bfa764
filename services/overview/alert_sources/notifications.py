"""An alert about notifications that are late: what happened is not given to their destinations, or that fails."""

from sqlalchemy import func, literal, select

from models.audit import AuditSeal
from models.notifications import NotificationDestination
from models.organizations import Organization
from rules.web_addresses import SETTINGS
from services.overview.alert_sources.columns import (
    NOW,
    ORGANIZATION,
    Query,
    alert_columns,
    counted,
    format_instant,
    interval,
    page,
)

LATE = (
    "Notifications are late: those of %s wait since %s. None is lost. If this lasts, the operator of the service has "
    "to read the logs of the workers."
)
MAX_DELAY = "interval '2 minutes'"
"""For how long a sealed entry may wait for a destination."""


def late_notifications() -> Query:
    """Return an alert if destinations of notifications wait for entries that were sealed long ago."""
    row = NotificationDestination
    first = (
        select(AuditSeal.sealed_at)
        .where(AuditSeal.organization_id == row.organization_id, AuditSeal.sequence > row.sequence)
        .order_by(AuditSeal.sequence)
        .limit(1)
        .correlate(row)
        .lateral("first")
    )
    since = func.min(first.c.sealed_at)
    message = func.format(LATE, counted(func.count(), "destination", "destinations"), format_instant(since))
    subject = ("organization", Organization.id, Organization.name)
    action = ("Open the settings", page(SETTINGS))
    query = select(*alert_columns("notifications_late", literal("warning"), since, subject, message, action))
    return (
        query.join_from(Organization, row, row.organization_id == Organization.id)
        .join(first, first.c.sealed_at <= NOW - interval(MAX_DELAY))
        .where(Organization.id == ORGANIZATION, row.due_at.is_not(None))
        .group_by(Organization.id)
    )
