"""The sweeper's part in the ends of exceptions: what time, the end of a freeze, or a push has done is recorded."""

from sqlalchemy.exc import OperationalError

from rules.access.permissions import SYSTEM
from services.core.batch import for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.pull_request_exceptions.ending import end, ended_or_moved
from services.pull_request_exceptions.recording import write_checks


def end_exceptions(uow_factory: UnitOfWorkFactory) -> int:
    """Record the ends of exceptions, those of each branch in a unit of their own; returns of how many branches.

    Where that fails, the checks are written anew all the same: they must not stay green for want of a record.
    """
    ended = 0
    while True:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            found = ended_or_moved(uow)
        now_ended = for_each_isolated(sorted(found), lambda of: _end(uow_factory, *of))
        if not now_ended:
            return ended
        ended += now_ended


def _end(uow_factory: UnitOfWorkFactory, organization_id: str, branch_id: str) -> int:
    caller = Caller(organization_id, SYSTEM, "system")
    try:
        with uow_factory.open(caller) as uow:
            return end(uow, branch_id)
    except OperationalError:
        raise
    except Exception:
        with uow_factory.open(caller) as uow:  # what cannot be written down has ended all the same
            write_checks(uow, branch_id)
        raise
