"""The product for real MCP clients: served over HTTP, with the key of an organisation that has a repository.

Tests with clients that need Node.js ≥ 22 skip where it is older.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.main import create_app
from schemas.calls import Application
from tests import factories
from tests.harness.product import product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "node_modules"
TIMEOUT_SECONDS = 300
"""A hung client fails then, however busy the machine is."""


@dataclass(frozen=True, slots=True)
class Product:
    """Where the product is served, with and without the key put into each request."""

    url: str
    url_with_key: str
    key: str


class WithKey:
    """Puts a key into the requests of test tools that cannot send one."""

    def __init__(self, application: Application, key: str) -> None:
        self._application = application
        self._header = (b"authorization", f"Bearer {key}".encode())

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], self._header]}
        await self._application(scope, receive, send)


@pytest.fixture(scope="module")
def product(module_database: str, redis_url: str) -> Iterator[Product]:
    engine = create_engine(module_database)
    with Session(engine) as session:
        acme = factories.organization(session)
        factories.watched(session, acme)
        key = factories.api_key(session, acme).secret
        session.commit()
    engine.dispose()
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    first, second = (f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in listeners)
    application = _application(module_database, redis_url, first)
    with_key = WithKey(_application(module_database, redis_url, second), key)
    with serving(application, listeners[0]), serving(with_key, listeners[1]):
        yield Product(first, second, key)


def _application(database_url: str, redis_url: str, url: str) -> Application:
    config = product_config(database_url, redis_url, base_url=url, web_url=url)
    found: Application = create_app(config, product_parts(wakeups=RecordedWakeups()))
    return found


def node_command(script: str, *, least: int) -> list[str]:
    """Return the command of an npm package's script. Skip the test without the package, or with an older Node.js."""
    path = MODULES / script
    node = shutil.which("node")
    if node is None or not path.exists():
        pytest.skip(f"{script} is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < least:
        pytest.skip(f"{script} needs Node.js ≥ {least}, this is {version}")
    return [node, str(path)]
