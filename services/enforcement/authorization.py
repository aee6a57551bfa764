"""Authorisation: an administrator of the repositories at GitHub lets us write their rulesets, once.

What they authorise is recorded on the repositories, with their login and the time; those repositories need no further
authorisation. Rulesets that the App may write are then written by a job. Where the App may not, this setup's rulesets
are written with the administrator's token, and the next setup needs a token again.

The `state` that leads back to a setup has 256 random bits, of which the database keeps a hash, and is valid for one
confirmation within a day. The code is bound to it by PKCE, so GitHub refuses a code of another authorisation.
Nothing is written before a user has confirmed a page that names the requester and the changes, and before GitHub has
confirmed that this user administers every repository concerned (owns the organisation, to write its rulesets). The
changes are planned again from the scope of the request. The token is revoked at the end; neither it nor the code is
ever stored or logged.
"""

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from integrations.github.users import UserAuthorization
from models.enforcement import EnforcementSetup
from rules.access.oauth import challenge_of
from rules.access.permissions import SYSTEM
from rules.errors import Detail, NotAuthorizedError, ServiceError, field_error
from rules.ids import has_prefix
from rules.rulesets.plans import Change
from rules.web_addresses import ENFORCEMENT_AUTHORIZED, WebOrigin
from services.core.unit_of_work import Caller, UnitOfWork
from services.enforcement.setups import new_setup, request_verdicts
from services.enforcement.survey import Survey
from services.freezes.scope_names import named_scope
from services.github_access import client

CODE = "admin_authorization_required"
STATE_LIFETIME = timedelta(days=1)
"""An administrator is often somebody else, who is sent the address."""
MAX_LISTED = 20
"""The most names that one page or message lists."""


def authorization_required(uow: UnitOfWork, survey: Survey, scope: dict[str, Any], due: list[Change]) -> ServiceError:
    """Return the error for changes that need an administrator; its address lets one authorise them."""
    account = survey.facts.account
    counted = f"{len(due)} {'ruleset' if len(due) == 1 else 'rulesets'}"
    by_app = survey.permits_all(due)
    authorization = client.github(uow).user_authorization
    if authorization is None:
        message = (
            f"An administrator must authorise the service to write {counted} of {account}, but the service has no "
            "OAuth client for GitHub. Write them yourself with the snippets."
        )
        if not by_app:
            message += " The App also lacks the repository permission `Administration: write`."
        return field_error("/scope", message, message=message, code=CODE)
    forbid_deletion = survey.facts.forbid_deletion
    setup = new_setup(uow, scope, "awaiting_authorization", len(due), forbid_deletion=forbid_deletion)
    request_verdicts(uow, setup, due)
    of_organization = any(change.place.level == "organization" for change in due)
    needed = "repo" if not of_organization else "repo read:org" if by_app else "repo admin:org"
    setup.progress = {**setup.progress, "oauthScope": needed}
    url = issue_authorization_url(uow, authorization, setup)
    target = ("organization", uow.organization, account)
    details = {"scope": named_scope(uow, scope), "changes": len(due), "setupId": setup.id}
    uow.audit("enforcement.authorization_requested", target, **details)
    detail = Detail(
        "/scope",
        f"An administrator must open authorizationUrl before expiresAt. It lets the service write {counted}.",
        CODE,
        {"authorizationUrl": url, "expiresAt": setup.expires_at},
    )
    names = survey.facts.unauthorized(due) or sorted({name for change in due for name in change.repositories.values()})
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    message = (
        "An administrator at GitHub must authorise the service to write rulesets of "
        f"{', '.join(names[:MAX_LISTED]) or account}{more}."
    )
    return ServiceError(CODE, message, details=(detail,), commit_on_error=True)


def issue_authorization_url(uow: UnitOfWork, authorization: UserAuthorization, setup: EnforcementSetup) -> str:
    """Make a setup authorisable for a day, and return the address for that."""
    state = f"{uow.organization}.{secrets.token_urlsafe(32)}"
    verifier = secrets.token_urlsafe(48)
    setup.state, setup.finished_at = "awaiting_authorization", None
    setup.state_hash, setup.code_verifier, setup.expires_at = _hash(state), verifier, uow.now + STATE_LIFETIME
    return authorization.authorization_url(
        redirect_uri=uow.ports[WebOrigin].url + ENFORCEMENT_AUTHORIZED,
        state=state,
        code_challenge=challenge_of(verifier),
        scope=str(setup.progress.get("oauthScope", "repo")),
    )


def _hash(state: str) -> bytes:
    return hashlib.sha256(state.encode()).digest()


def caller_for_state(state: str) -> Caller:
    """Return a caller in the organisation that the state names; only the hash of the whole state opens a setup."""
    organization_id = state.partition(".")[0]
    if not has_prefix(organization_id, "org"):
        raise _unknown_state()
    return Caller(organization_id, SYSTEM, "dashboard")


def _unknown_state() -> NotAuthorizedError:
    message = "This address belongs to no request, or to one that was replaced. Apply again for a new address."
    return NotAuthorizedError("Unknown address", message, 404)


def pending_setup(uow: UnitOfWork, state: str, *, lock: bool = False) -> EnforcementSetup:
    """Return the setup of a `state`; raise `NotAuthorizedError` if it cannot be authorised any more."""
    query = select(EnforcementSetup).where(
        EnforcementSetup.state_hash == _hash(state), EnforcementSetup.organization_id == uow.organization
    )
    setup = uow.session.scalar(query.with_for_update() if lock else query)
    if setup is None:
        raise _unknown_state()
    if setup.state != "awaiting_authorization":
        message = f"This address has already been used; {setup.written} of {setup.total} rulesets are written."
        if setup.state == "failed" and setup.written < setup.total:
            message += " Apply again for a new address."
        raise NotAuthorizedError("Already used", message, 409)
    if setup.expires_at is None or setup.expires_at <= uow.now:
        raise NotAuthorizedError("Expired", "The address was valid for a day. Apply again for a new one.", 410)
    return setup
