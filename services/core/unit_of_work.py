"""The unit of work: one transaction, one `now`, one actor, and the wake-ups that leave after commit.

Properties (I4, I9): an effect, its audit row and its idempotent reply share the unit's transaction; a wake-up is
sent only once the transaction is committed, and losing it loses nothing, because the sweeper finds what is due.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from secrets import token_bytes
from typing import Any, Protocol

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from integrations.github import GitHub
from integrations.mail.smtp import MailServer
from models.audit import AuditEntry
from rules.access.permissions import CODE_HOST, SYSTEM, Actor, Source
from rules.audit.actions import ACTIONS
from rules.ids import new_id
from rules.rate_budget import RateLimits
from rules.time.instants import format_instant
from services.core.clock import Clock
from services.core.password_hashing import PasswordHasher

logger = logging.getLogger(__name__)

_BIND = text("SELECT set_config('app.organization_id', :organization, true)")


class Wakeups(Protocol):
    """Asks workers to look, by the name of a job; never says what they will find."""

    def send(self, names: set[str]) -> None:
        """Wake the named jobs; a failure is logged, never raised."""


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a unit is opened: the organisation, who acts in it, and by which way."""

    organization_id: str | None
    actor: Actor
    source: Source
    plan: str = "free"
    principal_id: str | None = None
    request_id: str | None = None
    session_id: str | None = None
    """The sign-in of a person."""
    address: str = ""
    """Where the request came from: an address of the network."""
    client: str = ""
    """What it says it was made by: its `User-Agent`."""


SYSTEM_CALLER = Caller(None, SYSTEM, "system")
"""The service itself, in no organisation: jobs and the sweeper."""
GITHUB_CALLER = Caller(None, CODE_HOST, "code_host")
"""The service on behalf of GitHub: what a webhook or a comparison reported."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a process is given once, at its start, and every unit can reach."""

    github: GitHub | None = None
    max_targets: int = 10_000
    """Watched branches that one freeze request may cover."""
    cursor_secret: bytes = b""
    """Signs the cursors of lists."""
    web_url: str = ""
    """Our web origin, to which the code host sends people back."""
    token_issuer: str = ""
    token_audience: str = ""
    """What session JWTs say of their origin, and of the API that they are for."""
    token_lifetime: timedelta = timedelta(minutes=15)
    secret_key: bytes = field(default_factory=partial(token_bytes, 32))
    """Seals what the database keeps but must not tell."""
    mail: MailServer | None = None
    """Takes our mails; without one they wait."""
    rate_limits: RateLimits = field(default_factory=RateLimits)
    """How much may be sent to GitHub for one installation."""
    password_hasher: PasswordHasher = field(default_factory=PasswordHasher)


@dataclass(slots=True)
class UnitOfWork:
    """One transaction with everything a service needs to know about who asks, and when."""

    session: Session
    now: datetime
    caller: Caller
    clock: Clock
    dependencies: Dependencies = field(default_factory=Dependencies)
    wakeups: set[str] = field(default_factory=set)

    @property
    def organization(self) -> str:
        """The organisation's id; operations that need none never ask."""
        if self.caller.organization_id is None:
            raise RuntimeError("this unit belongs to no organisation")
        return self.caller.organization_id

    @property
    def plan(self) -> str:
        """The organisation's plan."""
        return self.caller.plan

    @property
    def actor(self) -> Actor:
        """Who acts."""
        return self.caller.actor

    def bind_organization(self, organization_id: str, actor: Actor | None = None) -> None:
        """Go on in an organisation, as somebody: for units that begin in none, such as one that makes it."""
        self.caller = replace(self.caller, organization_id=organization_id, actor=actor or self.actor)
        self.session.execute(_BIND, {"organization": organization_id})

    @contextmanager
    def impersonate(self, **changes: Any) -> Iterator[None]:
        """Run the block as another caller: `changes` are fields of Caller. Which rows the unit sees stays as it is."""
        caller = self.caller
        self.caller = replace(caller, **changes)
        try:
            yield
        finally:
            self.caller = caller

    def act_as_service(self, **changes: Any) -> AbstractContextManager[None]:
        """Do what would have been done without the unit's actor, as the service itself."""
        return self.impersonate(actor=SYSTEM, source="system", **changes)

    def refresh_now(self) -> None:
        """Move `now` to the present, after a lock that had to be waited for.

        What somebody committed meanwhile would otherwise seem to lie in the future, and be overlooked.
        """
        self.now = max(self.now, self.clock.read(self.session.execute(text("SELECT clock_timestamp()")).scalar_one()))

    @contextmanager
    def outside_transaction(self) -> Iterator[None]:
        """Run the block without a transaction, holding no connection, for work that takes long and needs no rows.

        What was done before is committed, and stays whatever comes; inside a savepoint nothing can be, and the block
        just runs. What was read before may have changed afterwards.
        """
        if self.session.in_nested_transaction():
            yield
            return
        self.session.commit()
        yield
        self.session.execute(_BIND, {"organization": self.caller.organization_id or ""})

    def audit(self, action: str, target: tuple[str, str, str], **details: Any) -> None:
        """Record what was done: `target` is type, id and name of the object it was done to.

        Of a change, `before` and `after` hold what was changed: None of what was not there. Instants may stand
        anywhere in the details. The action has to be in the vocabulary.
        """
        if action not in ACTIONS:
            raise RuntimeError(f"unknown audit action {action!r}: rules/audit/actions.py lists them")
        kind, target_id, name = target
        self.session.add(
            AuditEntry(
                id=new_id("aud"),
                organization_id=self.organization,
                at=self.now,
                action=action,
                actor=self.actor.as_json(),
                source=self.caller.source,
                target={"type": kind, "id": target_id, "name": name},
                request_id=self.caller.request_id,
                details=_told(details),
            )
        )

    def wake(self, job: str) -> None:
        """Ask for a wake-up of `job` (a module of `jobs/`) once this unit is committed."""
        self.wakeups.add(job)


def _told(value: Any) -> Any:
    """Return details as JSON has them, instants as the API tells them."""
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, Mapping):
        return {key: _told(item) for key, item in value.items()}
    return [_told(item) for item in value] if isinstance(value, list | tuple) else value


class UnitOfWorkFactory:
    """Opens units on one database; a process has one of these."""

    def __init__(
        self, engine: Engine, clock: Clock, wakeups: Wakeups, dependencies: Dependencies | None = None
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.wakeups = wakeups
        self.dependencies = dependencies or Dependencies()

    @contextmanager
    def open(self, caller: Caller, *, read_only: bool = False) -> Iterator[UnitOfWork]:
        """Run the block in one transaction of the caller's organisation: commits at its end, rolls back on any error.

        Row-level security shows the unit only rows of that organisation, and none without one.
        `read_only` makes the database refuse every write (I13).
        """
        with Session(self.engine, expire_on_commit=False) as session:
            if read_only:
                session.execute(text("SET TRANSACTION READ ONLY"))
            now = session.execute(
                text("SELECT clock_timestamp(), set_config('app.organization_id', :organization, true)"),
                {"organization": caller.organization_id or ""},
            ).one()[0]
            uow = UnitOfWork(session, self.clock.read(now), caller, self.clock, self.dependencies)
            yield uow
            session.commit()
        if uow.wakeups and not read_only:
            self.wakeups.send(uow.wakeups)
