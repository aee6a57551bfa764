"""The whole service around a simulated GitHub, filled with repositories, for measurements of the fan-out.

`SCALE=0.05 python -m tools.bench …` makes the worlds smaller: to try a measurement out, not for its figures.
"""

import os
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import requests

from tests.harness.app_key import AppKey, make_app_key
from tools.bench.seeding import Account, seed
from tools.bench.servers import Storage, cpu_seconds, process, storage, wait_for, web
from tools.embedded.ports import free_port, free_ports

INSTALLATION = 4711
LOGIN = "acme"
ORGANIZATION = {"type": "organization"}
"""The scope of everything."""
WEBHOOK_SECRET = "the benchmark's webhook secret"  # noqa: S105 - opens nothing but this simulation
MAINTAINER = "the benchmark's maintainer token"
REST_TIMEOUT = 300.0
"""Seconds in which the service has to reach the state that a measurement waits for."""
POLL_INTERVAL = 0.1
Result = TypeVar("Result")
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

    def call(self, method: str, path: str, body: Any = None, login: str = LOGIN, **more: str) -> requests.Response:
        """Call the service with a key of the organisation that has every scope, and more headers."""
        headers = {"Authorization": f"Bearer {self.keys[login]}", **more}
        return requests.request(method, self.api + path, headers=headers, json=body, timeout=60)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Call the control plane of GitHub."""
        answer = requests.request(method, f"{self.fake_github}/_control{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def freeze(
        self, scope: Mapping[str, str] = ORGANIZATION, login: str = LOGIN, reason: str = "Measuring freezes"
    ) -> tuple[str, float]:
        """Freeze branches; return the freeze's id and the moment at which it was requested."""
        since = time.time()
        body = {"scope": scope, "reason": reason, "impactAcknowledged": True}
        answer = self.call("POST", "/v1/freezes", body, login)
        answer.raise_for_status()
        return answer.json()["id"], since

    def lift(self, freeze_id: str, login: str = LOGIN) -> float:
        """Lift a freeze; return the moment at which it was requested."""
        since = time.time()
        self.call("POST", f"/v1/freezes/{freeze_id}/lift", {}, login).raise_for_status()
        return since

    def freeze_and_lift(self, writes: "Writes", heads: Collection[str], login: str = LOGIN) -> tuple[float, float]:
        """Freeze everything of an organisation and lift it; return the seconds until its last head showed each."""
        freeze_id, since = self.freeze(login=login)
        blocked = writes.wait("failure", since, heads)
        return blocked, writes.wait("success", self.lift(freeze_id, login), heads)

    def heads(self, login: str = LOGIN) -> dict[str, Any]:
        """Return what GitHub shows of the open heads of an organisation, by commit."""
        listed = self.control("GET", "/checks")["heads"]
        return {head["headSha"]: head for head in listed if head["repository"].startswith(f"{login}/")}

    def cpu_seconds(self) -> float:
        """Return the CPU time until now of the service's processes."""
        return sum(map(cpu_seconds, self.processes.values()))


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
    """Run everything with these organisations, warm and at rest; a call of GitHub takes `latency_ms`.

    `settings` are GitHub's others (`tools.fake_github.settings`).
    `counts` are the hosts of the API, of two processes each, and the workers. No full resync by the clock
    unless `environment` says otherwise.
    """
    key = make_app_key()
    with storage() as stores, ExitStack() as stack, tempfile.TemporaryDirectory() as home:
        Path(home, "app.pub").write_text(key.public)
        port, api_ports = free_port(), free_ports(counts[0])
        fake_github = f"http://127.0.0.1:{port}"
        arguments = ["--port", str(port), "--app-public-key", f"{home}/app.pub", "--person-token", MAINTAINER]
        arguments += ["--webhook-url", f"http://127.0.0.1:{api_ports[0]}/webhooks/github"]
        arguments += ["--webhook-secret", WEBHOOK_SECRET]
        server = stack.enter_context(process(["tools.fake_github", *arguments], {}))
        wait_for(f"{fake_github}/_control/settings", server)
        keys = seed(stores, fake_github, accounts)
        changed = {"latencyMs": latency_ms, **(settings or {})}
        requests.put(f"{fake_github}/_control/settings", json=changed, timeout=10).raise_for_status()
        dependencies = {
            **stores.environment,
            **app_settings(key),
            "GITHUB_API_URL": fake_github,
            "FULL_PASS_EVERY": "86400",
            **(environment or {}),
        }
        hosts = [stack.enter_context(web(dependencies, port=each)) for each in api_ports]
        processes = {f"api-{number}": host.process_id for number, host in enumerate(hosts, start=1)}
        for number in range(1, counts[1] + 1):
            processes[f"worker-{number}"] = stack.enter_context(process(["app", "worker"], dependencies)).pid
        addresses = [host.address for host in hosts]
        started = Stack(addresses[0], fake_github, keys, stores, processes, addresses, dependencies)
        for address, account in product(addresses, accounts):
            _warm(replace(started, api=address), account)
        started.control("GET", "/calls?reset=true")
        yield started


