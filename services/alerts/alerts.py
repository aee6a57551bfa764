"""Alerts ("attention items" in the API): opened once per cause, and resolved when the cause is gone.

At most one alert per key is open in an organisation. Opening it again updates its text and keeps `since`; opening it
after it was resolved creates a new one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert

from models.attention import AttentionItem
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork

Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs attention. `key` identifies the cause: the same key updates the open alert."""

    key: str
    type: str
    severity: Severity
    subject: tuple[str, str, str]
    """Type, id and name of the object concerned."""
    message: str
    action: tuple[str, str]
    """Label and URL of where to act, such as a page at GitHub."""


def open_alert(uow: UnitOfWork, alert: Alert) -> None:
    """Open an alert in the organisation of the unit of work, or update the open one with the same key."""
    open_alerts(uow, (alert,))


def open_alerts(uow: UnitOfWork, alerts: Sequence[Alert]) -> None:
    """Open or update several alerts at once; for a repeated key the last one counts.

    Rows are written in the order of their keys, so that concurrent callers cannot deadlock.
    """
    latest = {alert.key: alert for alert in alerts}
    if not latest:
        return
    statement = insert(AttentionItem)
    new = statement.excluded
    changed = {
        "type": new.type,
        "severity": new.severity,
        "subject": new.subject,
        "message": new.message,
        "action": new.action,
    }
    uow.session.execute(
        statement.on_conflict_do_update(
            index_elements=["organization_id", "key"], index_where=text("cleared_at IS NULL"), set_=changed
        ),
        [_row(uow, latest[key]) for key in sorted(latest)],
    )


def _row(uow: UnitOfWork, alert: Alert) -> dict[str, object]:
    kind, subject_id, name = alert.subject
    label, url = alert.action
    return {
        "id": new_id("att"),
        "organization_id": uow.organization,
        "key": alert.key,
        "type": alert.type,
        "severity": alert.severity,
        "since": uow.now,
        "subject": {"type": kind, "id": subject_id, "name": name},
        "message": alert.message,
        "action": {"label": label, "url": url},
    }


_RESOLVE = text("""
    WITH open AS (
        SELECT id FROM attention_items
        WHERE organization_id = :organization AND key = ANY(:keys) AND cleared_at IS NULL ORDER BY key FOR UPDATE
    )
    UPDATE attention_items a SET cleared_at = :now FROM open WHERE a.id = open.id
""")


def resolve_alert(uow: UnitOfWork, key: str) -> None:
    """Resolve the open alert of the key, if there is one."""
    resolve_alerts(uow, (key,))


def resolve_alerts(uow: UnitOfWork, keys: Collection[str]) -> None:
    """Resolve the open alerts of all these keys in one statement; keys without one are ignored."""
    if keys:
        uow.session.execute(_RESOLVE, {"organization": uow.organization, "keys": list(keys), "now": uow.now})
