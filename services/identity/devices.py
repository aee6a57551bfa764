"""Devices that ask a person to let them in (RFC 8628): a script or a CLI signs in without a browser of its own.

A device is given two codes: a long one, by which it asks again and again for its tokens, and a short one, which the
person carries to a browser. Signed in there, they see what asks and from where, and approve or deny it: nothing
happens without that. The short code is good for ten minutes and for one decision, the long one for one sign-in. Wrong
short codes are counted for the person and for the address; the long one has 256 bits, and is not to be guessed.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from sqlalchemy import Select, select, update

from models.identity import DeviceAuthorization
from models.organizations import Membership, Organization, User
from rules.access.oauth import OAuthError
from rules.access.user_codes import new_user_code, read_user_code
from rules.errors import ServiceError
from services.core.tokens import new_one_time_token, token_hash
from services.core.unit_of_work import UnitOfWork
from services.identity import sessions, throttle
from services.identity.account_audit import organizations_of, record

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
LIFETIME = timedelta(minutes=10)
INTERVAL = 5
"""Seconds that a device waits between two polls; RFC 8628, 3.5 adds as many for each poll that comes too soon."""
TRAVEL = timedelta(seconds=1)
"""What a poll may come early: the one before may have taken longer to get here."""
LONGEST_CLIENT = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What a device is told when it begins (RFC 8628, 3.2). `expires_in` and `interval` are seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an approved device is given: a JWT for the API, and the session token that more are minted from."""

    access_token: str
    expires_in: int
    session_token: str
    organization_id: str | None
    token_type: str = "Bearer"  # noqa: S105 - a type, no secret


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, as the contract's `DeviceDecision`."""

    user_code: str
    client_id: str
    address: str
    approved: bool
    organization_id: str | None
    decided_at: datetime


def begin(uow: UnitOfWork, client_id: str, scope: str | None = None) -> Asked:
    """Let a device ask; `client_id` is what it calls itself, and is believed by nobody.

    Raises `rate_limited` when too many have begun at one address, and OAuthError.
    """
    if scope is not None:
        raise OAuthError("invalid_scope", "There are no scopes here: the person's role decides.")
    if len(client_id) > LONGEST_CLIENT:
        raise OAuthError("invalid_request", f"client_id has more than {LONGEST_CLIENT} characters.")
    throttle.count(uow, "device_code", address=uow.caller.address)
    device_code, user_code = new_one_time_token(), _unused_code(uow)
    uow.session.add(
        DeviceAuthorization(
            device_code_hash=token_hash(device_code),
            user_code=user_code,
            client_id=client_id,
            address=uow.caller.address,
            created_at=uow.now,
            expires_at=uow.now + LIFETIME,
            interval_seconds=INTERVAL,
        )
    )
    page = f"{uow.dependencies.web_url}/device"
    complete = f"{page}?{urlencode({'user_code': user_code})}"
    return Asked(device_code, user_code, page, complete, int(LIFETIME.total_seconds()), INTERVAL)


def _unused_code(uow: UnitOfWork) -> str:
    while uow.session.scalar(_waiting(uow, code := new_user_code())) is not None:
        pass
    return code


def look(uow: UnitOfWork, user_code: str) -> DeviceAuthorization | None:
    """Return the device that waits under a code, so that a person can be shown what asks and from where.

    A wrong code is counted: commit the unit all the same. Raises `rate_limited` after too many.
    """
    return _find(uow, user_code)


def decide(uow: UnitOfWork, user_code: str, approve: bool, organization_id: str | None = None) -> DeviceAuthorization:  # noqa: FBT001 - the one question that is asked
    """Let the device that waits under a code in, as the signed-in person, or send it away; it cannot be undone.

    It begins to act in `organization_id`, or else in the one that the person acts in, or their only one.
    Raises `not_found` for an organisation that is not theirs and for a code under which nothing waits (then commit
    the unit all the same: the guess is counted), `organization_deleted`, `rate_limited`.
    """
    person = _person(uow)
    wanted = _organization(uow, person, organization_id)
    device = _find(uow, user_code, lock=True)
    if device is None:
        message = "No device waits under this code. It may be mistyped, used, or older than ten minutes."
        raise ServiceError("not_found", message, effects_stay=True)
    device.decided_at, device.approved = uow.now, approve
    device.user_id, device.organization_id = person.id, wanted
    uow.session.flush()
    target = ("device", device.user_code, device.client_id)
    record(uow, person, "device.approved" if approve else "device.denied", target, address=device.address)
    return device


def view(device: DeviceAuthorization) -> Decision:
    """Return a decided device as the contract shows it."""
    assert device.decided_at is not None
    return Decision(
        device.user_code,
        device.client_id,
        device.address,
        bool(device.approved),
        device.organization_id,
        device.decided_at,
    )


def _person(uow: UnitOfWork) -> User:
    """Return who is signed in: a person with an account, and never somebody who looks on for support."""
    caller = uow.caller
    if caller.actor.type == "support":
        raise ServiceError("impersonation_read_only", "A support session lets no device in.")
    if caller.principal_id is None:
        raise ServiceError("missing_credentials", "Sign in to let a device in.")
    return uow.session.get_one(User, caller.principal_id)


