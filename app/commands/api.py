"""`python -m app api`: serve the API and the pages."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app import logs
from app.commands.command_line import parser_of
from app.config import ConfigurationError, check_other_variables

SETTINGS = Path(__file__).parents[1] / "gunicorn.py"
_EPILOG = """\
BIND or PORT names the address (default: 127.0.0.1:8080), WEB_CONCURRENCY the number of processes (default: one for
each core, and at least 2). SIGTERM drains connections."""


def main(arguments: Sequence[str]) -> int:
    """Become gunicorn, in this process; return 3 if it could not listen as the environment says."""
    parser_of("api", "Serve the API and the pages with gunicorn.", _EPILOG).parse_args(arguments)
    gunicorn = [sys.executable, "-m", "gunicorn", "--config", str(SETTINGS), "app.main:app"]
    try:
        check_other_variables(os.environ)
    except ConfigurationError as error:
        logs.report_failed_start("API", error)
        return 3
    return os.execv(sys.executable, gunicorn)  # noqa: S606 - a fixed command line, and no shell
