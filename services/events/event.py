"""What happened, as channels of notification are given it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.core.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Event:
    """A sealed audit entry, or windows that begin soon."""

    organization_id: str
    sequence: int | None
    """The number of the entry in the chain; None: there is no entry."""
    entry_id: str | None
    at: datetime
    action: str
    kind: str | None
    """The kind of notification (`rules/notifications/kinds.py`); None: people are not notified of it."""
    actor: Mapping[str, Any]
    source: str
    target: Mapping[str, Any]
    details: Mapping[str, Any]
    """JSON. Of `window.upcoming`: `minutes`, and `windows` in the order of their starts, each with `occurrenceId`,
    `scheduleId`, `scheduleName`, `startsAt`, `endsAt`, `timezone`, `reason`, `scope`, and its own minutes,
    `remindBefore`."""
    request_id: str | None


TakeEvents = Callable[[UnitOfWork, str, Sequence[Event]], None]
"""Writes the messages of events for a destination, in the order of the events, and wakes what delivers them.

It runs in the transaction that moves the destination's position, as the service itself, in the organisation. It calls
no other server, and if it raises, nothing is written and the same events come again.
"""