def _organization(uow: UnitOfWork, person: User, wanted: str | None) -> str | None:
    if wanted is None:
        own = organizations_of(uow, person.id)
        active = uow.caller.organization_id
        return active if active in own else own[0] if len(own) == 1 else None
    query = select(Organization).join(Membership, Membership.organization_id == Organization.id)
    found = uow.session.scalar(query.where(Organization.id == wanted, Membership.user_id == person.id))
    if found is None:
        raise ServiceError("not_found", "You belong to no organisation with this id.")
    if found.deleted_at is not None:
        raise ServiceError("organization_deleted", "The organisation has been deleted.")
    return found.id


def _find(uow: UnitOfWork, user_code: str, *, lock: bool = False) -> DeviceAuthorization | None:
    """Return the device that waits under a code; any code is a guess until it is found to be right.

    Only the right one is forgotten, and the wrong ones before it are not: everybody can have a right code made.
    """
    guess = throttle.count(uow, "user_code", account=uow.caller.principal_id, address=uow.caller.address)
    query = _waiting(uow, read_user_code(user_code) or "")
    device = uow.session.scalar(query.with_for_update() if lock else query)
    if device is not None:
        for attempt in (guess.account, guess.address):
            if attempt is not None:
                uow.session.delete(attempt)
    return device


def _waiting(uow: UnitOfWork, user_code: str) -> Select[DeviceAuthorization]:
    return select(DeviceAuthorization).where(
        DeviceAuthorization.user_code == user_code,
        DeviceAuthorization.expires_at > uow.now,
        DeviceAuthorization.decided_at.is_(None),
    )


def redeem(uow: UnitOfWork, grant_type: str, device_code: str, client_id: str) -> Tokens:
    """Return the tokens of an approved device, once; raises OAuthError with what else there is to tell.

    A poll that comes too soon is noted, and so has its effect only when the unit is committed.
    """
    if grant_type != GRANT_TYPE:
        raise OAuthError("unsupported_grant_type", f"The one grant type here is {GRANT_TYPE}.")
    device = uow.session.scalar(
        select(DeviceAuthorization)
        .where(DeviceAuthorization.device_code_hash == token_hash(device_code))
        .with_for_update()
    )
    uow.refresh_now()
    if device is None or device.client_id != client_id or device.consumed_at is not None:
        raise OAuthError("invalid_grant", "This device code is unknown, used up, or another client's.")
    if device.approved is False:
        raise OAuthError("access_denied", "The person has denied the request.")
    if device.expires_at <= uow.now:
        raise OAuthError("expired_token", "The codes have expired; begin anew.")
    if device.approved is None:
        raise _poll(uow, device)
    return _let_in(uow, device)


def _poll(uow: UnitOfWork, device: DeviceAuthorization) -> OAuthError:
    """Note a poll, and return what it is told: to come back, and more seldom when it was too soon."""
    pause = timedelta(seconds=device.interval_seconds) - TRAVEL
    too_soon = device.polled_at is not None and uow.now < device.polled_at + pause
    device.polled_at = uow.now
    if not too_soon:
        return OAuthError("authorization_pending", "The person has not decided yet.")
    device.interval_seconds += INTERVAL
    return OAuthError("slow_down", "Wait longer between two polls.", interval=device.interval_seconds)


def _let_in(uow: UnitOfWork, device: DeviceAuthorization) -> Tokens:
    """Sign the device in as the person who approved it, if they still belong where it is to act."""
    person = uow.session.get_one(User, device.user_id)
    if device.organization_id is not None and device.organization_id not in organizations_of(uow, person.id):
        raise OAuthError("access_denied", "The person has left the organisation, or it has been deleted.")
    device.consumed_at = uow.now
    uow.caller = replace(uow.caller, client=device.client_id)
    signed_in = sessions.start(uow, person, kind="device", organization_id=device.organization_id)
    minted = sessions.mint(uow, signed_in.session.id)
    lasts = int((minted.expires_at - uow.now).total_seconds())
    return Tokens(minted.token, lasts, signed_in.token, minted.organization_id)


def withdraw(uow: UnitOfWork, user_id: str) -> None:
    """Take back what a person approved and no device has used yet: it may not have been they who did."""
    waiting = (DeviceAuthorization.user_id == user_id, DeviceAuthorization.consumed_at.is_(None))
    uow.session.execute(update(DeviceAuthorization).where(*waiting).values(approved=False))


def metadata(uow: UnitOfWork) -> dict[str, object]:
    """Return what an OAuth client has to know of this server (RFC 8414): no more than there is."""
    web = uow.dependencies.web_url
    return {
        "issuer": uow.dependencies.token_issuer,
        "device_authorization_endpoint": f"{web}/api/auth/device/code",
        "token_endpoint": f"{web}/api/auth/device/token",
        "jwks_uri": f"{web}/.well-known/jwks.json",
        "response_types_supported": [],
        "grant_types_supported": [GRANT_TYPE],
        "token_endpoint_auth_methods_supported": ["none"],
    }
