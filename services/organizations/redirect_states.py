"""States of redirects: GitHub's and Slack's install pages pass them back, so that an answer belongs to its request.

A state has 256 random bits, of which the database stores a hash. It is valid for one hour, for one claim, and for the
user and organisation that requested it.
"""

from datetime import datetime, timedelta
from typing import Any, Literal

from models.identity import OneTimeToken
from rules.errors import ServiceError, field_error
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens
from services.organizations import memberships

Purpose = Literal["installation", "slack"]
STATE_LIFETIME = timedelta(hours=1)
_ISSUED_BY: dict[Purpose, str] = {
    "installation": "GET /v1/github/install-url",
    "slack": "GET /v1/slack/install-url",
}


def issue(uow: UnitOfWork, purpose: Purpose) -> tuple[str, datetime]:
    """Return a new state for the caller in the organisation, and when it expires."""
    user = uow.caller.signed_in_user
    state = one_time_tokens.issue(uow, purpose, user, STATE_LIFETIME, organization_id=uow.organization)
    return state, uow.now + STATE_LIFETIME


def find_request(uow: UnitOfWork, purpose: Purpose, state: str) -> dict[str, Any]:
    """Return the organisation that the caller's own state was given for, and their role there; raise `not_found`.

    Runs in units of work of the database role `identity`: the user may act in another organisation meanwhile.
    """
    token = one_time_tokens.peek(uow, purpose, state)
    row = None
    if token is not None and token.subject == uow.caller.signed_in_user:
        row = memberships.find(uow, token.organization_id)
    if row is None:
        message = "This state is unknown, was used, is older than an hour, or was given to another user."
        raise ServiceError("not_found", message)
    organization, role, _ = row
    return {"organization": organization, "role": role}


def require_own(uow: UnitOfWork, purpose: Purpose, state: str) -> None:
    """Raise `invalid_parameter` if a state is unknown, used, expired, or of another user or organisation."""
    _check_owner(uow, purpose, one_time_tokens.peek(uow, purpose, state))


def consume_own(uow: UnitOfWork, purpose: Purpose, state: str) -> None:
    """Consume a state. Raise as `require_own` does."""
    _check_owner(uow, purpose, one_time_tokens.consume(uow, purpose, state))


def _check_owner(uow: UnitOfWork, purpose: Purpose, token: OneTimeToken | None) -> None:
    owner = (uow.caller.signed_in_user, uow.organization)
    if token is None or (token.subject, token.organization_id) != owner:
        message = (
            "is invalid, expired or already used, or was issued for another user or organisation; "
            f"get a new URL from {_ISSUED_BY[purpose]}"
        )
        raise field_error("/state", message)
