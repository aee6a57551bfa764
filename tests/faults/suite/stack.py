"""The whole service around a simulated GitHub and Stripe, with a wire between every process and every server.

PostgreSQL, Redis, the API (gunicorn) and two workers are real processes; GitHub and Stripe are served over real HTTP by
this one. Without Redis nothing wakes the workers. In a quick run a fork server starts the API and the workers.
"""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import requests

from app.commands.migrate import migrate
from app.database import ROLES as DATABASE_ROLES
from tests.faults.suite.fork_server import ForkServer
from tests.faults.suite.identity import STRIPE_SECRET, WEBHOOK_SECRET, make_identity
from tests.faults.suite.processes import HUNG_THREAD, ROOT, Process, wait_until
from tests.faults.suite.protocols import Statements
from tests.faults.suite.releases import Release, downgrade
from tests.faults.suite.seeding import Organization, fill
from tests.faults.suite.tcp_proxies import Exchange, Wire, Wires
from tests.harness.certificates import CERTIFICATE, certified
from tests.harness.pgbouncer import PgBouncer
from tests.harness.webhook_receiver import WebhookReceiver, webhook_receiver
from tools.embedded import EmbeddedPostgres, EmbeddedValkey
from tools.embedded.ports import free_port
from tools.embedded.processes import stop_child
from tools.fake_github import FakeGitHub, Handle, serve
from tools.fake_slack import FakeSlack
from tools.fake_slack import Handle as SlackHandle
from tools.fake_slack import serve as serve_slack
from tools.fake_slack.settings import CLIENT_ID, CLIENT_SECRET, SIGNING_SECRET
from tools.fake_stripe import FakeStripe
from tools.fake_stripe import Handle as StripeHandle
from tools.fake_stripe import serve as serve_stripe
from tools.mailbox import Handle as MailHandle
from tools.mailbox import Mailbox
from tools.mailbox import serve as serve_mail
from tools.sandbox.shop import set_up_shop

POSTGRES = {"fsync": "off", "full_page_writes": "off"}
"""Faster, and as safe as ever against the death of processes: only a machine that loses power would lose data."""
PATIENCE = 60.0
"""Seconds that a statement of ours waits for PostgreSQL to come back."""
LOGIN = "change_freeze_service"
"""The login of the service's processes: it owns nothing."""
ROLES = ("api", "worker-1", "worker-2", "worker-3")


