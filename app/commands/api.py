"""`python -m app api`: serve the API and the pages."""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, check_other_variables
from app.gc_tuning import pause_gc

SETTINGS = Path(__file__).parents[1] / "gunicorn.py"
_EPILOG = """\
BIND or PORT names the address (default: 127.0.0.1:8080), WEB_CONCURRENCY the number of processes (default: one for
each core, and at least 2). SIGTERM drains connections."""


def main(arguments: Sequence[str]) -> int:
    """Run gunicorn in this process until SIGTERM; return 3 if it could not listen as the environment says."""
    parser_of("api", "Serve the API and the pages with gunicorn.", _EPILOG).parse_args(arguments)
    try:
        check_other_variables(os.environ)
    except ConfigurationError as error:
        logs.report_failed_start("API", error)
        return 3
    pause_gc()  # until gunicorn has built the application
    # Not by exec: another interpreter would import again what this one has.
    sys.argv = ["gunicorn", "--config", str(SETTINGS), "app.main:app"]
    runpy.run_module("gunicorn", run_name="__main__", alter_sys=True)
    return 0
