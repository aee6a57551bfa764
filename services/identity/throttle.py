"""Limits on attempts: passwords, codes, mails. Counted in PostgreSQL, so they hold across processes.

An attempt is counted before its outcome is known, one at a time per account and per network address. The caller
commits the count before the work (`UnitOfWork.outside_transaction`), or with an error that says `commit_on_error`. So
concurrent attempts cannot exceed the limit. A successful attempt is removed.
"""

import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sqlalchemy import delete, select, text

from models.identity import ThrottledAttempt
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork

Kind = Literal["sign_in", "mail", "device_code", "user_code"]


@dataclass(frozen=True, slots=True)
class Limit:
    """The number of attempts within a time: for one account, and from one network address."""

    account: int
    address: int
    within: timedelta = timedelta(minutes=15)


LIMITS: dict[Kind, Limit] = {
    "sign_in": Limit(account=10, address=30),
    "mail": Limit(account=5, address=30, within=timedelta(hours=1)),
    "device_code": Limit(account=30, address=30),
    "user_code": Limit(account=10, address=30),
}
RETENTION = timedelta(days=1)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('attempts ' || :subject, 0))")
_IPV6_PREFIX_LENGTH = 64
"""The IPv6 network of one customer, who can change the other bits at will."""


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    """An attempt that was counted; `reset` removes it once it proves right."""

    uow: UnitOfWork
    account: ThrottledAttempt | None
    address: ThrottledAttempt

    def reset(self) -> None:
        """Remove all attempts of the account, and this one of the address."""
        session = self.uow.session
        session.execute(delete(ThrottledAttempt).where(ThrottledAttempt.id == self.address.id))
        if self.account is not None:
            subject = (ThrottledAttempt.kind == self.account.kind, ThrottledAttempt.subject == self.account.subject)
            session.execute(delete(ThrottledAttempt).where(*subject))


def count_attempt(uow: UnitOfWork, kind: Kind, *, account: str | None = None, address: str) -> CountedAttempt:
    """Count an attempt for an account (an id, or the given e-mail address) and a network address.

    Raise `rate_limited`, and count nothing, if either has reached its limit.
    """
    limit = LIMITS[kind]
    network = _network(address)
    if account is not None:
        _require_below_limit(uow, f"{kind}_account", _hash(account), limit.account, limit.within)
    _require_below_limit(uow, f"{kind}_address", network, limit.address, limit.within)
    of_account = _add(uow, f"{kind}_account", _hash(account)) if account is not None else None
    counted = CountedAttempt(uow, of_account, _add(uow, f"{kind}_address", network))
    uow.session.flush()
    return counted


def reset(uow: UnitOfWork, kind: Kind, account: str) -> None:
    """Remove all attempts of an account, after its owner has proved their identity otherwise."""
    subject = (ThrottledAttempt.kind == f"{kind}_account", ThrottledAttempt.subject == _hash(account))
    uow.session.execute(delete(ThrottledAttempt).where(*subject))


def _require_below_limit(uow: UnitOfWork, kind: str, subject: str, limit: int, within: timedelta) -> None:
    """Raise `rate_limited` if the limit is reached; concurrent attempts for the subject wait for this transaction."""
    uow.session.execute(_LOCK, {"subject": f"{kind} {subject}"})
    instants = list(
        uow.session.scalars(
            select(ThrottledAttempt.at)
            .where(
                ThrottledAttempt.kind == kind,
                ThrottledAttempt.subject == subject,
                ThrottledAttempt.at > uow.now - within,
            )
            .order_by(ThrottledAttempt.at.desc())
            .limit(limit)
        )
    )
    if len(instants) == limit:
        seconds = max(1, -(-(instants[-1] + within - uow.now) // timedelta(seconds=1)))
        message = f"Too many attempts. Try again in {format_wait(seconds)}."
        raise ServiceError("rate_limited", message, retry_after=seconds)


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


def _network(address: str) -> str:
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
