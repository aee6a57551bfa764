"""What needs somebody's attention: items that are raised once for each cause, and cleared when it has gone.

At most one item of a key is open in an organisation. Raising it again changes its words and keeps `since`; raising it
after it was cleared opens another one.
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
    """Something to look at. `key` names its cause: a second one with the same key changes the open one's words."""

    key: str
    type: str
    severity: Severity
    subject: tuple[str, str, str]
    """Type, id and name of the object that it is about."""
    message: str
    action: tuple[str, str]
    """Label, and the address where something can be done: a page of the code host's."""


def open_alert(uow: UnitOfWork, item: Alert) -> None:
    """Open an item of the unit's organisation, or bring the open one of the same key up to date."""
    open_alerts(uow, (item,))


def open_alerts(uow: UnitOfWork, items: Sequence[Alert]) -> None:
    """Do what `raise_item` does for all of them at once; of two with one key the last one counts.

    Rows are written in the order of their keys, so that two callers never wait for each other in a circle.
    """
    latest = {item.key: item for item in items}
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


def _row(uow: UnitOfWork, item: Alert) -> dict[str, object]:
    kind, subject_id, name = item.subject
    label, url = item.action
    return {
        "id": new_id("att"),
        "organization_id": uow.organization,
        "key": item.key,
        "type": item.type,
        "severity": item.severity,
        "since": uow.now,
        "subject": {"type": kind, "id": subject_id, "name": name},
        "message": item.message,
        "action": {"label": label, "url": url},
    }


_CLEAR = text("""
    WITH open AS (
        SELECT id FROM attention_items
        WHERE organization_id = :organization AND key = ANY(:keys) AND cleared_at IS NULL ORDER BY key FOR UPDATE
    )
    UPDATE attention_items a SET cleared_at = :now FROM open WHERE a.id = open.id
""")


def resolve_alert(uow: UnitOfWork, key: str) -> None:
    """Close the open item of that key, if there is one."""
    resolve_alerts(uow, (key,))


def resolve_alerts(uow: UnitOfWork, keys: Collection[str]) -> None:
    """Close the open items of all these keys in one statement; keys without one are passed over."""
    if keys:
        uow.session.execute(_CLEAR, {"organization": uow.organization, "keys": list(keys), "now": uow.now})
