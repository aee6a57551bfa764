"""The service as processes, scraped over HTTP: an API of two worker processes, and a worker.

What alert rules, the dashboard and the documentation name must be what these processes show.
"""

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql
from sqlalchemy import make_url

from app.metrics.families import FAMILIES
from integrations.github.events import InstallationRefresh
from models.github_api_usage import GitHubApiUsage
from models.requests import WebhookDelivery
from services.webhooks.stored_requests import to_stored
from tests import factories
from tests.app.metrics.expressions import expressions, family_of, metrics_of
from tests.app.test_config import private_key
from tests.conftest import as_libpq
from tests.factories.adding import added
from tests.harness.concurrency import PATIENCE, eventually
from tests.harness.sessions import owner_session
from tests.jobs.conftest import SECRET
from tools.embedded.ports import free_ports

pytestmark = [pytest.mark.check, pytest.mark.slow(25)]

ROOT = Path(__file__).parents[3]
PROCESSES = ("api", "worker")
THREADS = 3
SECRETS = ("a secret of tests", SECRET, "ada@example.com", "acme")
Samples = Mapping[str, list[dict[str, str]]]
"""The labels of each sample, by its name."""


@dataclass(slots=True)
class Service:
    """The running processes."""

    environment: dict[str, str]
    metrics: Mapping[str, str]
    """The address of the metrics of each process."""
    api: str
    database: str
    logs: Path
    children: dict[str, "subprocess.Popen[bytes]"]

    def start(self, process: str, name: str | None = None) -> "subprocess.Popen[bytes]":
        """Start a process that serves its metrics where its kind does."""
        with (self.logs / (name or process)).open("ab") as log:
            environment = {**self.environment, "METRICS_BIND": self.metrics[process]}
            command = [sys.executable, "-m", "app", process]
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def log(self, name: str) -> str:
        return (self.logs / name).read_text()

    def scrape(self, process: str) -> str:
        answer = httpx.get(f"http://{self.metrics[process]}/metrics", timeout=PATIENCE)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        return answer.text

    def answers(self, process: str) -> bool:
        assert self.children[process].poll() is None, self.log(process)
        try:
            return bool(self.scrape(process))
        except httpx.TransportError:
            return False

    def value(self, process: str, sample: str) -> float | None:
        """Return the value of a sample that is written like this, or None without it."""
        lines = dict(line.rsplit(" ", 1) for line in self.scrape(process).splitlines() if not line.startswith("#"))
        return float(lines[sample]) if sample in lines else None

    def has_read_everything(self) -> bool:
        """True if the facts of the last scrape of the worker lack nothing."""
        return not any(
            line.startswith("change_freeze_read_success") and line.endswith(" 0.0")
            for line in self.scrape("worker").splitlines()
        )

    def samples(self, process: str) -> Samples:
        found = defaultdict[str, list[dict[str, str]]](list)
        for family in text_string_to_metric_families(self.scrape(process)):
            for sample in family.samples:
                found[sample.name].append(sample.labels)
        return found


