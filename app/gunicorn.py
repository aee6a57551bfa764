"""Gunicorn's configuration, for `python -m app api`."""

import ctypes
import os
import secrets
import signal
import sys
import tempfile
from typing import Any, ClassVar

from uvicorn_worker import UvicornWorker  # type: ignore[import-untyped]

from app.edge.http_protocol import EdgeProtocol


class EdgeWorker(UvicornWorker):  # type: ignore[misc]
    """uvloop, and httptools with the limits of the edge, which writes its own access log; no `Server` header."""

    CONFIG_KWARGS: ClassVar[dict[str, Any]] = {
        "loop": "uvloop",
        "http": EdgeProtocol,
        "ws": "none",
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
"""Longer than the idle timeout of usual proxies, so that the proxy closes the connection."""
control_socket_disable = True  # it would be in the home directory, shared by all gunicorns of the account
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112, S108 - the heartbeat file, in memory
os.environ.setdefault("CURSOR_SECRET", secrets.token_urlsafe(32))  # the same one in every worker process
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="change-freeze-metrics-"))


PR_SET_PDEATHSIG = 1


def post_fork(_: Any, worker: Any) -> None:
    """Let the kernel terminate a worker process when its parent is killed.

    An orphan would keep serving, and occupy the port at the next start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != worker.ppid:  # the parent was killed before
            os._exit(1)


def post_worker_init(_: Any) -> None:
    """Avoid long pauses by the garbage collector, after the application is built."""
    from app.gc_tuning import freeze_gc

    freeze_gc()


def child_exit(_: Any, worker: Any) -> None:
    """Remove the gauges of a worker that has ended."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
