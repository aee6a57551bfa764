"""Recording that exceptions have ended by their time, or with their freeze: who reads them knew it already."""

from datetime import datetime

from models.exceptions import PullRequestException
from services.core.unit_of_work import UnitOfWork


def record_end(uow: UnitOfWork, subject: tuple[str, str, str], row: PullRequestException, ended_at: datetime) -> None:
    """Write down the end of a locked row that is over; the audit names the service, whoever happens to notice."""
    row.expired_at = ended_at
    told = {
        "id": row.id,
        "freezeId": row.freeze_id,
        "before": {"state": row.decision or "pending"},
        "after": {"state": "expired", "endedAt": ended_at},
    }
    with uow.act_as_service():
        uow.audit("exception.expired", subject, rows=[told])
