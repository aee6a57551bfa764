"""Processes that are killed before each statement in turn, as a power failure would end them.

`python -m tests.faults.killed_processes ACTION [ARGUMENT]` forks a child for each statement. The child does one thing,
and kills itself before its n-th statement; a commit counts as one. The parent prints how each child ended, one JSON
line each, and continues when it reads a line, until a child survives. `ends_of` runs that and looks in between.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Engine, event

from app.config import load_config
from app.main import Parts, create_app
from app.wiring import job_context, lock_of
from jobs.sweep import Sweeper
from models.requests import WINDOWS
from tests.harness.servers import client_of, serving

FREEZE = {"scope": {"type": "organization"}, "reason": "Release 4.2 is being rolled out", "impactAcknowledged": True}
KEPT = "one-logical-request"
MOST = 200
"""Statements that one of them may take."""


def start_a_freeze(secret: str) -> Callable[[], int]:
    """Return what serves the product, starts a freeze under one idempotency key, and returns the status less 200.

    What is built here, once for all children, has no connection and no thread yet.
    """
    product = create_app(load_config(), Parts(access_log=False))

    def request() -> int:
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": KEPT}
        with serving(product) as address, client_of(address) as http:
            return http.post("/v1/freezes", json=FREEZE, headers=headers).status_code - 200

    return request


def look_at_the_clock() -> Callable[[], int]:
    """Return what is a worker that begins and ends once what is due by time."""

    def run() -> int:
        config = load_config()
        context = job_context(config, lock_of(config))
        Sweeper(context, lambda: True, config.full_pass_every).run_task(WINDOWS)
        return 0

    return run


ACTIONS: dict[str, Callable[..., Callable[[], int]]] = {
    "start a freeze": start_a_freeze,
    "look at the clock": look_at_the_clock,
}


def ends_of(action: str, *arguments: str, **environment: str) -> Iterator[dict[str, Any]]:
    """Yield how each child ended: the statement, whether it was `killed`, else its exit status as `answer`."""
    command = [sys.executable, "-m", "tests.faults.killed_processes", action, *arguments]
    variables = {**os.environ, "SECRET_KEY": "a secret of tests", **environment}
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as dying:
        assert dying.stdin is not None
        assert dying.stdout is not None
        for line in dying.stdout:
            yield json.loads(line)
            dying.stdin.write("go on\n")
    assert dying.returncode == 0


def _die_before(statement: int) -> None:
    """Kill this process before its n-th statement in any thread, commits counted."""
    seen = 0

    def count(*_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)


def main() -> None:
    """Fork until a child survives."""
    act = ACTIONS[sys.argv[1]](*sys.argv[2:])
    for statement in range(1, MOST):
        child = os.fork()
        if child == 0:
            _die_before(statement)
            os._exit(act())
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        shown = {
            "statement": statement,
            "killed": killed,
            "answer": None if killed else os.waitstatus_to_exitcode(status),
        }
        sys.stdout.write(json.dumps(shown) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        if not killed:
            return


if __name__ == "__main__":
    main()
