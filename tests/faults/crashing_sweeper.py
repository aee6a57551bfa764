"""Start a window in processes killed before each statement in turn: `python -m tests.faults.crashing_sweeper`.

Like `tests.faults.crashing_api`, for work that no request causes: each child is a worker that runs what is due once.
The parent prints how each child ended, one JSON line each, and continues when it reads a line, until a child survives.
"""

import json
import os
import signal
import sys

from app.config import load_config
from app.wiring import job_context, lock_of
from jobs.sweep import Sweeper
from models.requests import WINDOWS
from tests.faults.crashing_api import die_before

MOST = 200


def run_timed_tasks() -> None:
    """Be a worker that looks at the clock once."""
    config = load_config()
    context = job_context(config, lock_of(config))
    Sweeper(context, lambda: True, config.full_pass_every).run_task(WINDOWS)


def main() -> None:
    """Fork until a child survives."""
    for statement in range(1, MOST):
        child = os.fork()
        if child == 0:
            die_before(statement)
            run_timed_tasks()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        shown = {"statement": statement, "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL}
        sys.stdout.write(json.dumps({**shown, "status": status}) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        if not shown["killed"]:
            return


if __name__ == "__main__":
    main()
