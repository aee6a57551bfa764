"""Tuning of the garbage collector: long-lived objects are excluded from collections.

A full collection visits all live objects while every thread waits. Libraries, the contract and its schemas are two
hundred thousand objects that live as long as the process: they take 150 ms of a full collection, and the rest takes a
few. Responses of a hundred rows trigger collections.
"""

import gc

from sqlalchemy.orm import configure_mappers


def freeze_gc() -> None:
    """Exclude all present objects from later collections. Call it once, before the process serves requests."""
    configure_mappers()  # otherwise the first query does it, too late to be excluded
    gc.collect()
    gc.freeze()
