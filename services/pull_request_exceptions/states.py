"""Finding exceptions, and telling their states."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from models.exceptions import PullRequestException
from models.freezes import Freeze
from rules.errors import ServiceError
from rules.freezes.pull_request_exceptions import ExceptionState
from services.core.unit_of_work import UnitOfWork


def get_exception(uow: UnitOfWork, exception_id: str) -> PullRequestException:
    """Return an exception by id, in whatever state; raises `exception_not_found`."""
    row = PullRequestException
    query = select(row).where(row.id == exception_id, row.organization_id == uow.organization)
    found = uow.session.scalar(query)
    if found is None:
        raise ServiceError("exception_not_found", f"No exception of this organisation has the id {exception_id!r}.")
    return found


def freezes_of(uow: UnitOfWork, rows: Iterable[PullRequestException]) -> Mapping[str, Freeze]:
    """Return the freezes that exceptions are from, by id, as they are now."""
    query = select(Freeze).where(Freeze.id.in_({row.freeze_id for row in rows}))
    return {freeze.id: freeze for freeze in uow.session.scalars(query.execution_options(populate_existing=True))}


def states_of(uow: UnitOfWork, rows: Sequence[PullRequestException]) -> dict[str, ExceptionState]:
    """Return the states of exceptions, by id."""
    freezes = freezes_of(uow, rows)
    return {row.id: row.state(uow.now, freeze_in_force=freezes[row.freeze_id].is_in_force(uow.now)) for row in rows}
