"""Exceptions: which state one is in, and why a granted one may still not let its pull request merge.

Pure: everything that shows, filters, ends or applies exceptions asks here, or the SQL twin in
`models/exception_states.py`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

ExceptionState = Literal["pending", "granted", "denied", "revoked", "expired"]
STATES: tuple[ExceptionState, ...] = ("pending", "granted", "denied", "revoked", "expired")
OPEN_STATES: frozenset[ExceptionState] = frozenset({"pending", "granted"})
"""States that can still change by a decision or a revocation."""

IneffectiveReason = Literal["shared_head", "other_freeze", "not_written", "head_moved", "other_base", "closed"]


def state_of(
    *,
    decision: str | None,
    revoked_at: datetime | None,
    expired_at: datetime | None,
    expires_at: datetime | None,
    freeze_in_force: bool,
    now: datetime,
) -> ExceptionState:
    """Return the state at `now` of an exception with these instants.

    What somebody decided or revoked stays what it is. What is still open ends with its freeze, and to the second
    with its own time, whether or not anybody has recorded that.
    """
    if decision == "denied":
        return "denied"
    if revoked_at is not None:
        return "revoked"
    if expired_at is not None or not freeze_in_force or (expires_at is not None and expires_at <= now):
        return "expired"
    return "granted" if decision == "granted" else "pending"


@dataclass(frozen=True, slots=True)
class Effect:
    """What is known of the pull request of a granted exception, and of its head."""

    open: bool
    on_its_base: bool
    """Whether the pull request still goes into the branch that the exception is for."""
    on_its_head: bool
    """Whether it still has the commit that the exception is pinned to, if it is."""
    covering: Collection[str]
    """Freezes that cover the branch now."""
    excepted: Collection[str]
    """Those of them that the pull request has a standing exception from."""
    sharing_blocked: bool
    """Whether another pull request on the same head, under the same check name, is blocked."""
    written: bool
    """Whether the code host is known to show `success` on the head."""


def ineffective_reason(effect: Effect) -> IneffectiveReason | None:
    """Tell why a granted exception does not let its pull request merge; None: it does."""
    if not effect.open:
        return "closed"
    if not effect.on_its_base:
        return "other_base"
    if not effect.on_its_head:
        return "head_moved"
    if not set(effect.covering) <= set(effect.excepted):
        return "other_freeze"
    if effect.sharing_blocked:
        return "shared_head"
    return None if effect.written else "not_written"