@dataclass
class Stack:
    """Everything that runs, and the ways to hurt it."""

    home: Path
    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    fake_github: Handle
    fake_stripe: StripeHandle
    fake_slack: SlackHandle
    receiver: WebhookReceiver
    """Where webhooks are sent."""
    mail: MailHandle
    """The mail server."""
    exchange: Exchange
    redis: bool
    """Whether there is a Redis at all."""
    quick: bool
    """Whether time that would only be waited for is skipped."""
    wires: dict[tuple[str, str], Wire] = field(default_factory=dict)
    """By process and server: `wires["worker-1", "postgres"]`."""
    processes: dict[str, Process] = field(default_factory=dict)
    acme: Organization = field(init=False)
    beta: Organization = field(init=False)
    disturbed_by: str = ""
    """The fault that is tried, or has left it not at rest."""
    _connection: psycopg.Connection[Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def github(self) -> FakeGitHub:
        """The state of GitHub; hold `github.world.lock` while you touch it."""
        return self.fake_github.github

    @property
    def mailbox(self) -> Mailbox:
        """The mails that were delivered."""
        return self.mail.mailbox

    @property
    def stripe(self) -> FakeStripe:
        """Stripe's state; hold `stripe.lock` while you touch it."""
        return self.fake_stripe.stripe

    @property
    def slack(self) -> FakeSlack:
        """Slack's state; hold `slack.lock` while you touch it."""
        return self.fake_slack.slack

    @property
    def address(self) -> str:
        """Where the API listens."""
        return f"http://127.0.0.1:{self.api_port}"

    api_port: int = 0

    @property
    def api(self) -> Process:
        """The API: gunicorn with its workers."""
        return self.processes["api"]

    @property
    def reconcilers(self) -> tuple[Process, Process]:
        """Return the two processes that write checks, and sweep."""
        return self.processes["worker-1"], self.processes["worker-2"]

    def wire(self, process: Process | str, server: str) -> Wire:
        """Return the wire from a process to `postgres`, `redis`, `mail`, or a simulated server such as `fake_slack`."""
        return self.wires[process if isinstance(process, str) else process.name, server]

    def wires_to(self, server: str) -> Wires:
        """Return every process's wire to a server."""
        return Wires(wire for (_process, name), wire in self.wires.items() if name == server)

    # --- the database, past every wire ----------------------------------------------------------------------------

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, committed at once, and return its rows; waits for a server that is away."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                with self._lock:
                    if self._connection is None or self._connection.closed:
                        self._connection = psycopg.connect(self.postgres.url("postgres"), autocommit=True)
                    cursor = self._connection.execute(statement.encode(), parameters or None)
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                self.disconnect()
                if time.monotonic() > give_up:
                    raise
            time.sleep(0.05)

    def disconnect(self) -> None:
        """Close our own connection; the next statement opens another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    @property
    def api_processes(self) -> int:
        """How many processes serve the API."""
        return 1 if self.quick else 2

    def skip(self, seconds: float) -> None:
        """Let stored time pass at once where this is a quick run; in a long run it is waited for.

        Leases, next attempts, read-backs, writes whose answers were lost and pauses of installations move back; what a
        process remembers does not.
        """
        if self.quick:
            self.sql(
                "UPDATE checks SET lease_until = lease_until - make_interval(secs => %s), "
                "due_at = due_at - make_interval(secs => %s) WHERE lease_until IS NOT NULL OR due_at IS NOT NULL",
                seconds,
                seconds,
            )
            self.sql("UPDATE read_backs SET at = at - make_interval(secs => %s)", seconds)
            self.sql("UPDATE head_checks SET in_flight_until = in_flight_until - make_interval(secs => %s)", seconds)
            self.sql("UPDATE webhook_deliveries SET due_at = due_at - make_interval(secs => %s)", seconds)
            self.sql("UPDATE installations SET paused_until = paused_until - make_interval(secs => %s)", seconds)

    def read_stripe_now(self) -> None:
        """Have what could not be read at Stripe read again at once where this is a quick run."""
        if self.quick:
            unleased = "attempts > 0 AND (lease_until IS NULL OR lease_until < clock_timestamp())"
            for table in ("stripe_customers", "stripe_catalogues"):
                self.sql(f"UPDATE {table} SET due_at = clock_timestamp() WHERE {unleased}")

    def send_now(self, table: str) -> None:
        """Have what failed to be sent sent again at once."""
        unleased = "lease_until IS NULL OR lease_until < clock_timestamp()"
        self.sql(f"UPDATE {table} SET due_at = clock_timestamp() WHERE due_at IS NOT NULL AND ({unleased})")

    def read_webhook_log_now(self) -> None:
        """Have GitHub's log of webhooks read at once where this is a quick run."""
        if self.quick:
            unleased = "lease_until IS NULL OR lease_until < clock_timestamp()"
            self.sql(f"UPDATE webhook_log SET due_at = clock_timestamp() WHERE {unleased}")

    def full_resyncs(self) -> list[tuple[Any, ...]]:
        """Return when the last full resync was requested, the first one after the start; a later one changes that."""
        return self.sql("SELECT done_at FROM periodic_tasks WHERE name = 'full_resync'")

    def request_full_resync(self) -> None:
        """Have the full resync done now instead of when its period is over."""
        self.sql("UPDATE installations SET resync_due_at = now(), resync_after = 0, resync_urgent = true")

    def stop_postgres(self, *, crash: bool = False) -> None:
        """Stop PostgreSQL, ending its sessions in order, or kill -9 all of it."""
        self.disconnect()
        if crash and self.postgres.child is not None:
            stop_child(self.postgres.child, signal.SIGKILL, 5)
        self.postgres.stop()

    def start_postgres(self) -> None:
        """Start PostgreSQL again on its data."""
        if self.postgres.child is None:
            self.postgres.start()

    def start_redis(self) -> None:
        """Start Redis again, unless there is none."""
        if self.redis and self.valkey.child is None:
            self.valkey.start()

    # --- mending --------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Undo whatever a fault has left: servers run, wires carry, processes run, go on, and know the time."""
        self.github.faults.clear()
        self.stripe.faults.clear()
        self.slack.faults.clear()
        self.stripe.settings.webhooks = "deliver"
        self.start_postgres()
        self.start_redis()
        for wire in self.wires.values():
            wire.heal()
        for process in self.processes.values():
            if process.runs:
                process.resume()
            process.set_clock(0)
        self.run_all()

    def run_all(self) -> None:
        """Start what does not run, and wait until the API answers."""
        for name, process in self.processes.items():
            if name in self.usual:
                process.start()
        self.wait_for_api()

    @property
    def usual(self) -> set[str]:
        """The processes that run normally."""
        return {"api", "worker-1", "worker-2"}

    def wait_for_api(self) -> None:
        """Wait until the API is ready."""
        wait_until(self._is_ready, f"the API, whose log is {self.api.log}", 30)

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"{self.address}/readyz", timeout=2).status_code == 200
        except requests.RequestException:
            return False