def app_settings(key: AppKey) -> dict[str, str]:
    """Return what a process needs to be the App."""
    return {"GITHUB_APP_ID": "1", "GITHUB_APP_PRIVATE_KEY": key.private, "GITHUB_WEBHOOK_SECRET": WEBHOOK_SECRET}


def _warm(stack: Stack, account: Account) -> None:
    """Freeze and lift one branch a few times: a service that has been running has connections and statements ready."""
    branch = {"type": "branch", "repository": f"{account.login}/{account.name.format(1)}", "branch": "main"}
    for _ in range(6):
        freeze, _ = stack.freeze(branch, account.login)
        time.sleep(0.5)
        stack.lift(freeze, account.login)
        time.sleep(0.5)
    wait_for_rest(stack)


def wait_for_rest(stack: Stack) -> None:
    """Wait until no check is due or leased."""
    query = "SELECT count(*) FROM checks WHERE due_at IS NOT NULL OR lease_token IS NOT NULL"
    until(lambda: not stack.stores.sql(query))


def until(read: Callable[[], Result], every: float = POLL_INTERVAL, deadline: float = REST_TIMEOUT) -> Result:
    """Poll until something is true or there, and return it; raise TimeoutError if it takes too long."""
    end = time.monotonic() + deadline
    while not (found := read()):
        if time.monotonic() > end:
            raise TimeoutError("what was waited for did not come")
        time.sleep(every)
    return found


class Write(NamedTuple):
    """One verdict that was written, in epoch seconds."""

    at: float
    head: str
    conclusion: str


@dataclass(slots=True)
class Writes:
    """All verdicts since the counters were last reset, in the order in which they were written.

    The moments are GitHub's, of the same machine's clock, so how often one looks blurs nothing.
    """

    stack: Stack
    all: list[Write] = field(default_factory=list)

    def look(self) -> None:
        """Read the new writes."""
        listed: list[dict[str, Any]] = self.stack.control("GET", f"/writes?after={len(self.all)}")["writes"]
        self.all += [Write(each["receivedAt"], each["headSha"], each["conclusion"]) for each in listed]

    def first(self, conclusion: str, since: float, heads: Collection[str]) -> dict[str, float]:
        """Return when each of the heads first got a conclusion since a moment, the earliest first."""
        found: dict[str, float] = {}
        for write in self.all:
            if write.conclusion == conclusion and write.at >= since and write.head in heads:
                found.setdefault(write.head, write.at)
        return found

    def wait(self, conclusion: str, since: float, heads: Collection[str]) -> float:
        """Wait until all of the heads got the conclusion; return the seconds from `since` to the last of them."""
        missing, place, last = set(heads), bisect_left(self.all, since, key=lambda write: write.at), since

        def written() -> bool:
            """Read what is new; True if no head misses the conclusion any more."""
            nonlocal place, last
            self.look()
            for write in self.all[place:]:  # each once: measuring takes processor time
                if write.conclusion == conclusion and write.at >= since and write.head in missing:
                    missing.remove(write.head)
                    last = write.at
            place = len(self.all)
            return not missing

        until(written)
        return last - since
