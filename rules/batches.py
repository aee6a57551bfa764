"""Cutting a sequence into pieces that one call can carry."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield pieces of at most `size` items, in order (`itertools.batched`, which is of Python 3.12)."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
