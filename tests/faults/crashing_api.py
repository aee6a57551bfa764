"""Start a freeze in processes killed before each statement in turn: `python -m tests.faults.crashing_api KEY`.

The parent builds the product once and forks a child for each statement. The child serves it, sends itself one request,
and kills itself before its n-th statement (a commit counts as one), as a power failure would. The parent prints how
each child ended, one JSON line each, and continues when it reads a line, until a child survives the whole request.
"""

import json
import os
import signal
import sys
from typing import Any

from sqlalchemy import Engine, event

from app.config import load_config
from app.edge.connexion_adapter import Application
from app.main import Parts, create_app
from tests.harness.servers import client_of, serving

FREEZE = {"scope": {"type": "organization"}, "reason": "Release 4.2 is being rolled out", "impactAcknowledged": True}
KEPT = "one-logical-request"


def die_before(statement: int) -> None:
    """Kill this process before its n-th statement in worker threads, commits counted."""
    seen = 0

    def count(*_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)


def request(product: Application, secret: str) -> int:
    """Serve the product, start a freeze under one idempotency key, and return the status."""
    headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": KEPT}
    with serving(product) as address, client_of(address) as http:
        return http.post("/v1/freezes", json=FREEZE, headers=headers).status_code


def main() -> None:
    """Fork until a child survives; what is built here has no connection and no thread yet."""
    product = create_app(load_config(), Parts(access_log=False))
    for statement in range(1, 60):
        child = os.fork()
        if child == 0:
            die_before(statement)
            os._exit(request(product, sys.argv[1]) - 200)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        shown = {"statement": statement, "killed": killed, "answer": None if killed else status >> 8}
        sys.stdout.write(json.dumps(shown) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        if not killed:
            return


if __name__ == "__main__":
    main()
