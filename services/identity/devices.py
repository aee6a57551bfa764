"""Device authorization (RFC 8628): a script or a CLI signs in without a browser of its own.

A device gets two codes. It polls for its tokens with the long one; the person enters the short one in a browser. There
they sign in, see which client asks and from which address, and approve or deny it. The short code is valid for ten
minutes and one decision, the long one for one sign-in. Wrong short codes are counted per person and per address; the
long code has 256 bits and cannot be guessed.

A device signs in as the person, or, if it requests tokens for the MCP server (`resource`), is connected like any other
client: to one organisation, with the scopes that the person allows.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import Select, select, update

from models.identity import DeviceAuthorization
from models.oauth import OAuthClient
from models.organizations import User
from rules import web_addresses
from rules.access import client_documents
from rules.access.access_tokens import AccessTokenSettings
from rules.access.client_documents import MAX_NAME_LENGTH
from rules.access.oauth import OAuthError, is_same_resource, requested_scopes
from rules.access.user_codes import new_user_code, read_user_code
from rules.errors import ServiceError
from rules.web_addresses import WebOrigin
from services.core.authorization_locks import hold_membership
from services.core.tokens import new_one_time_token, token_hash
from services.core.unit_of_work import UnitOfWork
from services.identity import sessions, throttle
from services.identity.account_audit import actor_of, audit_account
from services.identity.memberships import organizations_of, require_membership
from services.identity.oauth.decisions import forbid_devices, granted_scopes, require_organization
from services.identity.oauth.grants import create_grant
from services.identity.oauth.tokens import issue_tokens, require_resource, resource_of

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
LIFETIME = timedelta(minutes=10)
INTERVAL = 5
"""Seconds between two polls; each poll that comes too soon adds as many (RFC 8628, 3.5)."""
POLL_TOLERANCE = timedelta(seconds=1)
"""How early a poll may arrive, to allow for network latency."""
MAX_CLIENT_ID_LENGTH = 100
_UNVERIFIED = " (not verified)"
"""Follows what a device calls itself wherever its connection is named."""


@dataclass(frozen=True, slots=True)
class DeviceAuthorizationResponse:
    """The response to a device's request (RFC 8628, 3.2). `expires_in` and `interval` are seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of an approved device: an access token, and the session token to get more of them.

    `expires_in` is in seconds.
    """

    access_token: str
    expires_in: int
    session_token: str
    organization_id: str | None
    token_type: str = "Bearer"  # noqa: S105 - a type, not a secret


@dataclass(frozen=True, slots=True)
class DeviceDecision:
    """A decision, as in the contract's `DeviceDecision`."""

    user_code: str
    client_id: str
    address: str
    approved: bool
    organization_id: str | None
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a device requests. With a `resource` it becomes a connected client, with `scope` (names, by spaces)."""

    client_id: str
    scope: str | None = None
    resource: str | None = None


def start(uow: UnitOfWork, request: DeviceRequest, supported: Collection[str]) -> DeviceAuthorizationResponse:
    """Start a device authorization; the client id is what the device calls itself and is not verified.

    `supported` are the scopes that connected clients can have. Raise `rate_limited` if too many were started from one
    address, or OAuthError.
    """
    scopes = _requested_scopes(uow, request, supported)
    limit = MAX_CLIENT_ID_LENGTH if scopes is None else client_documents.MAX_CLIENT_ID_LENGTH
    if len(request.client_id) > limit:
        raise OAuthError("invalid_request", f"client_id must have at most {limit} characters.")
    throttle.count_attempt(uow, "device_code", address=uow.caller.address)
    device_code, user_code = new_one_time_token(), _unused_code(uow)
    uow.session.add(
        DeviceAuthorization(
            device_code_hash=token_hash(device_code),
            user_code=user_code,
            client_id=request.client_id,
            address=uow.caller.address,
            created_at=uow.now,
            expires_at=uow.now + LIFETIME,
            interval_seconds=INTERVAL,
            resource=None if scopes is None else resource_of(uow),
            scopes=scopes,
        )
    )
    page = uow.ports[WebOrigin].url + web_addresses.DEVICE
    complete = f"{page}?{urlencode({'user_code': user_code})}"
    return DeviceAuthorizationResponse(device_code, user_code, page, complete, int(LIFETIME.total_seconds()), INTERVAL)


def _requested_scopes(uow: UnitOfWork, request: DeviceRequest, supported: Collection[str]) -> list[str] | None:
    """Return the scopes of a device that requests tokens for the MCP server, None of one that signs in."""
    if request.resource is None or is_same_resource(request.resource, uow.ports[AccessTokenSettings].audience):
        if request.scope is not None:
            raise OAuthError("invalid_scope", "Scopes need a resource; else access follows from the person's role.")
        return None
    require_resource(uow, request.resource)
    scopes = requested_scopes(request.scope, supported)
    if not scopes:
        raise OAuthError("invalid_scope", "None of these scopes is known.")
    return sorted(scopes)


def _unused_code(uow: UnitOfWork) -> str:
    while uow.session.scalar(_pending(uow, code := new_user_code())) is not None:
        pass
    return code


def find_pending(uow: UnitOfWork, user_code: str) -> DeviceAuthorization:
    """Return the device that waits for a decision under a code.

    Raise `not_found`, and `rate_limited` after too many wrong codes: commit the unit of work all the same.
    """
    device = _find(uow, user_code)
    if device is None:
        raise _unknown_code()
    return device


def decide(
    uow: UnitOfWork,
    user_code: str,
    *,
    approve: bool,
    organization_id: str | None = None,
    scopes: Collection[str] | None = None,
) -> DeviceAuthorization:
    """Approve or deny the device that waits under a code, as the signed-in person; this cannot be undone.

    An approved device acts in `organization_id`, or else in the person's active organisation, or their only one. If it
    is to be a connected client, it gets those of `scopes` that it requested, or all if None is given. Raise `not_found`
    if they are not a member or no device waits under the code (the wrong code is counted: commit the unit of work all
    the same), `organization_deleted`, `rate_limited`, `credential_type_not_allowed` for a device, and
    `validation_failed` for a client without an organisation or a scope.
    """
    person = _person(uow)
    forbid_devices(uow, "devices")
    wanted = _organization(uow, person, organization_id)
    device = _find(uow, user_code, lock=True)
    if device is None:
        raise _unknown_code()
    if device.scopes is not None and approve:
        require_organization(wanted)
        device.scopes = granted_scopes(device.scopes, device.scopes if scopes is None else scopes)
    device.decided_at, device.approved = uow.now, approve
    device.user_id, device.organization_id = person.id, wanted
    uow.session.flush()
    target = ("device", device.user_code, device.client_id)
    audit_account(uow, person, "device.approved" if approve else "device.denied", target, address=device.address)
    return device


def to_response(device: DeviceAuthorization) -> DeviceDecision:
    """Return a decided device as the API's response."""
    assert device.decided_at is not None
    return DeviceDecision(
        device.user_code,
        device.client_id,
        device.address,
        bool(device.approved),
        device.organization_id,
        device.decided_at,
    )