@pytest.fixture(scope="module")
def service(module_database: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Start the processes where something has happened, GitHub cannot be reached, and no mail server either."""
    with owner_session(module_database) as session:
        acme = factories.organization(session)
        installation = factories.installation(session, acme)
        factories.installation(session, None, "globex", paused_until=factories.now() + timedelta(hours=1))
        session.add(GitHubApiUsage(installation_id=installation.id, at=factories.now(), points=5, content=1))
        fails = {"event": "installation", "payload": to_stored([InstallationRefresh(installation.id)])}
        added(
            session,
            WebhookDelivery(delivery_id="1", received_at=factories.now(), due_at=factories.now(), **fails),
        )
        session.commit()
    directory = tmp_path_factory.mktemp("scraped")
    port, *ports = free_ports(1 + len(PROCESSES))
    environment = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(directory),
        "DATABASE_URL": module_database,
        "REDIS_URL": redis_url,
        "SECRET_KEY": SECRETS[0],
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": private_key(),
        "GITHUB_WEBHOOK_SECRET": SECRET,
        "GITHUB_API_URL": "http://127.0.0.1:1",
        "GITHUB_CONTENT_LIMIT": "aliases",
        "SMTP_URL": "smtp://127.0.0.1:1",
        "MAIL_FROM": "Freezes <freezes@example.com>",
        "PORT": str(port),
        "WEB_CONCURRENCY": "2",
        "DATABASE_POOL_SIZE": str(THREADS),
    }
    addresses = {process: f"127.0.0.1:{number}" for process, number in zip(PROCESSES, ports, strict=True)}
    running = Service(environment, addresses, f"http://127.0.0.1:{port}", module_database, directory, {})
    with ExitStack() as stack:
        running.children.update({process: running.start(process) for process in PROCESSES})
        for end in (subprocess.Popen.wait, subprocess.Popen.terminate):  # in reverse order
            for child in running.children.values():
                stack.callback(end, child)
        for process in PROCESSES:
            eventually(partial(running.answers, process), PATIENCE)
        yield running


@pytest.fixture(scope="module")
def exposed(service: Service) -> Mapping[str, Samples]:
    """Return what each process shows, once each has done something."""
    failures = 'change_freeze_queue_failures_total{code="github_unavailable",queue="webhooks"}'
    eventually(lambda: (service.value("worker", failures) or 0) >= 1, PATIENCE)
    httpx.get(f"{service.api}/healthz", timeout=PATIENCE)
    eventually(service.has_read_everything, PATIENCE)  # on a busy machine, a read may take too long
    return {process: service.samples(process) for process in PROCESSES}


@pytest.mark.parametrize("process", PROCESSES)
def test_process_shows_every_family_that_the_documentation_says_it_has(
    exposed: Mapping[str, Samples], process: str
) -> None:
    names = [name for name in exposed[process] if not name.endswith("_created")]  # added by the library to counters
    shown = {family_of(name) for name in names if name.startswith("change_freeze_")}
    expected = {family.full_name for family in FAMILIES if process in family.processes}
    failures = "change_freeze_queue_failures_total"  # only the process that had a failure has its sample
    assert shown - {failures} == expected - {failures}
    for family in FAMILIES:
        for labels in exposed[process].get(family.full_name, []):
            assert set(labels) == set(family.labels)


def test_rules_and_dashboard_name_only_what_processes_show(exposed: Mapping[str, Samples]) -> None:
    labels = defaultdict[str, set[str]](set, {"up": set()})
    for samples in exposed.values():
        for name, sets in samples.items():
            labels[name] |= {label for each in sets for label in each}
    missing = []
    for title, expression in expressions():
        named = metrics_of(expression)
        assert named, title
        missing += [
            f"{title}: {name} has no {sorted(wanted - labels[name])}"
            for name, wanted in named.items()
            if wanted - labels[name]
        ]
    assert missing == []


def test_no_label_has_a_secret_or_a_name_of_somebody(exposed: Mapping[str, Samples], service: Service) -> None:
    password = make_url(service.database).password
    hidden = [secret for secret in (*SECRETS, password) if secret]
    shown = "\n".join(service.scrape(process) for process in PROCESSES)
    assert [secret for secret in hidden if secret in shown] == []
    assert len(shown) < 400_000


def test_one_address_has_the_metrics_of_all_processes_of_the_api(service: Service) -> None:
    sample = 'change_freeze_http_requests_total{operation="get_openapi_yaml",status="200"}'
    before = service.value("api", sample) or 0
    for _ in range(20):
        httpx.get(f"{service.api}/openapi.yaml", timeout=PATIENCE)
    assert (service.value("api", sample) or 0) - before == 20
    threads = 'change_freeze_request_threads{pool="requests"}'
    eventually(lambda: service.value("api", threads) == 2 * THREADS, PATIENCE)


def test_api_serves_no_metrics_beside_an_address_of_their_own(service: Service) -> None:
    assert httpx.get(f"{service.api}/metrics", timeout=PATIENCE).status_code == 404


def test_address_of_metrics_serves_no_operation(service: Service) -> None:
    for process in PROCESSES:
        address = f"http://{service.metrics[process]}"
        assert httpx.get(f"{address}/v1/freezes", timeout=PATIENCE).status_code == 404
        assert httpx.post(f"{address}/metrics", timeout=PATIENCE).status_code == 501


def test_only_workers_answer_probes_beside_their_metrics(service: Service) -> None:
    paths = ("healthz", "readyz")
    for process, status in (("worker", 200), ("api", 404)):
        answers = [httpx.get(f"http://{service.metrics[process]}/{path}", timeout=PATIENCE) for path in paths]
        assert [answer.status_code for answer in answers] == [status] * 2


def test_metrics_survive_a_killed_process_of_the_api(service: Service) -> None:
    master = service.children["api"].pid
    first, _ = _children_of(master)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: len(_children_of(master)) == 2 and first not in _children_of(master), PATIENCE)
    assert service.scrape("api")


def _children_of(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found]


def test_processes_do_not_start_on_an_address_that_is_taken(service: Service) -> None:
    [service.environment["PORT"]] = map(str, free_ports(1))
    others = {process: service.start(process, name=f"other {process}") for process in ("api", "worker")}
    for process, other in others.items():
        assert other.wait(PATIENCE) == 3
        message = f"METRICS_BIND {service.metrics[process]} cannot be used: Address already in use"
        assert message in service.log(f"other {process}")


def test_scrape_answers_while_the_database_refuses_connections(service: Service) -> None:
    """The last test: the database stays closed until it is dropped."""
    name = str(make_url(service.database).database)
    with psycopg.connect(as_libpq(service.database), dbname="postgres", autocommit=True) as connection:
        close = "ALTER DATABASE {} WITH ALLOW_CONNECTIONS false"
        connection.execute(sql.SQL(close).format(sql.Identifier(name)))
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
    shared = (
        "enforcement",
        "unenforced_freezes",
        "frozen_branches",
        "restores",
        "queues",
        "audit",
        "webhooks",
        "notifications",
    )
    reads = (*shared, "github", "processes")

    def all_fail() -> bool:
        return {service.value("worker", f'change_freeze_read_success{{read="{read}"}}') for read in reads} == {0}

    eventually(all_fail, PATIENCE)
    samples = service.samples("worker")
    assert "change_freeze_oldest_due_branch_seconds" not in samples
    assert {"change_freeze_build_info", "process_start_time_seconds", "change_freeze_wakeups_queued"} <= samples.keys()
    assert "change_freeze_build_info" in service.samples("api")