@contextmanager
def running(
    *,
    redis: bool = True,
    quick: bool = False,
    small: bool = False,
    release: Release | None = None,
    pooled: bool = False,
) -> Iterator[Stack]:
    """Run everything, filled and at rest: this code, or a release of before on its own schema.

    `pooled` has PgBouncer between the processes and PostgreSQL, and only their locks pass it by.
    """
    with ExitStack() as exit_stack:
        home = Path(exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="change-freeze-faults-", dir="/tmp")))
        exit_stack.callback(_keep_logs, home)
        home.chmod(0o711)  # the unprivileged account of the servers passes through
        fork_server = ForkServer(home / "fork_server.log") if quick else None
        if fork_server:
            exit_stack.callback(fork_server.stop)
        postgres = EmbeddedPostgres(home / "postgres")
        postgres.settings = {**postgres.settings, **POSTGRES}
        exit_stack.callback(postgres.stop)
        postgres.start()
        migrate(postgres.url("postgres"))
        postgres.ensure_login(LOGIN, DATABASE_ROLES)
        valkey = EmbeddedValkey(home / "redis")
        exit_stack.callback(valkey.stop)
        if redis:
            valkey.start()
        identity = make_identity()
        fake_github = serve(FakeGitHub(app_public_key=identity.public_key, webhook_secret=WEBHOOK_SECRET))
        exit_stack.callback(fake_github.stop)
        stripe = serve_stripe(FakeStripe(webhook_secrets=(STRIPE_SECRET,)))
        exit_stack.callback(stripe.stop)
        set_up_shop(stripe.base_url)
        slack = serve_slack(FakeSlack())
        exit_stack.callback(slack.stop)
        slack.slack.settings.seconds_per_message = 0
        receiver = exit_stack.enter_context(webhook_receiver(certified(home)))
        exchange = Exchange()
        exit_stack.callback(exchange.stop)
        mail = serve_mail()
        exit_stack.callback(mail.stop)
        stack = Stack(home, postgres, valkey, fake_github, stripe, slack, receiver, mail, exchange, redis, quick)
        _lay_wires(stack)
        stack.acme, stack.beta = fill(stack.postgres.url("postgres"), stack.github, small=small)
        if release is not None:
            downgrade(stack.postgres.url("postgres"), release.revision)
        exit_stack.callback(_end, stack)
        _make_processes(stack, identity.environment, release.directory if release else ROOT, fork_server)
        if pooled:
            pooler = exit_stack.enter_context(PgBouncer(home / "pgbouncer", postgres, LOGIN, "postgres"))
            for process in stack.processes.values():
                process.environment["DATABASE_DIRECT_URL"] = process.environment["DATABASE_URL"]
                process.environment["DATABASE_URL"] = pooler.url
        stack.run_all()
        yield stack


