"""Exceptions: their states, and why a granted one may still not let its pull request merge."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

ExceptionState = Literal["pending", "granted", "denied", "revoked", "expired"]
STATES: tuple[ExceptionState, ...] = ("pending", "granted", "denied", "revoked", "expired")
OPEN_STATES: frozenset[ExceptionState] = frozenset({"pending", "granted"})
"""States that can still change by a decision or a revocation."""

IneffectiveReason = Literal[
    "shared_head", "other_freeze", "pattern_blocked", "not_written", "head_moved", "other_base", "closed"
]


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
    """Whether another pull request on the same head, into the same branch, is blocked."""
    pattern_blocked: bool
    """Whether the check of the branch's pattern blocks, for the sake of branches without a rule of their own."""
    written: bool
    """Whether GitHub is known to show `success` on the head."""


def ineffective_reason(granted: GrantedException) -> IneffectiveReason | None:
    """Return why a granted exception does not let its pull request merge, the first that applies; None if it does."""
    reasons: tuple[tuple[bool, IneffectiveReason], ...] = (
        (not granted.open, "closed"),
        (not granted.on_its_base, "other_base"),
        (not granted.on_its_head, "head_moved"),
        (not set(granted.covering) <= set(granted.excepted), "other_freeze"),
        (granted.sharing_blocked, "shared_head"),
        (granted.pattern_blocked, "pattern_blocked"),
        (not granted.written, "not_written"),
    )
    return next((reason for applies, reason in reasons if applies), None)
