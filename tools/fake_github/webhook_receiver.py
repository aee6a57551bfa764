"""A receiver of webhooks, for tests."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Mailbox:
    """Receives webhooks over HTTP at `url`, answers with `status`, and keeps (event, headers, raw body)."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 202
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._receiver())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/webhooks/github"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), name="mailbox", daemon=True)
        self._thread.start()

    def _receiver(self) -> type[BaseHTTPRequestHandler]:
        mailbox = self

        class Receiver(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Keep one webhook."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                mailbox.received.append((self.headers["X-GitHub-Event"], dict(self.headers), body))
                self.send_response(mailbox.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Receiver

    def bodies(self, event: str) -> list[dict[str, Any]]:
        """Return the bodies of an event's webhooks, in the order they arrived."""
        return [json.loads(body) for name, _, body in self.received if name == event]

    def names(self) -> set[str]:
        """Return `event.action` of everything received."""
        found = ((name, json.loads(body).get("action")) for name, _, body in self.received)
        return {f"{name}.{action}" if action else name for name, action in found}

    def stop(self) -> None:
        """Close the receiver."""
        self.server.shutdown()
        self.server.server_close()
