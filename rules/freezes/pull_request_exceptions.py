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
class GrantedException:
    """A granted exception: what is known of its pull request and of the head of that."""

    open: bool
    on_its_base: bool
    """Whether the pull request still goes into the branch that the exception is for."""
    on_its_head: bool
    """Whether it still has the commit that the exception is pinned to, if it is."""
    covering: Collection[str]
    """Freezes that cover the branch now."""
    excepted: Collection[str]
    """Those of them that the pull request has an active exception from."""
    sharing_blocked: bool
    """Whether another pull request on the same head, under the same check name, is blocked."""
    written: bool
    """Whether GitHub is known to show `success` on the head."""


def ineffective_reason(granted: GrantedException) -> IneffectiveReason | None:
    """Return why a granted exception does not let its pull request merge; None if it does."""
    if not granted.open:
        return "closed"
    if not granted.on_its_base:
        return "other_base"
    if not granted.on_its_head:
        return "head_moved"
    if not set(granted.covering) <= set(granted.excepted):
        return "other_freeze"
    if granted.sharing_blocked:
        return "shared_head"
    return None if granted.written else "not_written"
