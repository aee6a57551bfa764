"""Locks between writes and the revocation of what authorizes them.

Each write holds shared locks (functions `lock_api_key`, `lock_session` and `lock_oauth_grant` in the database).
Triggers of the tables have every revocation take the exclusive lock, and so wait for the writes that hold it; writes
that begin later wait for the revocation, and are refused.
"""

from typing import Literal

from sqlalchemy import text

from services.core.unit_of_work import UnitOfWork

Kind = Literal["organization", "member", "session", "oauth_grant"]

_LOCK = text("SELECT pg_advisory_xact_lock(authorization_lock(:kind, VARIADIC :ids))")
_HOLD = text("SELECT pg_advisory_xact_lock_shared(authorization_lock('member', VARIADIC :ids))")


def wait_for_writes(uow: UnitOfWork, kind: Kind, *ids: str) -> None:
    """Wait until no write is authorized by an organisation, a member (organisation and user), a session or a grant.

    Its trigger would do so as well. But a revocation that locks rows first, which such a write may wait for, has to
    call this before.
    """
    uow.session.execute(_LOCK, {"kind": kind, "ids": list(ids)})


def hold_membership(uow: UnitOfWork, organization_id: str, user_id: str) -> None:
    """Have the removal of a member wait for this transaction, whatever organisation the caller acts in."""
    uow.session.execute(_HOLD, {"ids": [organization_id, user_id]})
