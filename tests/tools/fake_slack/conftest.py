"""A simulated Slack, and an app that keeps what Slack sends and answers what a test says."""

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from slack_sdk import WebClient

from tests.harness.servers import client_of
from tools.fake_slack import FakeSlack, Handle
from tools.fake_slack.settings import Settings

REDIRECT = "https://freezes.test/slack"


@dataclass(slots=True)
class App:
    """What was received, and what is answered next."""

    url: str = ""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)

    def payload(self) -> Any:
        """Return the last request, decoded."""
        headers, raw = self.received[-1]
        if headers["content-type"] == "application/json":
            return json.loads(raw)
        fields = dict(parse_qsl(raw.decode(), keep_blank_values=True))
        return json.loads(fields["payload"]) if "payload" in fields else fields


@pytest.fixture(scope="module")
def listening() -> Iterator[App]:
    app = App()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            app.received.append(({name.lower(): value for name, value in self.headers.items()}, raw))
            status, body = app.answers.pop(0) if app.answers else (200, None)
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    app.url = f"http://127.0.0.1:{server.server_address[1]}/webhooks/slack"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield app
    server.shutdown()
    server.server_close()


@pytest.fixture
def app(listening: App) -> App:
    listening.received.clear()
    listening.answers.clear()
    return listening


@pytest.fixture
def slack(fake_slack_server: Handle, app: App) -> FakeSlack:
    fake_slack_server.slack.reset()
    fake_slack_server.slack.settings = Settings(request_url=app.url, seconds_per_message=0.0)
    return fake_slack_server.slack


@pytest.fixture
def http_client(fake_slack_server: Handle) -> Iterator[httpx.Client]:
    with client_of(fake_slack_server.base_url) as client:
        yield client


@pytest.fixture
def client(fake_slack_server: Handle, slack: FakeSlack) -> WebClient:
    """Return the official client, with the token of an installation."""
    base_url, client_id = fake_slack_server.base_url, slack.settings.client_id
    url = f"{base_url}/oauth/v2/authorize?client_id={client_id}&state=s&redirect_uri={REDIRECT}"
    back = slack.install(f"{url}&scope=commands,chat:write,chat:write.public,channels:read")
    client = WebClient(base_url=f"{base_url}/api/", timeout=5, retry_handlers=[])
    settings = slack.settings
    given = client.oauth_v2_access(
        client_id=settings.client_id, client_secret=settings.client_secret, code=back["code"], redirect_uri=REDIRECT
    )
    client.token = given["access_token"]
    return client
