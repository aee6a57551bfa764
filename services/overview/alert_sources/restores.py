"""An alert while the database counts as restored from a backup."""

from sqlalchemy import func, literal, select

from models.database_identity import DatabaseIdentity
from models.organizations import Organization
from rules.web_addresses import AUDIT
from services.overview.alert_sources.columns import ORGANIZATION, Query, alert_columns, format_instant, page

RESTORED = (
    "The database of the service was restored from a backup: what was changed after %s may be missing, also freezes. "
    "Start the freezes that you miss: they block at once. What is blocked at GitHub stays blocked, also after freezes "
    "are lifted, until the operator of the service confirms the restore."
)


def restored_database() -> Query:
    """Return an alert from when a restore is noticed until it is confirmed."""
    record = DatabaseIdentity
    subject = ("organization", Organization.id, Organization.name)
    message = func.format(RESTORED, format_instant(record.seen_at))
    action = ("Read the audit log", page(AUDIT))
    columns = alert_columns(
        "database_restored",
        literal("critical"),
        func.coalesce(record.noticed_at, record.seen_at),
        subject,
        message,
        action,
    )
    return (
        select(*columns)
        .join_from(Organization, record, record.noticed_at.is_not(None))
        .where(Organization.id == ORGANIZATION)
    )
