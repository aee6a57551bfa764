"""The authorization endpoint: what a client requests, and what a person decides.

The page passes the query of its address on as it is, so that it is read in one place. A request of an unknown client,
or with a redirect address that is not the client's, is refused on the page; every other error goes back to the client
by a redirect, before the person is asked to sign in. The decision checks the same query again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from models.organizations import User
from rules.access.access_tokens import AccessTokenSettings
from rules.access.client_documents import ClientDocument, ClientRefusedError
from rules.access.oauth import OAuthError, is_challenge, requested_scopes
from rules.access.redirect_uris import is_loopback, redirect_host, with_parameters
from rules.errors import ServiceError, field_error
from services.core.unit_of_work import UnitOfWork
from services.identity.memberships import require_membership
from services.identity.oauth.clients import find_client
from services.identity.oauth.decisions import forbid_devices, granted_scopes, require_organization
from services.identity.oauth.grants import LIFETIME, create_grant
from services.identity.oauth.tokens import issue_code, require_resource, resource_of

DECISION_TIME = timedelta(hours=1)
"""How long a client's document is still used after its expiry, because it was fresh when the page was shown."""
_MAX_PARAMETERS = 50
_KNOWN = (
    "response_type",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "scope",
    "state",
    "resource",
)
"""Parameters that we read; others are ignored (RFC 6749, 3.1)."""


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid request of a client."""

    client: ClientDocument
    redirect_uri: str
    state: str | None
    """Returned to the client as it is."""
    code_challenge: str
    scopes: frozenset[str]


class _ReturnedError(Exception):
    """The request is answered by a redirect to the client, with an error."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location
        """The address that the browser is redirected to."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided."""

    approve: bool
    organization_id: str | None
    scopes: Collection[str]


def preview(uow: UnitOfWork, query: str, supported: Mapping[str, str]) -> dict[str, Any]:
    """Return what the consent page shows for a request (`consent`), or where to redirect at once (`location`).

    `query` is that of the page's address; `supported` are the scopes that tokens can have, with descriptions. Raise
    `invalid_parameter` if the request is refused on the page, and `rate_limited`.
    """
    try:
        request = _read(uow, query, supported)
    except _ReturnedError as error:
        return {"location": error.location, "consent": None}
    consent = {
        "client_id": request.client.client_id,
        "client_name": request.client.name,
        "client_host": request.client.host,
        "redirect_uri": request.redirect_uri,
        "redirect_host": redirect_host(request.redirect_uri),
        "loopback": is_loopback(request.redirect_uri),
        "scopes": [{"name": name, "description": supported[name]} for name in sorted(request.scopes)],
        "expires_at": expiry(uow),
    }
    return {"location": None, "consent": consent}


def expiry(uow: UnitOfWork) -> datetime:
    """Return when a connection that is approved now ends."""
    return uow.now + LIFETIME


def decide(uow: UnitOfWork, query: str, decision: Decision, supported: Mapping[str, str]) -> dict[str, str]:
    """Return the address that leads back to the client (`location`), with a code if the signed-in person approves.

    The ticked scopes are granted, as far as the client requested them, each write with its read. Raise what `preview`
    raises, `not_found` or `organization_deleted` for the organisation, `validation_failed` without a scope,
    `credential_type_not_allowed` for a device.
    """
    forbid_devices(uow, "clients")
    try:
        request = _read(uow, query, supported, overdue=DECISION_TIME)
    except _ReturnedError as error:
        return {"location": error.location}
    if not decision.approve:
        denied = {"error": "access_denied", "error_description": "The person denied the request."}
        return {"location": _redirect(uow, request.redirect_uri, request.state, denied)}
    scopes = granted_scopes(request.scopes, decision.scopes)
    person = uow.session.get_one(User, uow.caller.user_id)
    organization = require_membership(uow, person.id, require_organization(decision.organization_id))
    client = request.client
    with uow.impersonate(organization_id=organization.id):
        grant = create_grant(
            uow,
            user_id=person.id,
            client_id=client.client_id,
            client_name=client.name,
            resource=resource_of(uow),
            scopes=scopes,
        )
    code = issue_code(uow, grant, request.redirect_uri, request.code_challenge)
    return {"location": _redirect(uow, request.redirect_uri, request.state, {"code": code})}


def _read(
    uow: UnitOfWork, query: str, supported: Mapping[str, str], *, overdue: timedelta = timedelta()
) -> AuthorizationRequest:
    """Return a valid request. Raise `invalid_parameter` or _ReturnedError."""
    given, repeated = _parameters(query)
    client = _client(uow, given, repeated, overdue)
    redirect_uri = given.get("redirect_uri", "")
    if "redirect_uri" in repeated or not client.may_redirect_to(redirect_uri):
        raise _refused("The address that the client wants to return to is not one of its own.")
    state = None if "state" in repeated else given.get("state")
    try:
        scopes = _check_parameters(uow, given, repeated, supported)
    except OAuthError as error:
        parameters = {"error": error.error, "error_description": error.description}
        raise _ReturnedError(_redirect(uow, redirect_uri, state, parameters)) from None
    return AuthorizationRequest(client, redirect_uri, state, given["code_challenge"], scopes)


def _parameters(query: str) -> tuple[dict[str, str], set[str]]:
    """Return the parameters that have a value, and the names of those that are given more than once.

    A value is decoded as Latin-1, one character for each byte, so that `state` is returned byte for byte. The same
    `resource` may be repeated (RFC 8707, 2).
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1", max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise _refused("The address of the client has too many parameters.") from None
    names = [name for name, _ in pairs if name in _KNOWN]
    resources = {value for name, value in pairs if name == "resource"}
    repeated = {name for name in names if names.count(name) > 1 and (name != "resource" or len(resources) > 1)}
    return {name: value for name, value in reversed(pairs) if value and name in _KNOWN}, repeated


def _client(uow: UnitOfWork, given: Mapping[str, str], repeated: Collection[str], overdue: timedelta) -> ClientDocument:
    if "client_id" in repeated:
        raise _refused("The address names two clients.")
    try:
        return find_client(uow, given.get("client_id", ""), overdue=overdue)
    except ClientRefusedError as error:
        raise _refused(str(error)) from None


def _refused(message: str) -> ServiceError:
    """Return the error of a request that is refused on the page."""
    return field_error("query", message, message=message)


def _check_parameters(
    uow: UnitOfWork, given: Mapping[str, str], repeated: Collection[str], supported: Mapping[str, str]
) -> frozenset[str]:
    """Return the scopes of a request. Raise OAuthError, which goes back to the client, for an invalid parameter."""
    if "resource" in repeated:
        raise OAuthError("invalid_target", f"The only resource is {resource_of(uow)}.")
    if repeated:
        raise OAuthError("invalid_request", f"Given more than once: {', '.join(sorted(repeated))}.")
    if given.get("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type must be code.")
    if given.get("code_challenge_method") != "S256" or not is_challenge(given.get("code_challenge", "")):
        raise OAuthError("invalid_request", "PKCE is required: code_challenge, and code_challenge_method S256.")
    require_resource(uow, given.get("resource"))
    scopes = requested_scopes(given.get("scope"), supported)
    if not scopes:
        raise OAuthError("invalid_scope", "None of these scopes is known.")
    return scopes


def _redirect(uow: UnitOfWork, redirect_uri: str, state: str | None, parameters: Mapping[str, str]) -> str:
    """Return the address that leads back to the client; it always names us (`iss`, RFC 9207)."""
    answer = {**parameters, "iss": uow.ports[AccessTokenSettings].issuer}
    return with_parameters(redirect_uri, answer if state is None else {**answer, "state": state})
