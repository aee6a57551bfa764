"""What is asked of enforcement in tests, and how the audit of it is read."""

from typing import Any

from sqlalchemy.orm import Session

from models.audit import AuditEntry

EVERYWHERE: dict[str, Any] = {"scope": {"type": "organization"}}


def details_of(session: Session, action: str) -> dict[str, Any]:
    """Return the details of the only audit entry of this action."""
    return session.query(AuditEntry).where(AuditEntry.action == action).one().details
