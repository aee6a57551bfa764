"""Authorising: an administrator at the code host lets us write one setup's rulesets, once, with a token of theirs.

What holds: the `state` that leads back to a setup has 256 random bits, of which the database keeps a hash, and is good
for one confirmation within ten minutes; the code is bound to it by PKCE, so a code of another authorisation is refused
by the code host. Nothing is written before a person has confirmed a page that says who asked for what, and before the
code host has said that this person is an administrator of every repository concerned (an owner, where the ruleset is
the organisation's). What is written is planned anew, from the scope that was asked for. The token is revoked at the
end, and neither it nor the code is ever stored or logged.
"""

import base64
import hashlib
import secrets
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from integrations.github.people import People
from models.enforcement import EnforcementSetup
from rules.access.permissions import SYSTEM
from rules.errors import Detail, ServiceError
from rules.ids import has_prefix
from rules.rulesets.plans import Change
from services.core.unit_of_work import Caller, UnitOfWork
from services.enforcement.setups import ask_for_heads, new_setup
from services.enforcement.surveying import Survey
from services.github_access import client

CODE = "admin_authorization_required"
VALID = timedelta(minutes=10)
PATH = "/enforcement/authorized"


def refusal(uow: UnitOfWork, survey: Survey, scope: dict[str, Any], due: list[Change]) -> ServiceError:
    """Return the refusal of what the App may not write; its address leads an administrator to where they may."""
    account = survey.facts.account
    counted = f"{len(due)} ruleset{'s'[: len(due) > 1]}"
    people = client.github(uow).people
    if people is None:
        message = (
            f"The App may not write {counted} of {account}. Grant it the repository permission "
            "`Administration: write` at GitHub, or write them yourself with the snippets, and apply again."
        )
        return ServiceError(CODE, message, details=(Detail("/scope", message, CODE),))
    setup = new_setup(uow, scope, "awaiting_authorization", len(due))
    ask_for_heads(uow, setup, due)
    above = any(change.place.level == "organization" for change in due)
    setup.progress = {**setup.progress, "above": above}
    url = open_way(uow, people, setup)
    target = ("organization", uow.organization, account)
    uow.audit("enforcement.authorization_requested", target, scope=scope, changes=len(due), setupId=setup.id)
    told = Detail(
        "/scope",
        f"Have an administrator open authorizationUrl before expiresAt: it lets the service write {counted}, once.",
        CODE,
        {"authorizationUrl": url, "expiresAt": setup.expires_at},
    )
    message = f"The App may not write rulesets of {account}; an administrator of its repositories has to authorise it."
    return ServiceError(CODE, message, details=(told,), commit_on_error=True, secret=True)


def open_way(uow: UnitOfWork, people: People, setup: EnforcementSetup) -> str:
    """Let a setup be authorised, for ten minutes, and return where."""
    state = f"{uow.organization}.{secrets.token_urlsafe(32)}"
    verifier = secrets.token_urlsafe(48)
    setup.state, setup.finished_at = "awaiting_authorization", None
    setup.state_hash, setup.code_verifier, setup.expires_at = _hash(state), verifier, uow.now + VALID
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return people.authorization_url(
        redirect_uri=uow.dependencies.web_url + PATH,
        state=state,
        code_challenge=challenge,
        scope="repo admin:org" if setup.progress.get("above") else "repo",
    )


def _hash(state: str) -> bytes:
    return hashlib.sha256(state.encode()).digest()


class NotAuthorizedError(Exception):
    """Why nothing is done, for the person who reads the page; `status` is that of the page."""

    def __init__(self, title: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.title, self.message, self.status = title, message, status


def stranger(state: str) -> Caller:
    """Return a caller who sees the organisation that the state names; only the hash of the whole opens a setup."""
    organization_id = state.partition(".")[0]
    if not has_prefix(organization_id, "org"):
        raise _unknown()
    return Caller(organization_id, SYSTEM, "dashboard")


def _unknown() -> NotAuthorizedError:
    message = "This address belongs to no request, or to one that was replaced. Apply again for a new one."
    return NotAuthorizedError("Unknown address", message, 404)


def awaiting(uow: UnitOfWork, state: str, *, lock: bool = False) -> EnforcementSetup:
    """Return the setup that a `state` leads to, if it may still be authorised; raises `NotAuthorizedError`."""
    query = select(EnforcementSetup).where(
        EnforcementSetup.state_hash == _hash(state), EnforcementSetup.organization_id == uow.organization
    )
    setup = uow.session.scalar(query.with_for_update() if lock else query)
    if setup is None:
        raise _unknown()
    if setup.state != "awaiting_authorization":
        told = f"This address was used already; {setup.written} of {setup.total} rulesets are written."
        if setup.written < setup.total:
            told += " Apply again for a new one."
        raise NotAuthorizedError("Used already", told, 409)
    if setup.expires_at is None or setup.expires_at <= uow.now:
        raise NotAuthorizedError("Too late", "This address was good for ten minutes. Apply again for a new one.", 410)
    return setup
