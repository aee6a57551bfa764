"""Limits on attempts: passwords, codes, mails. Counted in PostgreSQL, so they hold across processes.

An attempt is counted before its outcome is known, one at a time per account and per network address. The caller
commits the count before the work (`UnitOfWork.outside_transaction`), or with an error that says `commit_on_error`. So
concurrent attempts cannot exceed the limit. A successful attempt is removed.

Strangers must not lock people out of their accounts. So attempts from a known origin, which is a browser or a network
where the person has signed in before, have a limit of their own, whatever strangers have tried for the account.

An attempt is stored for each limit that it counts against, as `<kind>_account`, `<kind>_address` or `<kind>_origin`
(an account and an origin or a network together).
"""

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import delete, select

from models.identity import ThrottledAttempt
from models.organizations import LoginSession, User
from rules.errors import ServiceError
from services.core.named_locks import acquire_lock
from services.core.tokens import token_hash
from services.core.unit_of_work import UnitOfWork
from services.identity.known_devices import find_device

Kind = Literal[
    "sign_in", "sign_up", "reset_mail", "password", "change_mail", "device_code", "user_code", "client_document"
]


@dataclass(frozen=True, slots=True)
class Limit:
    """How many attempts are allowed within a time.

    They are for one account (of `client_document`: one document), and from one network address.
    """

    account: int
    address: int
    within: timedelta = timedelta(minutes=15)
    account_from_address: int | None = None
    """For one account from one address; set it lower than `account`, so that one stranger cannot use that up."""


LIMITS: dict[Kind, Limit] = {
    "sign_in": Limit(account=10, address=30),
    "sign_up": Limit(account=20, address=30, within=timedelta(hours=1), account_from_address=5),
    "reset_mail": Limit(account=5, address=30, within=timedelta(hours=1)),
    "password": Limit(account=10, address=30),
    "change_mail": Limit(account=5, address=30, within=timedelta(hours=1)),
    "device_code": Limit(account=30, address=30),
    "user_code": Limit(account=10, address=30),
    "client_document": Limit(account=30, address=30),
}
RETENTION = timedelta(days=1)
MAX_SESSIONS = 100
"""Latest sessions of a person whose networks are known."""
_IPV6_PREFIX_LENGTH = 64
"""The IPv6 network of one customer, who can change the other bits at will."""


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    """An attempt that was counted; `reset` removes it once it proves right."""

    uow: UnitOfWork
    account: ThrottledAttempt | None
    """For the account, or for the account and its known origin."""
    address: ThrottledAttempt | None
    """None from a known origin."""

    def reset(self) -> None:
        """Remove all attempts of the account (or of the account and its origin), and only this one of the address."""
        session = self.uow.session
        if self.address is not None:
            session.execute(delete(ThrottledAttempt).where(ThrottledAttempt.id == self.address.id))
        if self.account is not None:
            subject = (ThrottledAttempt.kind == self.account.kind, ThrottledAttempt.subject == self.account.subject)
            session.execute(delete(ThrottledAttempt).where(*subject))

    def remove(self) -> None:
        """Remove only this attempt, in the transaction that counted it."""
        for attempt in (self.account, self.address):
            if attempt is not None:
                self.uow.session.delete(attempt)


def known_origin(uow: UnitOfWork, email: str, session_token: str, device_cookie: str) -> str | None:
    """Return what identifies the caller's origin if the person with this address has signed in there, or None.

    The origin is a browser that sends the cookie of a known device, or the token of a session of the person, which may
    have ended; or else the caller's network, if one of the latest sessions was started there.
    """
    device = find_device(uow, uow.session.scalar(select(User).where(User.email == email)), device_cookie)
    if device is not None:
        return f"device {device}"
    hashed = token_hash(session_token) if session_token else b""
    query = (
        select(LoginSession.id, LoginSession.address, LoginSession.token_hash == hashed)
        .join(User, User.id == LoginSession.user_id)
        .where(User.email == email, ~LoginSession.support)
        .order_by((LoginSession.token_hash == hashed).desc().nulls_last(), LoginSession.created_at.desc())
        .limit(MAX_SESSIONS)
    )
    network = network_of(uow.caller.address)
    for session_id, address, same in uow.session.execute(query):
        if same:
            return str(session_id)
        if address and network_of(address) == network:
            return network
    return None