def _person(uow: UnitOfWork) -> User:
    """Return the signed-in person. Raise if the session is a support session or there is none."""
    caller = uow.caller
    if caller.actor.type == "support":
        raise ServiceError("impersonation_read_only", "Support sessions cannot authorize devices.")
    if caller.principal_id is None:
        raise ServiceError("missing_credentials", "Sign in to authorize a device.")
    return uow.session.get_one(User, caller.principal_id)


def _organization(uow: UnitOfWork, person: User, wanted: str | None) -> str | None:
    """Return the organisation that a device will act in, or None; the removal of the person from it waits."""
    if wanted is None:
        own = organizations_of(uow, person.id)
        active = uow.caller.organization_id
        wanted = active if active in own else own[0] if len(own) == 1 else None
    return None if wanted is None else require_membership(uow, person.id, wanted).id


def _find(uow: UnitOfWork, user_code: str, *, lock: bool = False) -> DeviceAuthorization | None:
    """Return the device that waits under a code, or None; every code counts as a guess until it proves right.

    A right code removes only its own guess, not the wrong ones before it: anyone can have a right code issued.
    """
    guess = throttle.count_attempt(uow, "user_code", account=uow.caller.principal_id, address=uow.caller.address)
    query = _pending(uow, read_user_code(user_code) or "")
    device = uow.session.scalar(query.with_for_update() if lock else query)
    if device is not None:
        guess.remove()
    return device


def _unknown_code() -> ServiceError:
    message = "Unknown code. It may be mistyped, already used, or older than ten minutes."
    return ServiceError("not_found", message, commit_on_error=True)


