"""How gunicorn runs the API, for `python -m app api`."""

import ctypes
import os
import secrets
import signal
import sys
import tempfile
from typing import Any, ClassVar

from uvicorn_worker import UvicornWorker  # type: ignore[import-untyped]


class EdgeWorker(UvicornWorker):  # type: ignore[misc]
    """uvloop and httptools; the edge writes its own access log, and does not say which server it is."""

    CONFIG_KWARGS: ClassVar[dict[str, Any]] = {
        "loop": "uvloop",
        "http": "httptools",
        "lifespan": "on",
        "server_header": False,
        "access_log": False,
    }


bind = os.environ.get("BIND", "127.0.0.1:" + os.environ.get("PORT", "8080"))
workers = int(os.environ.get("WEB_CONCURRENCY") or max(2, os.cpu_count() or 1))
worker_class = "app.gunicorn.EdgeWorker"
timeout = 60
graceful_timeout = 30
keepalive = 75
"""Longer than the idle time of usual proxies, so that it is they who close."""
control_socket_disable = True  # it would lie in the home directory, shared by every gunicorn of the account
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112, S108 - the heartbeat file, in memory
os.environ.setdefault("CURSOR_SECRET", secrets.token_urlsafe(32))  # the same one in every worker process
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="change-freeze-metrics-"))


PR_SET_PDEATHSIG = 1


def post_fork(_: Any, worker: Any) -> None:
    """Have the kernel stop a worker process in order when its parent is killed.

    Orphans would serve on for ever, and keep the port from the next start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != worker.ppid:  # it was killed before we asked
            os._exit(1)


def post_worker_init(_: Any) -> None:
    """Spare requests the long pauses of collecting garbage, once the application is there."""
    from app.gc_tuning import freeze_gc

    freeze_gc()


def child_exit(_: Any, worker: Any) -> None:
    """Forget the gauges of a worker that has ended."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
