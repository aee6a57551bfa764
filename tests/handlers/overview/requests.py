"""Asking for the overview and for what needs attention, and raising something that does."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from models.attention import AttentionItem
from rules.ids import new_id
from tests import factories
from tests.handlers.callers import Caller, Tenant

OVERVIEW, ATTENTION = "/v1/overview", "/v1/attention"


def shown(caller: Caller, path: str = OVERVIEW, **asked: Any) -> Any:
    response = caller.get(path, **asked)
    assert response.status_code == 200, response.text
    return response.json()


def items(caller: Caller, **asked: Any) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = shown(caller, ATTENTION, **asked)["data"]
    return found


def only(caller: Caller) -> Mapping[str, Any]:
    (item,) = items(caller)
    return item


def raised(session: Session, of: Tenant, **columns: Any) -> AttentionItem:
    given = {
        "key": f"unenforced_branch {new_id('wbr')}",
        "type": "unenforced_branch",
        "severity": "critical",
        "since": factories.now(),
        "subject": {"type": "branch", "id": "wbr_1", "name": "acme/web:main"},
        "message": "Freezes do not block it.",
        "action": {"label": "Open the rules", "url": "https://github.com"},
    }
    row = AttentionItem(id=new_id("att"), organization_id=of.id, **given | columns)
    session.add(row)
    session.flush()
    return row
