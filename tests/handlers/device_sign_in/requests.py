"""What programs and people ask while a program is signed in by its code."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
from sqlalchemy.orm import Session

from models.identity import OneTimeToken
from models.organizations import Organization, User
from services.core.tokens import new_one_time_token, new_session_token, token_hash
from tests import factories
from tests.handlers.callers import Caller

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
APPROVE = "/api/auth/device/approve"
MINUTES_15 = 15 * 60


@dataclass(frozen=True, slots=True)
class Device:
    """A device that has started to sign in."""

    http: httpx.Client
    device_code: str
    user_code: str

    def poll(self, **changes: str) -> httpx.Response:
        given = {"grant_type": GRANT, "device_code": self.device_code, "client_id": "freeze-cli", **changes}
        return self.http.post("/api/auth/device/token", data={name: value for name, value in given.items() if value})


Later = Callable[..., None]


def signed_in(session: Session, http: httpx.Client, user: User, active: Organization | None, **columns: Any) -> Caller:
    """Sign a person in, and return them with their session token."""
    token = new_session_token()
    factories.login(session, user, active, token_hash=token_hash(token), **columns)
    return Caller(http, token)


def one_time_token(session: Session, purpose: str, subject: str) -> str:
    """Return a token as it is mailed."""
    token, now = new_one_time_token(), factories.now()
    ends = now + timedelta(hours=1)
    row = OneTimeToken(
        token_hash=token_hash(token), purpose=purpose, subject=subject, details={}, created_at=now, expires_at=ends
    )
    session.add(row)
    session.flush()
    return token


def decide(person: Caller, device: Device, decision: str = "approve", **more: str) -> httpx.Response:
    return person.post(APPROVE, {"userCode": device.user_code, "decision": decision, **more})


def oauth_error(response: httpx.Response) -> str:
    """Check that a refusal is one of OAuth's (RFC 6749, 5.2), and return its code."""
    assert response.status_code == 400, response.text
    assert response.headers["Content-Type"] == "application/json"
    assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")
    assert response.json()["error_description"]
    error: str = response.json()["error"]
    return error
