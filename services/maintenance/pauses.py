"""Pauses of installations, as an operator sees them: listed, and ended before their time."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, text

from models.installations import Installation
from rules.access.permissions import Actor
from rules.errors import ServiceError
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.failures import RATE_LIMIT_CODES
from services.github_access.pauses import end_pause

# Those that the pause has put off; what failed for another reason waits for its next attempt.
_MAKE_DUE = text("""
    WITH put_off AS MATERIALIZED (
        SELECT id FROM checks
        WHERE installation_id = :installation AND due_at > :now AND outdated_since IS NOT NULL
          AND (last_error_code IS NULL OR last_error_code = ANY(:codes))
        ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE checks c SET due_at = :now FROM put_off WHERE c.id = put_off.id
""")


@dataclass(frozen=True, slots=True)
class Pause:
    """An installation that is not called until a time."""

    installation_id: int
    account: str
    since: datetime | None
    until: datetime


def list_pauses(uow: UnitOfWork) -> list[Pause]:
    """Return the pauses, the longest first."""
    paused = select(Installation).where(Installation.state == "active", Installation.paused_until > uow.now)
    return [_pause(row) for row in uow.session.scalars(paused.order_by(Installation.paused_until.desc()))]


def resume_installation(uow_factory: UnitOfWorkFactory, installation_id: int, *, by: str) -> Pause:
    """End the pause of an installation, have what it put off written now, and return what it was.

    Raise `not_found` if the installation is unknown, and `invalid_state` if it is not paused.
    """
    with uow_factory.open(Caller(None, Actor("support", None, by), "system")) as uow:
        row = uow.session.get(Installation, installation_id, with_for_update=True)
        if row is None:
            raise ServiceError("not_found", f"The installation {installation_id} is unknown.")
        if row.paused_until is None or row.paused_until <= uow.now:
            raise ServiceError("invalid_state", f"The installation {installation_id} is not paused.")
        ended = _pause(row)
        end_pause(uow, installation_id)
        uow.session.execute(
            _MAKE_DUE, {"installation": installation_id, "now": uow.now, "codes": sorted(RATE_LIMIT_CODES)}
        )
        uow.wake("reconcile")
        if row.organization_id is not None:
            with uow.impersonate(organization_id=row.organization_id):
                uow.audit(
                    "installation.resumed",
                    ("installation", str(installation_id), row.account),
                    before={"pausedUntil": ended.until},
                    after={"pausedUntil": None},
                )
        return ended


def _pause(row: Installation) -> Pause:
    assert row.paused_until is not None
    return Pause(row.id, row.account, row.paused_since, row.paused_until)
