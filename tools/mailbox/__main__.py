"""`python -m tools.mailbox`: run a mailbox until SIGTERM or SIGINT."""

import argparse
import signal
import sys
from threading import Event

from tools.mailbox.server import serve


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m tools.mailbox", description=__doc__)
    parser.add_argument("--smtp-port", type=int, default=1025)
    parser.add_argument("--port", type=int, default=8025, help="of the page")
    given = parser.parse_args()
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    handle = serve(smtp_port=given.smtp_port, port=given.port)
    print(f"{handle.smtp_url} receives mails, {handle.url} shows them", flush=True)
    stop.wait()
    handle.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
