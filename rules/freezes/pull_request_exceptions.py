"""Exceptions: their states, and why a granted one may still not let its pull request merge."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

ExceptionState = Literal["pending", "granted", "denied", "revoked", "expired"]
STATES: tuple[ExceptionState, ...] = ("pending", "granted", "denied", "revoked", "expired")
OPEN_STATES: frozenset[ExceptionState] = frozenset({"pending", "granted"})
"""States that can still change by a decision or a revocation."""

IneffectiveReason = Literal["shared_head", "other_freeze", "not_written", "head_moved", "other_base", "closed"]


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
