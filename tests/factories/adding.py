"""How rows are added, and what values they are given where a test does not care."""

import itertools
from datetime import UTC, datetime
from hashlib import sha1
from typing import TypeVar

from sqlalchemy.orm import Session

from services.core.clock import whole_milliseconds

SYSTEM = {"type": "system", "id": None, "name": "Change-Freeze Service"}
Row = TypeVar("Row")
numbers = itertools.count(1001)


def now() -> datetime:
    """Return the present in the precision that the service keeps."""
    return whole_milliseconds(datetime.now(UTC))


def sha(seed: object) -> str:
    """Return a commit's id, always the same for the same seed."""
    return sha1(str(seed).encode(), usedforsecurity=False).hexdigest()


def added(session: Session, row: Row) -> Row:
    session.add(row)
    session.flush()
    return row
