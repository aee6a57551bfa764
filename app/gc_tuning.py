"""Tuning of the garbage collector: long-lived objects are excluded from collections.

A full collection visits all live objects while every thread waits. Libraries, the contract and its schemas are three
hundred thousand objects that live as long as the process: they take 200 ms of a full collection, and the rest takes a
few. Responses of a hundred rows trigger collections.

While these objects are made, hardly any is garbage, but their number triggers collections that visit all of them again:
a third of the time that the API takes to start, if nothing stops them.
"""

import gc
from importlib import import_module
from types import ModuleType


def import_frozen(name: str) -> ModuleType:
    """Import a module without collections, and exclude all present objects from later ones."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def pause_gc() -> None:
    """Stop collections until `freeze_gc`, which then finds the garbage of what was excluded before, too."""
    gc.disable()
    gc.unfreeze()


def freeze_gc() -> None:
    """Exclude all present objects from later collections. Call it before the process serves requests."""
    from sqlalchemy.orm import configure_mappers

    configure_mappers()  # otherwise the first query does it, too late to be excluded
    gc.collect()
    gc.freeze()
    gc.enable()
