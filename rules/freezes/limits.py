"""How large a freeze may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FreezeLimits:
    """What an operator chooses about the size of freezes."""

    max_targets: int = 10_000
    """Maximum number of watched branches of one freeze."""
