"""A receiver of webhooks, for tests."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebhookReceiver:
    """Receives webhooks over HTTP at `url`, answers with `status`, and keeps headers and raw bodies."""

    def __init__(self, path: str) -> None:
        self.deliveries: list[tuple[dict[str, str], bytes]] = []
        self.status = 202
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}{path}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), name="webhooks", daemon=True)
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Keep one webhook."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.deliveries.append((dict(self.headers), body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler

    def stop(self) -> None:
        """Close the receiver."""
        self.server.shutdown()
        self.server.server_close()
