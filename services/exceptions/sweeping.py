"""The sweeper's part in the ends of exceptions: what time, the end of a freeze, or a push has done is recorded."""

from sqlalchemy.exc import OperationalError

from rules.permissions import SYSTEM
from services.chores import JOB, one_by_one
from services.exceptions.ending import end, ended_or_moved
from services.exceptions.recording import write_checks
from services.unit import Caller, Units


def end_exceptions(units: Units) -> int:
    """Record the ends of exceptions, those of each branch in a unit of their own; returns of how many branches.

    Where that fails, the checks are written anew all the same: they must not stay green for want of a record.
    """
    ended = 0
    while True:
        with units.open(JOB) as unit:
            found = ended_or_moved(unit)
        now_ended = one_by_one(sorted(found), lambda of: _end(units, *of))
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
