"""Objects that exist when a process begins to serve are excluded from garbage collection.

No test here leaves them included: every later collection would scan all that pytest has collected.
"""

import gc
import os
import runpy
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from app.gc_tuning import freeze_gc, import_frozen

ROOT = Path(__file__).parents[2]


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


def test_gc_frees_garbage_of_the_former_application_after_a_reload() -> None:
    """In a process of its own, where not all that pytest has collected is scanned."""
    script = """
import gc, weakref
from app.gc_tuning import freeze_gc, pause_gc
cycle = type("Cycle", (), {})()
cycle.itself = cycle
former = weakref.ref(cycle)
del cycle
gc.freeze()
gc.collect()
excluded = former() is not None
pause_gc()
paused = not gc.isenabled()
freeze_gc()
print(excluded, paused, former() is None, gc.isenabled())
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "True True True True\n"), run.stderr


def test_gc_is_frozen_before_the_first_worker_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CURSOR_SECRET", "PROMETHEUS_MULTIPROC_DIR"):  # which it sets where they are not
        monkeypatch.setenv(name, "given")
    settings = runpy.run_path("app/gunicorn.py")
    built = [object()]
    settings["pre_fork"](None, None)  # gunicorn calls it with the server and the worker
    assert not is_scanned(built)
    assert gc.isenabled()


def test_gc_scans_nothing_of_a_module_that_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_many_objects.py").write_text("MADE = [[] for _ in range(10_000)]")
    monkeypatch.syspath_prepend(tmp_path)
    collections: list[str] = []

    def note(phase: str, _: object) -> None:
        collections.append(phase)

    gc.callbacks.append(note)
    try:
        made = import_frozen("module_of_many_objects").MADE
        assert collections == []
    finally:
        gc.callbacks.remove(note)
        sys.modules.pop("module_of_many_objects", None)
    assert not is_scanned(made)
    assert gc.isenabled()


@pytest.mark.check
def test_gc_does_not_run_while_the_api_is_built() -> None:
    script = """
import gc
from app.__main__ import main
collections = []
gc.callbacks.append(lambda phase, _: collections.append(phase))
try:
    main(["api"])
finally:
    gc.callbacks.clear()
    print(collections)
"""
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
        "REDIS_URL": "redis://127.0.0.1:1",
        "SECRET_KEY": "a secret of tests",
        "GUNICORN_CMD_ARGS": "--check-config",  # it ends once the application is built
    }
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "[]\n"), run.stderr
