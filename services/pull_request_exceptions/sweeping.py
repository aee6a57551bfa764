"""The sweeper's part in the ends of exceptions: what time, the end of a freeze, or a push has done is recorded."""

from sqlalchemy.exc import OperationalError

from rules.access.permissions import SYSTEM
from services.core.batch import for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, Caller, Units
from services.pull_request_exceptions.ending import end, ended_or_moved
from services.pull_request_exceptions.recording import write_checks


def end_exceptions(units: Units) -> int:
    """Record the ends of exceptions, those of each branch in a unit of their own; returns of how many branches.

    Where that fails, the checks are written anew all the same: they must not stay green for want of a record.
    """
    ended = 0
    while True:
        with units.open(SYSTEM_CALLER) as unit:
            found = ended_or_moved(unit)
        now_ended = for_each_isolated(sorted(found), lambda of: _end(units, *of))
        if not now_ended:
            return ended
        ended += now_ended


def _end(units: Units, organization_id: str, branch_id: str) -> int:
    caller = Caller(organization_id, SYSTEM, "system")
    try:
        with units.open(caller) as unit:
            return end(unit, branch_id)
    except OperationalError:
        raise
    except Exception:
        with units.open(caller) as unit:  # what cannot be written down has ended all the same
            write_checks(unit, branch_id)
        raise