def count_attempt(
    uow: UnitOfWork, kind: Kind, *, account: str | None = None, address: str, origin: str | None = None
) -> CountedAttempt:
    """Count an attempt for an account (an id, or the given e-mail address) and a network address.

    From a known `origin` of the account it is counted for the account and the origin together, and for nothing else.
    Raise `rate_limited`, and count nothing, if a limit is reached.
    """
    limit = LIMITS[kind]
    network = network_of(address)
    if account is not None and origin is not None:
        subject = _hash(f"{account} {origin}")
        _require_below_limit(uow, f"{kind}_origin", subject, limit.account, limit.within)
        counted = CountedAttempt(uow, _add(uow, f"{kind}_origin", subject), None)
        uow.session.flush()
        return counted
    if account is not None and limit.account_from_address is not None:
        subject = _hash(f"{account} {network}")
        _require_below_limit(uow, f"{kind}_origin", subject, limit.account_from_address, limit.within)
        _add(uow, f"{kind}_origin", subject)
    if account is not None:
        _require_below_limit(uow, f"{kind}_account", _hash(account), limit.account, limit.within)
    _require_below_limit(uow, f"{kind}_address", network, limit.address, limit.within)
    of_account = _add(uow, f"{kind}_account", _hash(account)) if account is not None else None
    counted = CountedAttempt(uow, of_account, _add(uow, f"{kind}_address", network))
    uow.session.flush()
    return counted


def count_unless_recent(uow: UnitOfWork, kind: Kind, account: str, recent: timedelta) -> bool:
    """Count an attempt for an account and the caller's address; False if the account's limit is reached.

    But if the latest attempt for the account is older than `recent`, one more is counted. Raise `rate_limited` if the
    limit of the address is reached.
    """
    limit, subject, network = LIMITS[kind], _hash(account), network_of(uow.caller.address)
    latest = _latest(uow, f"{kind}_account", subject, limit.account, limit.within)
    if len(latest) == limit.account and uow.now - latest[0] < recent:
        return False
    _require_below_limit(uow, f"{kind}_address", network, limit.address, limit.within)
    _add(uow, f"{kind}_account", subject)
    _add(uow, f"{kind}_address", network)
    uow.session.flush()
    return True


def reset(uow: UnitOfWork, kind: Kind, account: str) -> None:
    """Remove all attempts of an account, after its owner has proved their identity otherwise."""
    subject = (ThrottledAttempt.kind == f"{kind}_account", ThrottledAttempt.subject == _hash(account))
    uow.session.execute(delete(ThrottledAttempt).where(*subject))


def _require_below_limit(uow: UnitOfWork, kind: str, subject: str, limit: int, within: timedelta) -> None:
    """Raise `rate_limited` if the limit is reached; concurrent attempts for the subject wait for this transaction."""
    latest = _latest(uow, kind, subject, limit, within)
    if len(latest) == limit:
        seconds = max(1, -(-(latest[-1] + within - uow.now) // timedelta(seconds=1)))
        message = f"Too many attempts. Try again in {format_wait(seconds)}."
        raise ServiceError("rate_limited", message, retry_after=seconds)


def _latest(uow: UnitOfWork, kind: str, subject: str, limit: int, within: timedelta) -> Sequence[datetime]:
    """Return when the latest attempts were, newest first, and have concurrent ones wait for this transaction."""
    acquire_lock(uow, f"attempts {kind} {subject}")
    return uow.session.scalars(
        select(ThrottledAttempt.at)
        .where(
            ThrottledAttempt.kind == kind,
            ThrottledAttempt.subject == subject,
            ThrottledAttempt.at > uow.now - within,
        )
        .order_by(ThrottledAttempt.at.desc())
        .limit(limit)
    ).all()


def format_wait(seconds: int) -> str:
    """Return a duration as text, rounded up: seconds below one minute, else minutes."""
    minutes = -(-seconds // 60)
    if seconds < 60:
        return f"{seconds} second{'s'[: seconds > 1]}"
    return f"{minutes} minute{'s'[: minutes > 1]}"


def _add(uow: UnitOfWork, kind: str, subject: str) -> ThrottledAttempt:
    attempt = ThrottledAttempt(kind=kind, subject=subject, at=uow.now)
    uow.session.add(attempt)
    return attempt


def _hash(account: str) -> str:
    """Return the hash of an account name as given; people sometimes type a password there."""
    return hashlib.sha256(account.encode()).hexdigest()


def network_of(address: str) -> str:
    """Return the address as it is counted: an IPv6 address as its network, a mapped IPv4 address as IPv4."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX_LENGTH), strict=False))
