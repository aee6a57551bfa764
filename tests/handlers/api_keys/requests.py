"""Making keys, calling with them, and how they are listed and audited."""

from datetime import datetime, timedelta
from typing import Any

from models.audit import AuditEntry
from tests.handlers.callers import Caller, Tenant, answered

PATH = "/v1/api-keys"
SECOND = timedelta(seconds=1)
WANTED = {"name": "Release pipeline", "scopes": ["freeze:read"], "expiresAt": None}
USED = "/v1/freezes"
"""What a key is tried with."""


def instant(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def made(acme: Tenant, **changes: Any) -> dict[str, Any]:
    """Have an administrator make a key, and return the answer."""
    return answered(acme.person("admin").post(PATH, {**WANTED, **changes}), 201)


def rotated(acme: Tenant, key_id: str, **body: Any) -> dict[str, Any]:
    return answered(acme.person("admin").post(f"{PATH}/{key_id}/rotate", body))


def works(acme: Tenant, secret: str) -> bool:
    """True if a secret is accepted as a valid key."""
    answer = Caller(acme.http, secret).get(USED)
    assert answer.status_code in {200, 401}, answer.text
    return answer.status_code == 200


def listed(acme: Tenant, **params: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = acme.person("viewer").get(PATH, **params).json()["data"]
    return rows


def audited(acme: Tenant) -> AuditEntry:
    """Return the newest entry of the audit."""
    query = acme.session.query(AuditEntry).where(AuditEntry.organization_id == acme.id)
    return query.order_by(AuditEntry.at.desc(), AuditEntry.id.desc()).limit(1).one()
