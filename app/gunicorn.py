"""Gunicorn's configuration, for `python -m app api`."""

import ctypes
import os
import secrets
import signal
import sys
from typing import Any, ClassVar

from uvicorn_worker import UvicornWorker  # type: ignore[import-untyped]

from app.edge.http_protocol import EdgeProtocol
from app.metrics_directory import make_metrics_directory


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


bind = os.environ.get("BIND") or "127.0.0.1:" + (os.environ.get("PORT") or "8080")
workers = int(os.environ.get("WEB_CONCURRENCY") or max(2, os.cpu_count() or 1))
worker_class = "app.gunicorn.EdgeWorker"
timeout = 60
graceful_timeout = 30
keepalive = 75
"""Longer than the idle timeout of usual proxies, so that the proxy closes the connection."""
control_socket_disable = True  # it would be in the home directory, shared by all gunicorns of the account
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112, S108 - the heartbeat file, in memory
preload_app = True
"""The master process builds the application before it listens, so that no request waits for it."""
os.environ.setdefault("CURSOR_SECRET", secrets.token_urlsafe(32))  # the same one in every worker process
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = make_metrics_directory()


PR_SET_PDEATHSIG = 1


def on_reload(server: Any) -> None:
    """Build the application again for SIGHUP; keep the former one if the configuration is invalid by now.

    The code and the environment are those of the start. Files that variables name are read again.
    """
    from app import main

    built = server.app.callable
    vars(main).pop("app", None)
    server.app.callable = None
    try:
        server.app.wsgi()
    except SystemExit:
        server.app.callable = vars(main)["app"] = built


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
