"""The unit of work: one transaction, one `now`, one actor, and the wake-ups sent after the commit.

Invariants (I4, I9): an effect, its audit entry and its idempotent response share one transaction. A wake-up is sent
only after the commit, and losing it loses nothing, because the sweep finds what is due.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Engine, TextClause, text
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from rules.access.permissions import CODE_HOST, SYSTEM, Actor, ConnectedClient, Source
from rules.audit.actions import ACTIONS
from rules.billing.grants import PlanGrants
from rules.billing.plans import Plan
from rules.ids import new_id
from rules.time.instants import format_instant
from services.core.clock import Clock
from services.core.ports import Ports
from services.core.transactions import begin

logger = logging.getLogger(__name__)

_BIND = text("SELECT set_config('app.organization_id', :organization, true)")
_PRESENT = text("SELECT clock_timestamp()")


@dataclass(frozen=True, slots=True)
class Authorization:
    """The time of an authorization, and the grants of plans that the organisation has and the caller's actor then."""

    now: datetime
    grants: PlanGrants
    actor: Actor
    """With the address of a person whose name another member has as well."""


Authorize = Callable[[Session], Authorization]
"""Authorizes the caller in a transaction: nothing takes the right away before its end.

Raises a ServiceError if the caller may not act.
"""


class Wakeups(Protocol):
    """Wakes workers by the name of a job; a wake-up carries no payload."""

    def send(self, names: set[str]) -> None:
        """Wake the jobs; a failure is logged, never raised."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a unit of work acts for: organisation, actor, and source of the request."""

    organization_id: str | None
    actor: Actor
    source: Source
    grants: PlanGrants = field(default_factory=PlanGrants)
    """What gives the organisation its plan."""
    principal_id: str | None = None
    request_id: str | None = None
    user_id: str | None = None
    """The person who acts, in a session or through a connected client."""
    session_id: str | None = None
    """The session of a signed-in person."""
    connected_client: ConnectedClient | None = None
    """The client that acts for the person."""
    address: str = ""
    """The client's network address."""
    client: str = ""
    """The client's `User-Agent`."""
    claimed_by: str | None = None
    """Whom a client of the compatibility API names as its user: a claim, and no identity."""

    @property
    def signed_in_user(self) -> str:
        """The id of the person who acts. Raise `RuntimeError` without one, which authorization rules out."""
        if self.user_id is None:
            raise RuntimeError("no person acts")
        return self.user_id


SYSTEM_CALLER = Caller(None, SYSTEM, "system")
"""The service itself, without an organisation: jobs and the sweep."""
GITHUB_CALLER = Caller(None, CODE_HOST, "code_host")
"""The service on behalf of GitHub: events that a webhook or a comparison reported."""


def system_caller(organization_id: str) -> Caller:
    """Return the service itself, in an organisation."""
    return Caller(organization_id, SYSTEM, "system")


