"""Requests about exceptions in tests, and how responses and the audit log are read."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from rules.ids import new_id
from rules.time.instants import format_instant
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Caller, Tenant

REASON = "Payments fail since 08:40"
THIS = {"pullRequest": "acme/web#7", "reason": REASON}
GRANT = {"decision": "grant"}
DENY = {"decision": "deny"}
UNKNOWN = "exc_00000000000000000000000000"
FIELDS = set(load_contract().document["components"]["schemas"]["PullRequestException"]["properties"])


def decide(caller: Caller, exception_id: str, **body: Any) -> httpx.Response:
    return caller.post(f"/v1/exception-requests/{exception_id}/decide", {**GRANT, **body})


def requested(
    session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch, **columns: Any
) -> PullRequestException:
    by = {"type": "user", "id": new_id("usr"), "name": "Somebody else"}
    asked = {"requested_by": by, "requested_at": factories.now(), "decision": None, "decided_by": None}
    return factories.exception(session, freeze, pull, web, **{**asked, "decided_at": None, **columns})


@dataclass(frozen=True, slots=True)
class FrozenPull:
    """acme/web#7, which a freeze of `main` forbids."""

    acme: Tenant
    repository: Repository
    web: WatchedBranch
    freeze: Freeze
    pull: PullRequest

    @property
    def session(self) -> Session:
        return self.acme.session

    def request(self, **columns: Any) -> PullRequestException:
        """Add a request for an exception by another person."""
        return requested(self.session, self.freeze, self.pull, self.web, **columns)

    def grant(self, **columns: Any) -> PullRequestException:
        """Add an exception that was granted, unless the columns say otherwise."""
        return factories.exception(self.session, self.freeze, self.pull, self.web, **columns)


def rows(answer: httpx.Response, status: int = 200) -> list[dict[str, Any]]:
    assert answer.status_code == status, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def ids(answer: httpx.Response) -> list[str]:
    return [row["id"] for row in rows(answer)]


LONG_AGO = "2026-01-01T00:00:00Z"


def in_hours(hours: float) -> str:
    return format_instant(factories.now() + timedelta(hours=hours))


def settle(session: Session, acme: Tenant, **settings: Any) -> None:
    session.get_one(Organization, acme.id).settings = settings
    session.flush()
