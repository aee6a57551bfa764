"""Read-backs: requests to read the checks that GitHub shows, instead of trusting what is recorded.

Each is a row with the time from which on the next pass meets it. One for later, such as the second reading after a
takeover, is not cancelled by one that is met now.
"""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION

_REQUEST = text("""
    INSERT INTO read_backs (check_id, at, organization_id)
    SELECT c.id, n.at, c.organization_id FROM checks c, unnest(CAST(:instants AS timestamptz[])) AS n (at)
    WHERE c.id = ANY(:ids)
    ON CONFLICT DO NOTHING
""")
_REQUEST_LATER = text("""
    INSERT INTO read_backs (check_id, at, organization_id)
    SELECT c.id, :at, c.organization_id FROM checks c
    WHERE c.id = ANY(:ids) AND NOT EXISTS (SELECT FROM read_backs r WHERE r.check_id = c.id AND r.at > :now)
    ON CONFLICT DO NOTHING
""")
_MAKE_DUE = text("""
    WITH locked AS MATERIALIZED (SELECT id FROM checks WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE)
    UPDATE checks c SET wanted_generation = nextval('generations'), due_at = :now FROM locked WHERE c.id = locked.id
""")
_MAKE_DUE_AGAIN = text("""
    WITH locked AS MATERIALIZED (SELECT id FROM checks WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE)
    UPDATE checks c SET due_at = CASE WHEN :at_once THEN :now ELSE coalesce(c.due_at, :now) END
    FROM locked WHERE c.id = locked.id
""")


def read_back(uow: UnitOfWork, check_ids: Collection[int], *, at_once: bool) -> None:
    """Have checks read back by their next pass; `at_once`: also those that wait for their next attempt."""
    uow.session.execute(_MAKE_DUE_AGAIN, {"ids": list(check_ids), "now": uow.now, "at_once": at_once})
    request_read_backs(uow, check_ids, uow.now)
    uow.wake("reconcile")


def read_back_now(uow: UnitOfWork, check_ids: Collection[int]) -> None:
    """Have checks read back at once, by whoever has leased them or will."""
    uow.session.execute(_MAKE_DUE, {"ids": list(check_ids), "now": uow.now})
    request_read_backs(uow, check_ids, uow.now)
    uow.wake("reconcile")


def request_read_backs(uow: UnitOfWork, check_ids: Collection[int], *instants: datetime) -> None:
    """Have the passes over checks that come from these instants on read them back; the caller makes them due."""
    if check_ids:
        uow.session.execute(_REQUEST, {"ids": list(check_ids), "instants": list(instants)})


def read_back_later(uow: UnitOfWork, check_ids: Collection[int]) -> None:
    """Have held checks read back once more after this pass, when every call that is under way must have ended."""
    if check_ids:
        uow.session.execute(_REQUEST_LATER, {"ids": list(check_ids), "at": uow.now + LEASE_DURATION, "now": uow.now})
