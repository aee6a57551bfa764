"""The whole service around a simulated code host, filled with repositories, for measurements of the fan-out."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from tests import factories
from tools.bench.servers import Storage, free_port, process, storage, wait_for, web

INSTALLATION = 4711
WEBHOOK_SECRET = "the benchmark's webhook secret"  # noqa: S105 - opens nothing but this simulation
MAINTAINER = "the benchmark's maintainer token"
DEADLINE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Stack:
    """Addresses and credentials of a running service."""

    api: str
    codehost: str
    key: str
    stores: Storage

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Call the service with a key that has every scope."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return requests.request(method, self.api + path, headers=headers, json=body, timeout=60)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Call the control plane of the code host."""
        answer = requests.request(method, f"{self.codehost}/_control{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def as_person(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Call the code host as a maintainer."""
        headers = {"Authorization": f"Bearer {MAINTAINER}"}
        return requests.request(method, self.codehost + path, headers=headers, json=body, timeout=60)


@contextmanager
def running(repositories: int, *, latency_ms: int, pull_requests: int = 1) -> Iterator[Stack]:
    """Run everything with so many repositories, each with open pull requests into its watched `main`."""
    with storage() as stores, ExitStack() as stack, tempfile.TemporaryDirectory() as home:
        environment, public = _identity(Path(home))
        port, api_port = free_port(), free_port()
        codehost = f"http://127.0.0.1:{port}"
        arguments = ["--port", str(port), "--app-public-key", str(public), "--person-token", MAINTAINER]
        arguments += ["--webhook-url", f"http://127.0.0.1:{api_port}/webhooks/github"]
        arguments += ["--webhook-secret", WEBHOOK_SECRET]
        server = stack.enter_context(process(["tools.codehost", *arguments], {}))
        wait_for(f"{codehost}/_control/settings", server)
        environment |= {**stores.environment, "GITHUB_API_URL": codehost}
        key = _seed(stores, codehost, repositories, pull_requests)
        requests.put(f"{codehost}/_control/settings", json={"latencyMs": latency_ms}, timeout=10).raise_for_status()
        api = stack.enter_context(web("app.main:app", environment, "/healthz", api_port))
        stack.enter_context(process(["app.worker"], environment))
        stack.enter_context(process(["app.sweeper"], environment))
        yield Stack(api, codehost, key, stores)


def _identity(home: Path) -> tuple[dict[str, str], Path]:
    """Make an App, and return what processes need to be it, and the file of its public key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = home / "app.pub"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    environment = {
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": private.decode(),
        "GITHUB_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "RATE_LIMIT_ORGANIZATION": "1000000000",
        "RATE_LIMIT_WRITES": "1000000000",
        "CURSOR_SECRET": "a secret of the benchmark",
        "LOG_LEVEL": "WARNING",
    }
    return environment, public


def _seed(stores: Storage, codehost: str, repositories: int, pull_requests: int) -> str:
    """Fill the code host and the database alike, and return a key's secret."""
    made = requests.post(
        f"{codehost}/_control/seed",
        json={
            "organizations": [
                {
                    "login": "acme",
                    "installation": {"id": INSTALLATION},
                    "repositories": [
                        {
                            "name": "service-{}",
                            "count": repositories,
                            "requiredChecks": {"main": "change-freeze/main"},
                            "pullRequests": [{"base": "main", "count": pull_requests}],
                        }
                    ],
                }
            ]
        },
        timeout=60,
    )
    made.raise_for_status()
    engine = create_engine(stores.database_url)
    with Session(engine) as session:
        acme = factories.organization(session, "Acme")
        factories.installation(session, acme, "acme", id=INSTALLATION)
        for given in made.json()["organizations"][0]["repositories"]:
            repository = factories.repository(
                session, acme, given["name"], github_id=given["id"], node_id=given["nodeId"]
            )
            factories.branch(session, repository, "main", wanted_generation=1, due_at=factories.now())
        secret = factories.api_key(session, acme).secret
        session.commit()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))  # what autovacuum does within a minute
    engine.dispose()
    return secret
