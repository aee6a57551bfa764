"""Limits of what may be tried: passwords, codes, mails. Counted in PostgreSQL, so that every process knows.

A try is counted before it is known how it ends, one at a time for each account and each address; the caller commits
that before it does the work (`UnitOfWork.outside_transaction`), or keeps it with a refusal whose effects stay. So
concurrent tries cannot exceed the limit. A success is forgotten.
"""

import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sqlalchemy import delete, select, text

from models.identity import Attempt
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork

Kind = Literal["sign_in", "mail", "device_code", "user_code"]


@dataclass(frozen=True, slots=True)
class Limit:
    """How many tries within which time: for one account, and from one address of the network."""

    account: int
    address: int
    within: timedelta = timedelta(minutes=15)


LIMITS: dict[Kind, Limit] = {
    "sign_in": Limit(account=10, address=30),
    "mail": Limit(account=5, address=30, within=timedelta(hours=1)),
    "device_code": Limit(account=30, address=30),
    "user_code": Limit(account=10, address=30),
}
KEPT = timedelta(days=1)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('attempts ' || :whom, 0))")
_IPV6_NETWORK = 64
"""Bits of an IPv6 address that are one customer's: the others cost nothing to change."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A try that is counted, until it is forgotten because it was right."""

    uow: UnitOfWork
    account: Attempt | None
    address: Attempt

    def forget(self) -> None:
        """Forget every try of the account, and this one of the address."""
        session = self.uow.session
        session.execute(delete(Attempt).where(Attempt.id == self.address.id))
        if self.account is not None:
            whom = (Attempt.kind == self.account.kind, Attempt.subject == self.account.subject)
            session.execute(delete(Attempt).where(*whom))


def count(uow: UnitOfWork, kind: Kind, *, account: str | None = None, address: str) -> Counted:
    """Count a try for an account (an id, or the e-mail address that was given) and an address of the network.

    Raises `rate_limited`, and counts nothing, when either has had too many.
    """
    limit = LIMITS[kind]
    network = _network(address)
    if account is not None:
        _refuse_when_over(uow, f"{kind}_account", _hidden(account), limit.account, limit.within)
    _refuse_when_over(uow, f"{kind}_address", network, limit.address, limit.within)
    of_account = _add(uow, f"{kind}_account", _hidden(account)) if account is not None else None
    counted = Counted(uow, of_account, _add(uow, f"{kind}_address", network))
    uow.session.flush()
    return counted


def forget(uow: UnitOfWork, kind: Kind, account: str) -> None:
    """Forget every try of an account: its owner has shown otherwise who they are."""
    whom = (Attempt.kind == f"{kind}_account", Attempt.subject == _hidden(account))
    uow.session.execute(delete(Attempt).where(*whom))


def _refuse_when_over(uow: UnitOfWork, kind: str, subject: str, most: int, within: timedelta) -> None:
    """Refuse when there were as many as there may be; whoever else tries for the same subject waits for this unit."""
    uow.session.execute(_LOCK, {"whom": f"{kind} {subject}"})
    instants = list(
        uow.session.scalars(
            select(Attempt.at)
            .where(Attempt.kind == kind, Attempt.subject == subject, Attempt.at > uow.now - within)
            .order_by(Attempt.at.desc())
            .limit(most)
        )
    )
    if len(instants) == most:
        _refuse(instants[-1] + within - uow.now)


def _refuse(wait: timedelta) -> None:
    seconds = max(1, -(-wait // timedelta(seconds=1)))
    message = f"This was tried too often. Try again in {in_words(seconds)}."
    raise ServiceError("rate_limited", message, retry_after=seconds)


def in_words(seconds: int) -> str:
    """Return a wait for people, never shorter than it is: full minutes from one on."""
    minutes = -(-seconds // 60)
    if seconds < 60:
        return f"{seconds} second{'s'[: seconds > 1]}"
    return f"{minutes} minute{'s'[: minutes > 1]}"


def _add(uow: UnitOfWork, kind: str, subject: str) -> Attempt:
    attempt = Attempt(kind=kind, subject=subject, at=uow.now)
    uow.session.add(attempt)
    return attempt


def _hidden(account: str) -> str:
    """Return the hash of what was given for an account: people type their passwords there by mistake."""
    return hashlib.sha256(account.encode()).hexdigest()


def _network(address: str) -> str:
    """Return an address as it is limited: of IPv6 the network of one customer, and IPv4 in IPv6 as IPv4."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK), strict=False))
