"""The whole service around a simulated GitHub, filled with repositories, for measurements of the fan-out.

`SCALE=0.05 python -m tools.bench …` makes the worlds smaller: to try a measurement out, not for its figures.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import create_engine, text

from tools.bench.seeding import Account, plain, seed
from tools.bench.servers import Storage, free_port, process, storage, wait_for, web

INSTALLATION = 4711
LOGIN = "acme"
WEBHOOK_SECRET = "the benchmark's webhook secret"  # noqa: S105 - opens nothing but this simulation
MAINTAINER = "the benchmark's maintainer token"
REST_TIMEOUT = 300.0
"""Seconds in which the service has to reach the state that a measurement waits for."""
SCALE = float(os.environ.get("SCALE", "1"))


def scaled(count: int) -> int:
    """Return a number of repositories or heads, made smaller by `SCALE`."""
    return max(1, round(count * SCALE))


@dataclass(frozen=True, slots=True)
class Stack:
    """Addresses and credentials of a running service."""

    api: str
    fake_github: str
    keys: Mapping[str, str] = field(repr=False)
    """Of each organisation's login."""
    stores: Storage
    private_key: str = field(repr=False)
    """The App's."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Ids of the service's processes: `api-1`, …, `worker-1`, …."""
    hosts: Sequence[str] = ()
    """Addresses of every host of the API; `api` is the first."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a further process needs to be one of the service's."""

    def call(self, method: str, path: str, body: Any = None, login: str = LOGIN) -> requests.Response:
        """Call the service with a key of the organisation that has every scope."""
        headers = {"Authorization": f"Bearer {self.keys[login]}"}
        return requests.request(method, self.api + path, headers=headers, json=body, timeout=60)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Call the control plane of GitHub."""
        answer = requests.request(method, f"{self.fake_github}/_control{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def as_person(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Call GitHub as a maintainer."""
        headers = {"Authorization": f"Bearer {MAINTAINER}"}
        return requests.request(method, self.fake_github + path, headers=headers, json=body, timeout=60)


@contextmanager
def running(repositories: int, *, latency_ms: int, pull_requests: int = 1) -> Iterator[Stack]:
    """Run everything with so many alike repositories, each with open pull requests into its watched `main`."""
    account = Account(LOGIN, INSTALLATION, [plain("service-{}", repositories, pull_requests)])
    with serving([account], settings={"latencyMs": latency_ms}) as stack:
        yield stack


@contextmanager
def serving(
    accounts: Sequence[Account],
    *,
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    counts: tuple[int, int] = (1, 1),
) -> Iterator[Stack]:
    """Run everything with these organisations, at rest; `settings` are GitHub's (`tools.fake_github.settings`).

    `counts` are the hosts of the API, of two processes each, and the workers. No full resync by the clock
    unless `environment` says otherwise.
    """
    with storage() as stores, ExitStack() as stack, tempfile.TemporaryDirectory() as home:
        own, public = _identity(Path(home))
        port, api_ports = free_port(), [free_port() for _ in range(counts[0])]
        fake_github = f"http://127.0.0.1:{port}"
        arguments = ["--port", str(port), "--app-public-key", str(public), "--person-token", MAINTAINER]
        arguments += ["--webhook-url", f"http://127.0.0.1:{api_ports[0]}/webhooks/github"]
        arguments += ["--webhook-secret", WEBHOOK_SECRET]
        server = stack.enter_context(process(["tools.fake_github", *arguments], {}))
        wait_for(f"{fake_github}/_control/settings", server)
        keys = seed(stores.database_url, fake_github, accounts)
        requests.put(f"{fake_github}/_control/settings", json=dict(settings), timeout=10).raise_for_status()
        dependencies = {**own, **stores.environment, "GITHUB_API_URL": fake_github, **(environment or {})}
        hosts = [stack.enter_context(web("app.main:app", dependencies, "/healthz", each)) for each in api_ports]
        processes = {f"api-{number}": host.process_id for number, host in enumerate(hosts, start=1)}
        for number in range(1, counts[1] + 1):
            processes[f"worker-{number}"] = stack.enter_context(process(["app", "worker"], dependencies)).pid
        addresses = [host.address for host in hosts]
        yield Stack(
            addresses[0], fake_github, keys, stores, own["GITHUB_APP_PRIVATE_KEY"], processes, addresses, dependencies
        )


def warm(stack: Stack, repository: str, login: str = LOGIN) -> None:
    """Freeze and lift one branch a few times: a service that has been running has connections and statements ready."""
    for _ in range(6):
        scope = {"type": "branch", "repository": repository, "branch": "main"}
        body = {"scope": scope, "reason": "Warming the processes up"}
        answer = stack.call("POST", "/v1/freezes", body, login)
        answer.raise_for_status()
        time.sleep(0.5)
        stack.call("POST", f"/v1/freezes/{answer.json()['id']}/lift", {}, login).raise_for_status()
        time.sleep(0.5)
    wait_for_rest(stack)


def wait_for_rest(stack: Stack) -> None:
    """Wait until no check is due or leased."""
    engine = create_engine(stack.stores.database_url)
    query = text("SELECT count(*) FROM checks WHERE due_at IS NOT NULL OR lease_token IS NOT NULL")
    end = time.monotonic() + REST_TIMEOUT
    try:
        while True:
            with engine.connect() as connection:
                if not connection.scalar(query):
                    return
            if time.monotonic() > end:
                raise TimeoutError("the service did not come to rest")
            time.sleep(0.1)
    finally:
        engine.dispose()


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
        "SECRET_KEY": "another secret of the benchmark",
        "FULL_PASS_EVERY": "86400",
        "LOG_LEVEL": "WARNING",
    }
    return environment, public


def conclusions(stack: Stack) -> dict[str, int]:
    """Count what GitHub shows on open heads, by conclusion."""
    heads = stack.control("GET", "/checks")["heads"]
    return dict(Counter(check["conclusion"] for head in heads for check in head["checks"].values()))
