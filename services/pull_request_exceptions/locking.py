"""The locks of whoever changes an exception, in one order: the freezes, the branch, the exceptions.

A freeze is locked shared: it cannot end meanwhile, and others may be granted exceptions from it at the same time. The
branch is locked against every other change of its exceptions, and against a freeze that begins: that one raises the
generation of the branch. After waiting, the unit goes on in the present. A freeze that has come into it while we
waited would have to be locked after the branch; then all is let go, and locked anew in order.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import aliased

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.queries import covering_freezes
from models.repositories import WatchedBranch
from rules.freezes.verdict import CoveringFreeze
from services.core.unit_of_work import UnitOfWork

Facts = TypeVar("Facts")


def lock_base(uow: UnitOfWork, branch_id: str) -> Sequence[CoveringFreeze]:
    """Lock a branch with the freezes that cover it, and return them, oldest first."""

    def covering() -> Sequence[CoveringFreeze]:
        return covering_freezes(uow.session, [branch_id], uow.now).get(branch_id, ())

    return _locked(uow, branch_id, covering, lambda freezes: [freeze.id for freeze in freezes])


def lock_group(uow: UnitOfWork, row: PullRequestException) -> Sequence[PullRequestException]:
    """Lock the rows of an exception's group with their freezes and their branch, and return them, oldest first.

    Which group that is, is read under the locks as well: a grant makes one of all that waits.
    """
    its = aliased(PullRequestException)
    mine = (
        PullRequestException.request_group_id == select(its.request_group_id).where(its.id == row.id).scalar_subquery()
    )
    own = select(PullRequestException).where(PullRequestException.organization_id == uow.organization, mine)
    ordered = own.order_by(PullRequestException.id).execution_options(populate_existing=True)

    def group() -> Sequence[PullRequestException]:
        return uow.session.scalars(ordered).all()

    _locked(uow, row.branch_id, group, lambda rows: [row.freeze_id for row in rows])
    return uow.session.scalars(ordered.with_for_update()).all()


def open_rows(
    uow: UnitOfWork, pull_request_id: str, branch_id: str, freeze_ids: Collection[str]
) -> dict[str, PullRequestException]:
    """Lock and return, by freeze, the rows of a pull request that are recorded as open; the branch is locked."""
    row = PullRequestException
    query = select(row).where(
        row.pull_request_id == pull_request_id,
        row.branch_id == branch_id,
        row.freeze_id.in_(freeze_ids),
        row.is_open,
    )
    locking = query.order_by(row.id).with_for_update().execution_options(populate_existing=True)
    return {found.freeze_id: found for found in uow.session.scalars(locking)}


def _locked(
    uow: UnitOfWork, branch_id: str, read: Callable[[], Facts], freezes_of: Callable[[Facts], Collection[str]]
) -> Facts:
    """Lock the freezes of what `read` returns, then the branch; returns what is read under the locks."""
    while True:
        wanted = sorted(freezes_of(read()))
        with uow.session.begin_nested() as savepoint:
            freezes = select(Freeze.id).where(Freeze.id.in_(wanted)).order_by(Freeze.id)
            uow.session.execute(freezes.with_for_update(read=True))
            branch = select(WatchedBranch).where(WatchedBranch.id == branch_id).with_for_update(key_share=True)
            uow.session.scalars(branch.execution_options(populate_existing=True)).one()
            uow.refresh_now()
            facts = read()
            if set(freezes_of(facts)) <= set(wanted):
                return facts
            savepoint.rollback()