def _pending(uow: UnitOfWork, user_code: str) -> Select[DeviceAuthorization]:
    return select(DeviceAuthorization).where(
        DeviceAuthorization.user_code == user_code,
        DeviceAuthorization.expires_at > uow.now,
        DeviceAuthorization.decided_at.is_(None),
    )


def exchange_device_code(
    uow: UnitOfWork, grant_type: str, device_code: str, client_id: str, *, connects: bool = False
) -> Tokens | dict[str, Any]:
    """Return the tokens of an approved device, once. Raise OAuthError in every other case.

    `connects` is true at the OAuth token endpoint, where a device with a `resource` gets the tokens of a connected
    client; elsewhere such a device is refused. A poll is recorded, so the unit of work must be committed also after an
    error.
    """
    if grant_type != GRANT_TYPE:
        raise OAuthError("unsupported_grant_type", f"The only supported grant type is {GRANT_TYPE}.")
    device = uow.session.scalar(
        select(DeviceAuthorization)
        .where(DeviceAuthorization.device_code_hash == token_hash(device_code))
        .with_for_update()
    )
    uow.refresh_now()
    if device is not None and device.resource is not None and not connects:
        raise OAuthError("invalid_grant", "This device code is for the token endpoint of the metadata.")
    if device is None or device.client_id != client_id or device.consumed_at is not None:
        raise OAuthError("invalid_grant", "The device code is unknown, already used, or belongs to another client.")
    if device.approved is False:
        raise OAuthError("access_denied", "The request was denied.")
    if device.expires_at <= uow.now:
        raise OAuthError("expired_token", "The codes have expired. Start again.")
    if device.approved is None:
        raise _record_poll(uow, device)
    return _sign_in(uow, device)


def _record_poll(uow: UnitOfWork, device: DeviceAuthorization) -> OAuthError:
    """Record a poll and return the error for it: pending, or a longer interval if it came too soon."""
    pause = timedelta(seconds=device.interval_seconds) - POLL_TOLERANCE
    too_soon = device.polled_at is not None and uow.now < device.polled_at + pause
    device.polled_at = uow.now
    if not too_soon:
        return OAuthError("authorization_pending", "The request has not been approved yet.")
    device.interval_seconds += INTERVAL
    return OAuthError("slow_down", "Polling too fast. Wait longer between polls.", interval=device.interval_seconds)


def _sign_in(uow: UnitOfWork, device: DeviceAuthorization) -> Tokens | dict[str, Any]:
    """Sign the device in as the person who approved it, if they are still a member of the organisation."""
    person = uow.session.get_one(User, device.user_id)
    if device.organization_id is not None:
        hold_membership(uow, device.organization_id, person.id)
        if device.organization_id not in organizations_of(uow, person.id):
            raise OAuthError("access_denied", "The person has left the organisation, or it has been deleted.")
    device.consumed_at = uow.now
    if device.resource is not None:
        return _connect(uow, device, person)
    uow.caller = replace(uow.caller, client=device.client_id)
    signed_in = sessions.start(uow, person, kind="device", organization_id=device.organization_id)
    access_token = sessions.issue_token(uow, signed_in.session.id)
    expires_in = int((access_token.expires_at - uow.now).total_seconds())
    return Tokens(access_token.token, expires_in, signed_in.token, access_token.organization_id)


def _connect(uow: UnitOfWork, device: DeviceAuthorization, person: User) -> dict[str, Any]:
    """Return the tokens of a device that becomes a connected client."""
    actor = actor_of(uow, person, device.organization_id)
    with uow.impersonate(organization_id=device.organization_id, actor=actor, source="dashboard"):
        grant = create_grant(
            uow,
            user_id=person.id,
            client_id=device.client_id,
            client_name=device.client_id[: MAX_NAME_LENGTH - len(_UNVERIFIED)] + _UNVERIFIED,
            resource=str(device.resource),
            scopes=device.scopes or (),
        )
    return issue_tokens(uow, grant, uow.session.get_one(OAuthClient, grant.client_id), grant.scopes)


def revoke_approvals(uow: UnitOfWork, user_id: str) -> None:
    """Revoke approvals that no device has used yet, because another person may have given them."""
    unused = (DeviceAuthorization.user_id == user_id, DeviceAuthorization.consumed_at.is_(None))
    uow.session.execute(update(DeviceAuthorization).where(*unused).values(approved=False))
