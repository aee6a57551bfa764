"""The whole service around a simulated GitHub, filled with repositories, for measurements of the fan-out.

`SCALE=0.05 python -m tools.bench …` makes the worlds smaller: to try a measurement out, not for its figures.
"""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from tests.harness.app_key import make_app_key
from tools.bench.seeding import Account, seed
from tools.bench.servers import Storage, process, storage, wait_for, web
from tools.embedded.ports import free_port, free_ports

INSTALLATION = 4711
LOGIN = "acme"
WEBHOOK_SECRET = "the benchmark's webhook secret"  # noqa: S105 - opens nothing but this simulation
MAINTAINER = "the benchmark's maintainer token"
REST_TIMEOUT = 300.0
"""Seconds in which the service has to reach the state that a measurement waits for."""
POLL_INTERVAL = 0.1
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
def running(
    repositories: int, heads: int = 1, *, permissions: Mapping[str, str] | None = None, **served: Any
) -> Iterator[Stack]:
    """Run everything with one organisation, whose repositories have so many open heads each into their watched `main`.

    `served` are arguments of `serving`.
    """
    account = Account(LOGIN, INSTALLATION, repositories, heads, permissions=permissions)
    with serving([account], **served) as stack:
        yield stack


@contextmanager
def serving(
    accounts: Sequence[Account],
    *,
    latency_ms: int,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    counts: tuple[int, int] = (1, 1),
) -> Iterator[Stack]:
    """Run everything with these organisations, at rest; a call of GitHub takes `latency_ms`.

    `settings` are GitHub's others (`tools.fake_github.settings`).
    `counts` are the hosts of the API, of two processes each, and the workers. No full resync by the clock
    unless `environment` says otherwise.
    """
    key = make_app_key()
    with storage() as stores, ExitStack() as stack, tempfile.TemporaryDirectory() as home:
        public = Path(home, "app.pub")
        public.write_text(key.public)
        port, api_ports = free_port(), free_ports(counts[0])
        fake_github = f"http://127.0.0.1:{port}"
        arguments = ["--port", str(port), "--app-public-key", str(public), "--person-token", MAINTAINER]
        arguments += ["--webhook-url", f"http://127.0.0.1:{api_ports[0]}/webhooks/github"]
        arguments += ["--webhook-secret", WEBHOOK_SECRET]
        server = stack.enter_context(process(["tools.fake_github", *arguments], {}))
        wait_for(f"{fake_github}/_control/settings", server)
        keys = seed(stores, fake_github, accounts)
        changed = {"latencyMs": latency_ms, **(settings or {})}
        requests.put(f"{fake_github}/_control/settings", json=changed, timeout=10).raise_for_status()
        dependencies = {
            **stores.environment,
            "GITHUB_APP_ID": "1",
            "GITHUB_APP_PRIVATE_KEY": key.private,
            "GITHUB_WEBHOOK_SECRET": WEBHOOK_SECRET,
            "GITHUB_API_URL": fake_github,
            "FULL_PASS_EVERY": "86400",
            **(environment or {}),
        }
        hosts = [stack.enter_context(web("app.main:app", dependencies, "/healthz", each)) for each in api_ports]
        processes = {f"api-{number}": host.process_id for number, host in enumerate(hosts, start=1)}
        for number in range(1, counts[1] + 1):
            processes[f"worker-{number}"] = stack.enter_context(process(["app", "worker"], dependencies)).pid
        addresses = [host.address for host in hosts]
        yield Stack(addresses[0], fake_github, keys, stores, processes, addresses, dependencies)


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
    query = "SELECT count(*) FROM checks WHERE due_at IS NOT NULL OR lease_token IS NOT NULL"
    until(lambda: not stack.stores.sql(query))


def until(reached: Callable[[], object], every: float = POLL_INTERVAL, deadline: float = REST_TIMEOUT) -> None:
    """Poll until a state is reached; raise TimeoutError if it takes too long."""
    end = time.monotonic() + deadline
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("what was waited for did not come")
        time.sleep(every)


def conclusions(stack: Stack) -> dict[str, int]:
    """Count what GitHub shows on open heads, by conclusion."""
    heads = stack.control("GET", "/checks")["heads"]
    return dict(Counter(check["conclusion"] for head in heads for check in head["checks"].values()))


def heads_of(stack: Stack, login: str = LOGIN) -> set[str]:
    """Return the commits of an organisation's open heads."""
    listed = stack.control("GET", "/checks")["heads"]
    return {head["headSha"] for head in listed if head["repository"].startswith(f"{login}/")}
