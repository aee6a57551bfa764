"""Entries of the audit trail, and what needs attention."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.audit import AuditEntry
from models.organizations import Organization
from rules.ids import new_id
from tests.factories.adding import SYSTEM, added, now


def audit_entry(session: Session, of: Organization, **columns: Any) -> AuditEntry:
    """Add an entry (of the given columns): the service has just begun a freeze."""
    given = {
        "id": new_id("aud"),
        "at": now(),
        "action": "freeze.started",
        "actor": SYSTEM,
        "source": "system",
        "target": {"type": "freeze", "id": "frz_1", "name": "Quarter-end close"},
        "details": {},
    }
    return added(session, AuditEntry(organization_id=of.id, **given | columns))


def audit_entries(session: Session, action: str | None = None) -> list[AuditEntry]:
    """Return the entries as they are now, of one action or all, the oldest first."""
    query = select(AuditEntry).order_by(AuditEntry.at, AuditEntry.id)
    of_it = query if action is None else query.where(AuditEntry.action == action)
    return list(session.scalars(of_it.execution_options(populate_existing=True)))


def attention_item(session: Session, of: Organization, **columns: Any) -> AttentionItem:
    """Add an item (of the given columns): no rule enforces a branch."""
    given = {
        "id": new_id("att"),
        "key": f"unenforced_branch {new_id('wbr')}",
        "type": "unenforced_branch",
        "severity": "critical",
        "since": now(),
        "subject": {"type": "branch", "id": "wbr_1", "name": "acme/web:main"},
        "message": "Freezes do not block it.",
        "action": {"label": "Open the rules", "url": "https://github.com"},
    }
    return added(session, AttentionItem(organization_id=of.id, **given | columns))