@dataclass(slots=True)
class UnitOfWork:
    """One transaction, with the caller and the time of the request."""

    session: Session
    now: datetime
    caller: Caller
    clock: Clock
    ports: Ports = field(default_factory=Ports)
    """What the process is configured with."""
    wakeups: set[str] = field(default_factory=set)
    read_only: bool = False
    authorize: Authorize | None = None

    @property
    def organization(self) -> str:
        """The organisation's id; raises if the operation has no organisation."""
        if self.caller.organization_id is None:
            raise RuntimeError("unit of work without an organisation")
        return self.caller.organization_id

    @property
    def plan(self) -> Plan:
        """The organisation's plan in force."""
        return self.caller.grants.at(self.now).plan

    @property
    def actor(self) -> Actor:
        """The actor in the audit log."""
        return self.caller.actor

    def bind_organization(self, organization_id: str, actor: Actor | None = None) -> None:
        """Continue in an organisation, for a unit of work that began without one, such as one that creates it."""
        self.caller = replace(self.caller, organization_id=organization_id, actor=actor or self.actor)
        self.session.execute(_BIND, {"organization": organization_id})

    @contextmanager
    def impersonate(self, **changes: Any) -> Iterator[None]:
        """Run the block as another caller: `changes` are fields of Caller. Row-level security does not change."""
        caller = self.caller
        self.caller = replace(caller, **changes)
        try:
            yield
        finally:
            self.caller = caller

    def act_as_service(self, **changes: Any) -> AbstractContextManager[None]:
        """Run the block as the service itself."""
        return self.impersonate(**{"actor": SYSTEM, "source": "system", "claimed_by": None, **changes})

    def refresh_now(self, after: TextClause = _PRESENT, **values: Any) -> Sequence[Any]:
        """Set `now` to the present, after waiting for a lock; `after` is a statement that waits and returns the time.

        Otherwise rows that were committed during the wait would appear to be in the future. Return what else the
        statement returns.
        """
        present, *others = self.session.execute(after, values).one()
        self.now = max(self.now, self.clock.read(present))
        return others

    @contextmanager
    def outside_transaction(self) -> Iterator[None]:
        """Run the block without a transaction and without a connection, for slow work that needs no rows.

        Earlier changes are committed, whatever happens later. Rows that were read before may have changed afterwards.
        Inside a savepoint nothing can be committed, and the block runs in the transaction.
        """
        if self.session.in_nested_transaction():
            yield
            return
        self.session.commit()
        yield
        begin(self.session, self.caller.organization_id, read_only=self.read_only)
        self.confirm()

    def confirm(self) -> datetime:
        """Authorize the caller in the transaction that has begun, and return the time then."""
        if self.authorize is None:
            return self.now
        authorization = self.authorize(self.session)
        is_same = (self.actor.type, self.actor.id) == (authorization.actor.type, authorization.actor.id)
        actor = authorization.actor if is_same else self.actor
        self.caller = replace(self.caller, grants=authorization.grants, actor=actor)
        return authorization.now

    def audit(self, action: str, target: tuple[str, str, str], **details: Any) -> str:
        """Add an audit entry, and return its id; `target` is type, id and name of the object.

        For a change, `before` and `after` hold the changed fields, or None where the object did not exist. Details may
        contain datetimes. If a client acts for a person, they name it; whom a client claims to act for is `userName`.
        Raise RuntimeError if the action is not in the vocabulary.
        """
        if action not in ACTIONS:
            raise RuntimeError(f"unknown audit action {action!r}: rules/audit/actions.py lists them")
        kind, target_id, name = target
        if self.caller.connected_client is not None:
            details["client"] = self.caller.connected_client.as_json()
        if self.caller.claimed_by is not None:
            details["userName"] = self.caller.claimed_by
        entry_id = new_id("aud")
        self.session.add(
            AuditEntry(
                id=entry_id,
                organization_id=self.organization,
                at=self.now,
                action=action,
                actor=self.actor.as_json(),
                source=self.caller.source,
                target={"type": kind, "id": target_id, "name": name},
                request_id=self.caller.request_id,
                details=_to_json(details),
            )
        )
        return entry_id

    def wake(self, job: str) -> None:
        """Wake `job` (`jobs/registry.py` lists them) after the commit."""
        self.wakeups.add(job)


def _to_json(value: Any) -> Any:
    """Return audit details as JSON values, with datetimes in the format of the API."""
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, Mapping):
        return {key: _to_json(item) for key, item in value.items()}
    return [_to_json(item) for item in value] if isinstance(value, list | tuple) else value


class UnitOfWorkFactory:
    """Opens units of work on one database; a process has one factory per database role."""

    def __init__(self, engine: Engine, clock: Clock, wakeups: Wakeups, ports: Ports | None = None) -> None:
        self.engine = engine
        self.clock = clock
        self.wakeups = wakeups
        self.ports = ports or Ports()

    @contextmanager
    def open(
        self, caller: Caller, *, read_only: bool = False, authorize: Authorize | None = None
    ) -> Iterator[UnitOfWork]:
        """Run the block in one transaction for the caller's organisation; commit at its end, roll back on any error.

        Row-level security restricts it to rows of that organisation, and to none if there is no organisation.
        `read_only` makes the database reject writes (I13). `authorize` is called at the beginning of each transaction.
        """
        with Session(self.engine, expire_on_commit=False) as session:
            now = self.clock.read(begin(session, caller.organization_id, read_only=read_only))
            uow = UnitOfWork(session, now, caller, self.clock, self.ports, read_only=read_only)
            uow.authorize = authorize
            uow.now = uow.confirm()
            yield uow
            session.commit()
        if uow.wakeups and not read_only:
            self.wakeups.send(uow.wakeups)
