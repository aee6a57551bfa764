"""A receiver of webhooks on this machine."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebhookReceiver:
    """Receives webhooks at `url`, answers with `status`, and keeps headers and raw bodies.

    With a context of TLS it speaks https, as `localhost`.
    """

    def __init__(self, path: str, tls: ssl.SSLContext | None = None) -> None:
        self.deliveries: list[tuple[dict[str, str], bytes]] = []
        self.status = 202
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"{'https://localhost' if tls else 'http://127.0.0.1'}:{self.server.server_port}{path}"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), name="webhooks", daemon=True)
        self._thread.start()

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Take one webhook, and return the status to answer with."""
        self.deliveries.append((headers, body))
        return self.status

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Receive one webhook."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(dict(self.headers), body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler

    def stop(self) -> None:
        """Close the receiver."""
        self.server.shutdown()
        self.server.server_close()
