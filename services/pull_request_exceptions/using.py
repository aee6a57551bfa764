"""Which merge used an exception: written down by whoever finds out what landed on a frozen branch."""

from collections.abc import Collection

from sqlalchemy import select

from models.exceptions import PullRequestException
from rules.freezes.bypass import Landing
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.recording import name_of


def record_use(uow: UnitOfWork, exception_ids: Collection[str], landing: Landing) -> None:
    """Note, once, the merge that exceptions of one pull request have allowed; `usedAt` is the code host's clock."""
    row = PullRequestException
    unused = select(row).where(row.id.in_(exception_ids), row.used_at.is_(None)).order_by(row.id).with_for_update()
    rows = uow.session.scalars(unused).all() if exception_ids else []
    for one in rows:
        one.used_at, one.used_commit = landing.instant, landing.commit
    if not rows:
        return
    name = name_of(uow, rows[0].pull_request_id)
    uow.audit(
        "exception.used",
        ("exception", rows[0].id if len(rows) == 1 else rows[0].request_group_id, name),
        pullRequest=name,
        commit=landing.commit,
        landedAt=landing.instant,
        rows=[{"id": one.id, "freezeId": one.freeze_id} for one in rows],
    )
