"""Occurrences as the contract's object: their state is derived here, and in SQL in `models.schedule_queries`.

- `skipped`: why is recorded (`asked`, `no_such_time`, `no_targets`).
- `past`: its end has come, or its freeze has begun and is no longer in force.
- `active`: begun, its freeze in force, its end to come. A freeze that was extended outlives its occurrence.
- `planned`: everything else, also what is open and about to begin.

Missed is one that is over, was not skipped and never began.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from models.freezes import Freeze
from models.schedule_queries import OccurrenceState
from models.schedules import Occurrence
from rules.freezes.verdict import in_force
from services.core.unit_of_work import UnitOfWork


def state_of(occurrence: Occurrence, freeze: Freeze | None, now: datetime) -> OccurrenceState:
    """Return the state of an occurrence at an instant; `freeze` is the one that it started."""
    if occurrence.skip_reason is not None:
        return "skipped"
    if occurrence.ends_at <= now:
        return "past"
    if occurrence.begun_at is None:
        return "planned"
    running = freeze is not None and in_force(freeze.started_at, freeze.ends_at, freeze.ended_at, now)
    return "active" if running else "past"


def is_missed(occurrence: Occurrence, now: datetime) -> bool:
    """Tell whether it passed without a freeze."""
    return occurrence.begun_at is None and occurrence.skip_reason is None and occurrence.ends_at <= now


def occurrence_view(occurrence: Occurrence, freeze: Freeze | None, now: datetime) -> dict[str, Any]:
    """Return the contract's `Occurrence` of a row and the freeze that it started."""
    return {
        "id": occurrence.id,
        "schedule_id": occurrence.schedule_id,
        "starts_at": occurrence.starts_at,
        "ends_at": occurrence.ends_at,
        "state": state_of(occurrence, freeze, now),
        "skip_reason": occurrence.skip_reason,
        "late": occurrence.late,
        "missed": is_missed(occurrence, now),
        "freeze_id": occurrence.freeze_id,
    }


def occurrence_views(uow: UnitOfWork, occurrences: Sequence[Occurrence]) -> list[dict[str, Any]]:
    """Return the contract's objects of rows in their order; their freezes are read in one query."""
    started = [row.freeze_id for row in occurrences if row.freeze_id is not None]
    rows = uow.session.scalars(select(Freeze).where(Freeze.id.in_(started))) if started else ()
    freezes: dict[str | None, Freeze] = {freeze.id: freeze for freeze in rows}
    return [occurrence_view(row, freezes.get(row.freeze_id), uow.now) for row in occurrences]
