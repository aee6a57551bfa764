"""Gunicorn's configuration, for `python -m app api`."""

import ctypes
import logging
import os
import secrets
import signal
import sys
from typing import Any, ClassVar

from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from uvicorn.config import STARTUP_FAILURE
from uvicorn_worker import UvicornWorker  # type: ignore[import-untyped]

from app import logs
from app.edge.http_protocol import EdgeProtocol
from app.gc_tuning import freeze_gc, import_frozen, pause_gc
from app.metrics.directory import make_metrics_directory
from app.variable_parsers import tcp_address


class JsonLogger(Logger):  # type: ignore[misc]
    """Has gunicorn write its lines to the logs of the process, with their level."""

    def setup(self, cfg: Any) -> None:
        """Set up the logs."""
        super().setup(cfg)
        if not logging.getLogger().handlers:
            logs.begin()
        write_to_root(self.error_log, self.access_log)


def write_to_root(*loggers: logging.Logger) -> None:
    """Have loggers write only to the logs of the process."""
    for each in loggers:
        each.handlers, each.propagate = [], True
        each.setLevel(logging.NOTSET)


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

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        write_to_root(logging.getLogger("uvicorn.error"))

    def run(self) -> None:
        """Serve; if that cannot begin, end as `Arbiter.WORKER_BOOT_ERROR` says, by which gunicorn ends too."""
        try:
            super().run()
        except SystemExit as ended:
            raise SystemExit(Arbiter.WORKER_BOOT_ERROR if ended.code == STARTUP_FAILURE else ended.code) from None


bind = os.environ.get("BIND") or "127.0.0.1:" + (os.environ.get("PORT") or "8080")
workers = int(os.environ.get("WEB_CONCURRENCY") or max(2, os.cpu_count() or 1))
worker_class = "app.gunicorn.EdgeWorker"
logger_class = "app.gunicorn.JsonLogger"
timeout = 60
graceful_timeout = 30
keepalive = 75
"""Longer than the idle timeout of usual proxies, so that the proxy closes the connection."""
control_socket_disable = True  # it would be in the home directory, shared by all gunicorns of the account
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - the heartbeat file, in memory
preload_app = True
"""The master process builds the application before it listens, so that no request waits for it."""
os.environ.setdefault("CURSOR_SECRET", secrets.token_urlsafe(32))  # the same one in every worker process
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = make_metrics_directory()  # before Prometheus' client is imported
import_frozen("app.main")

Arbiter.WORKER_BOOT_ERROR = os.EX_TEMPFAIL
"""How a worker process ends that could not begin, and the API with it: a supervisor restarts it, unlike after 3.

It has the settings of its parent, which were right.
"""

PR_SET_PDEATHSIG = 1


def on_starting(server: Any) -> None:
    """Listen where METRICS_BIND says, if it is set; end with 3 if that is not possible."""
    from app.config import ConfigurationError
    from app.metrics.server import listen

    address = os.environ.get("METRICS_BIND", "").strip()
    try:
        server.metrics_listener = listen(tcp_address(address)) if address else None
    except ConfigurationError as error:
        logs.report_failed_start("API", error)
        raise SystemExit(3) from error


def on_reload(server: Any) -> None:
    """Build the application again for SIGHUP; keep the former one if the configuration is invalid by now.

    The code and the environment are those of the start. Files that variables name are read again.
    """
    from app import main

    pause_gc()
    built = server.app.callable
    vars(main).pop("app", None)
    server.app.callable = None
    try:
        server.app.wsgi()
    except SystemExit:
        server.app.callable = vars(main)["app"] = built


def pre_fork(_: Any, __: Any) -> None:
    """Avoid long pauses by the garbage collector, after the application is built.

    Collections write to the objects that they visit: worker processes share the memory of those that are excluded.
    """
    freeze_gc()


def post_fork(server: Any, worker: Any) -> None:
    """Let the kernel terminate a worker process when its parent is killed; have it serve metrics until then.

    An orphan would keep serving, and occupy the port at the next start.
    """
    worker.metrics_listener = server.metrics_listener
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until uvicorn has its own: that of the parent would lose the signal
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != worker.ppid:  # the parent was killed before
            os._exit(1)


def post_worker_init(worker: Any) -> None:
    """Serve metrics."""
    from app.metrics.exposition import render
    from app.metrics.server import serve

    if worker.metrics_listener is not None:
        serve(worker.metrics_listener, render)


def child_exit(_: Any, worker: Any) -> None:
    """Remove the gauges of a worker that has ended."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
