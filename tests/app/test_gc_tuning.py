"""Objects that exist when a process begins to serve are excluded from garbage collection.

No test here includes them again: every later collection would scan all that pytest has collected.
"""

import gc
import runpy
import weakref
from types import SimpleNamespace

import pytest

from app.gc_tuning import freeze_gc


def is_scanned(thing: object) -> bool:
    return any(other is thing for other in gc.get_objects())


def test_gc_never_scans_objects_that_exist_at_startup_again() -> None:
    built = [object()]
    assert is_scanned(built)
    freeze_gc()
    made_later = [object()]
    assert not is_scanned(built)
    assert is_scanned(made_later)


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_gc_frees_garbage_of_the_startup() -> None:
    garbage = weakref.ref(Cycle())
    freeze_gc()
    assert garbage() is None


def test_gc_is_frozen_before_the_first_request_of_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CURSOR_SECRET", "PROMETHEUS_MULTIPROC_DIR"):  # which it sets where they are not
        monkeypatch.setenv(name, "given")
    built = [object()]
    runpy.run_path("app/gunicorn.py")["post_worker_init"](SimpleNamespace(metrics_listener=None))
    assert not is_scanned(built)
