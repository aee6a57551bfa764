"""The identity of the database, by which the service notices that it was restored from a backup.

A backup contains where the database last ran. Until an operator has confirmed a restore, the database may lack freezes
that GitHub still shows, so nothing is written there that could release them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from sqlalchemy import text
from sqlalchemy.orm import Session

from rules.restores import Identity

IS_CONFIRMED: LiteralString = """EXISTS (
    SELECT FROM database_identity i JOIN present_database n
      ON (n.system_identifier, n.database_oid, n.table_oid, n.timeline)
       = (i.system_identifier, i.database_oid, i.table_oid, i.timeline)
    WHERE i.noticed_at IS NULL)"""
"""SQL: whether the database was not restored, or an operator has confirmed it.

It is read in each transaction that decides what may be released: a process that has run since before the restore, or
behind a pooler, notices it as well.
"""

_IS_CONFIRMED = text(f"SELECT {IS_CONFIRMED}")
_STATE = """
    SELECT i.system_identifier, i.database_oid, i.table_oid, i.timeline,
           n.system_identifier, n.database_oid, n.table_oid, n.timeline,
           i.seen_at, i.noticed_at, i.difference, i.shown_at
    FROM database_identity i CROSS JOIN present_database n
"""
_READ = text(_STATE)
_LOCK = text(f"{_STATE} FOR UPDATE OF i")


@dataclass(frozen=True, slots=True)
class IdentityState:
    """Where the database last ran, where it runs now, and what is known of a restore."""

    recorded: Identity
    present: Identity
    seen_at: datetime
    """When the service last ran on it; of a restored database about when the backup was made."""
    noticed_at: datetime | None
    difference: str | None
    shown_at: datetime | None

    @property
    def confirmed(self) -> bool:
        """True if the database was not restored, or an operator has confirmed it."""
        return self.noticed_at is None and self.recorded == self.present


def is_confirmed(session: Session) -> bool:
    """True if the database was not restored, or an operator has confirmed it."""
    return bool(session.scalar(_IS_CONFIRMED))


def read_identity(session: Session, *, lock: bool = False) -> IdentityState:
    """Return the identity of the database; `lock` keeps others from changing it."""
    row = session.execute(_LOCK if lock else _READ).one()
    return IdentityState(Identity(*row[:4]), Identity(*row[4:8]), *row[8:])