def _lay_wires(stack: Stack) -> None:
    addresses = {
        "GitHub": stack.fake_github.base_url,
        "Stripe": stack.fake_stripe.base_url,
        "Slack": stack.fake_slack.base_url,
    }
    ports = {name: int(address.rpartition(":")[2]) for name, address in addresses.items()}
    for role in ROLES:
        database = f"{stack.postgres.sockets}/.s.PGSQL.5432"
        stack.wires[role, "postgres"] = Wire(stack.exchange, f"{role} to PostgreSQL", database, Statements)
        stack.wires[role, "redis"] = Wire(stack.exchange, f"{role} to Redis", str(stack.valkey.socket))
        stack.wires[role, "mail"] = Wire(stack.exchange, f"{role} to mail", ("127.0.0.1", stack.mail.smtp_port))
        for name, port in ports.items():
            wire = Wire(stack.exchange, f"{role} to {name}", ("127.0.0.1", port))
            stack.wires[role, f"fake_{name.lower()}"] = wire


def _make_processes(stack: Stack, identity: dict[str, str], directory: Path, fork_server: ForkServer | None) -> None:
    stack.api_port = free_port()
    stack.github.settings.webhook_url = f"{stack.address}/webhooks/github"
    stack.stripe.settings.webhook_url = f"{stack.address}/webhooks/stripe"
    stack.slack.settings.request_url = f"{stack.address}/webhooks/slack"
    programs = {
        "api": ["app", "api"],
        "worker-1": ["app", "worker"],
        "worker-2": ["app", "worker"],
        "worker-3": ["app", "worker"],
    }
    for role, arguments in programs.items():
        environment = {
            **identity,
            "DATABASE_URL": f"postgresql://{LOGIN}@127.0.0.1:{stack.wire(role, 'postgres').port}/postgres"
            "?sslmode=disable&gssencmode=disable",
            "REDIS_URL": f"redis://127.0.0.1:{stack.wire(role, 'redis').port}/0",
            "GITHUB_API_URL": f"http://127.0.0.1:{stack.wire(role, 'fake_github').port}",
            "STRIPE_API_URL": f"http://127.0.0.1:{stack.wire(role, 'fake_stripe').port}",
            "SMTP_URL": f"smtp://127.0.0.1:{stack.wire(role, 'mail').port}",
            "MAIL_FROM": "Change-Freeze Service <no-reply@faults.test>",
            "SLACK_URL": f"http://127.0.0.1:{stack.wire(role, 'fake_slack').port}",
            "SLACK_CLIENT_ID": CLIENT_ID,
            "SLACK_CLIENT_SECRET": CLIENT_SECRET,
            "SLACK_SIGNING_SECRET": SIGNING_SECRET,
            "PORT": str(stack.api_port),
            "WEB_CONCURRENCY": str(stack.api_processes),
            "SSL_CERT_FILE": str(stack.home / CERTIFICATE),
            "SWEEP_EVERY": "1",
            "FULL_PASS_EVERY": "86400",
        }
        if role != "api":
            environment["PYTHONPATH"] = str(HUNG_THREAD)
        log = stack.home / f"{role}.log"
        stack.processes[role] = Process(role, arguments, environment, log, directory, fork_server)


def _keep_logs(home: Path) -> None:
    """Copy the logs to where FAULT_LOGS says, if it says."""
    if wanted := os.environ.get("FAULT_LOGS"):
        Path(wanted).mkdir(parents=True, exist_ok=True)
        for log in home.glob("*.log"):
            shutil.copy(log, wanted)


def _end(stack: Stack) -> None:
    give_up = time.monotonic() + 3
    running_ones = [process for process in stack.processes.values() if process.runs]
    for process in running_ones:
        process.resume()
        process.terminate()
    while time.monotonic() < give_up and any(process.runs for process in running_ones):
        time.sleep(0.02)
    for process in running_ones:
        process.kill()
    stack.disconnect()
