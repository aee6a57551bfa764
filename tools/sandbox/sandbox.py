"""The sandbox, step by step: what is started, in which order, and what is done with it."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from app.commands.migrate import migrate
from app.database import ROLES
from tools.embedded import EmbeddedPostgres, EmbeddedValkey
from tools.embedded.server import EmbeddedServer
from tools.sandbox.certificates import write_certificates
from tools.sandbox.clients import Client
from tools.sandbox.console import say
from tools.sandbox.demo import Demonstration
from tools.sandbox.environment import child_environment, write_environment
from tools.sandbox.github_seed import seed_fake_github
from tools.sandbox.interrupts import Make
from tools.sandbox.persisted_secrets import SECRETS_FILE, PersistedSecrets, load_secrets, public_key
from tools.sandbox.prepare import Preparation
from tools.sandbox.processes import Processes
from tools.sandbox.report import print_summary, write_report
from tools.sandbox.seed import Seed
from tools.sandbox.settings import ENVIRONMENT, Settings
from tools.sandbox.shop import set_up_shop
from tools.sandbox.tenants import APP_ID, APP_SLUG, SLACK_USERS, TENANTS, Tenant

DATABASE = "change_freeze"
LOGIN = "change_freeze_service"
"""The login of the service's processes: it owns nothing."""
PID_NAMES = {"PostgreSQL": "postgres", "Redis": "redis"}
WATCH_INTERVAL = 0.25


class Sandbox:
    """One run of the sandbox."""

    def __init__(self, settings: Settings, processes: Processes) -> None:
        self.settings = settings
        self.processes = processes
        self.fresh = not (settings.directory / SECRETS_FILE).exists()
        self.secrets: PersistedSecrets = load_secrets(settings.directory)
        self.elsewhere: Path | None = None
        self.postgres: EmbeddedPostgres | None = None
        self.pids: dict[str, int] = {}
        self.addresses: dict[str, str] = {}
        self.organizations: dict[str, Any] = {}

    def start(self) -> None:
        """Start everything, prepare it, demonstrate a freeze, and write the report."""
        with self.step("PostgreSQL and Redis"):
            addresses = self.start_servers()
        if self.elsewhere:
            say(f"  keep their data in {self.elsewhere}: their account cannot enter {self.settings.directory}")
        service_url = self.postgres.url(DATABASE, LOGIN) if self.postgres else addresses["databaseUrl"]
        environment = child_environment(
            self.settings, self.secrets, self.write_app_key(), service_url, addresses["redisUrl"]
        )
        with self.step("GitHub"):
            self.start_fake_github(environment)
        with self.step("Stripe, Slack and mailbox"):
            self.start_fake_stripe(environment)
            self.start_fake_slack(environment)
            self.start_mailbox(environment)
            environment["STRIPE_PORTAL_CONFIGURATION"] = set_up_shop(self.settings.stripe_url)
        environment["SSL_CERT_FILE"] = str(write_certificates(self.settings.directory))
        write_environment(self.settings.directory / ENVIRONMENT, environment)
        with self.step("Migrations"):
            migrate(addresses["databaseUrl"])
            if self.postgres:
                self.postgres.ensure_login(LOGIN, ROLES)
        with self.step("Organisations, people and keys"):
            self.seed(addresses["databaseUrl"])
        with self.step("API and worker"):
            self.start_service(environment)
        with self.step("Repositories, checks and rules"):
            prepared = self.prepare()
            self.authorize_rulesets(addresses["databaseUrl"])
            for preparation in prepared:
                preparation.verify_rules()
        if self.settings.demonstrate:
            say()
            self.demonstrate()
        self.addresses = addresses
        self.report()
        acme, globex = TENANTS
        administrator = self.organizations[globex.slug]["sessions"]["admin"]
        print_summary(self.settings, self.secrets.keys[acme.slug]["all"], administrator)

    def report(self) -> None:
        """Write `sandbox.json`."""
        write_report(self.settings, self.secrets, self.addresses, self.pids, self.organizations)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print what the block does, and how long it took."""
        began = time.monotonic()
        say(f"{name:<32}", end="")
        yield
        say(f"{time.monotonic() - began:5.1f} s")

    def start_servers(self) -> dict[str, str]:
        """Start the embedded servers, or take those that the environment names; return their addresses."""
        directory, logs = self.settings.directory, self.processes.logs
        database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
        if not database_url:
            self.postgres = EmbeddedPostgres(directory / "postgres", log=logs / "postgres.log")
            self.start_server(self.postgres)
            self.pids["postgres"] = self.postgres.pid
            database_url = self.postgres.ensure_database(DATABASE)
        if not redis_url:
            valkey = EmbeddedValkey(directory / "redis", log=logs / "redis.log")
            self.start_server(valkey)
            self.pids["redis"] = valkey.pid
            redis_url = valkey.url
        return {"databaseUrl": database_url, "redisUrl": redis_url}

    def start_server(self, server: EmbeddedServer) -> None:
        """Start an embedded server; a new sandbox deletes the data that an earlier one has left elsewhere."""
        if self.fresh:
            shutil.rmtree(server.directory, ignore_errors=True)
        self.processes.start_server(server)
        if server.moved:
            self.elsewhere = server.directory.parent

    def write_app_key(self) -> Path:
        """Write the GitHub App's private key to a file, and return it."""
        file = self.settings.directory / "app.pem"
        file.touch(mode=0o600)
        file.write_text(self.secrets.app_private_key)
        return file

    def start_fake_github(self, environment: dict[str, str]) -> None:
        """Start the simulated GitHub, and add the organisations that it lacks."""
        directory = self.settings.directory
        (directory / "app.pub").write_text(public_key(self.secrets.app_private_key))
        options = {
            "--port": str(self.settings.fake_github_port),
            "--state": str(directory / "fake_github.json"),
            "--app-id": str(APP_ID),
            "--app-slug": APP_SLUG,
            "--app-public-key": str(directory / "app.pub"),
            "--person-token": self.secrets.github_token,
            "--webhook-url": f"{self.settings.base_url}/webhooks/github",
            "--webhook-secret": self.secrets.webhook_secret,
            "--setup-url": f"{self.settings.base_url}/installed",
        }
        self.start_program("fake_github", options, environment, f"{self.settings.github_url}/_control/settings")
        seed_fake_github(Client(self.settings.github_url, self.secrets.github_token))

    def start_fake_stripe(self, environment: dict[str, str]) -> None:
        """Start the simulated Stripe."""
        options = {
            "--port": str(self.settings.fake_stripe_port),
            "--state": str(self.settings.directory / "fake_stripe.json"),
            "--webhook-url": f"{self.settings.base_url}/webhooks/stripe",
            "--webhook-secret": self.secrets.stripe_webhook_secret,
        }
        self.start_program("fake_stripe", options, environment, f"{self.settings.stripe_url}/_control/settings")

    def start_fake_slack(self, environment: dict[str, str]) -> None:
        """Start the simulated Slack."""
        options = {
            "--port": str(self.settings.fake_slack_port),
            "--state": str(self.settings.directory / "fake_slack.json"),
            "--request-url": f"{self.settings.base_url}/webhooks/slack",
        }
        self.start_program("fake_slack", options, environment, f"{self.settings.slack_url}/_control/settings")

    def start_mailbox(self, environment: dict[str, str]) -> None:
        """Start the mail server, which keeps the mails that it receives, and shows them."""
        options = {"--smtp-port": str(self.settings.smtp_port), "--port": str(self.settings.mailbox_port)}
        self.start_program("mailbox", options, environment, f"{self.settings.mailbox_url}/mails.json")

    def start_program(self, name: str, options: dict[str, str], environment: dict[str, str], ready_url: str) -> None:
        """Start `python -m tools.<name>`, and return once `ready_url` answers."""
        command = [sys.executable, "-m", f"tools.{name}", *(part for option in options.items() for part in option)]
        self.pids[name] = self.processes.start(name, command, environment)
        self.processes.wait_until(lambda: Client(ready_url).answers(""), f"The start of {name}")

    def seed(self, database_url: str) -> None:
        """Add the rows that are missing, and sign everybody in."""
        seed = self.open_seed(database_url)
        for tenant in TENANTS:
            keys = self.secrets.keys[tenant.slug]
            organization = seed.tenant(tenant, keys)
            self.organizations[tenant.slug] = {
                "id": organization.id,
                "installationId": tenant.installation_id,
                "repositories": tenant.full_names,
                "keys": keys,
                **seed.sessions(organization),
            }
        seed.close()

    def authorize_rulesets(self, database_url: str) -> None:
        """Record that administrators have authorised the rulesets that GitHub has from the beginning."""
        seed = self.open_seed(database_url)
        for tenant in TENANTS:
            if tenant.has_rulesets:
                seed.authorize_rulesets(tenant)
        seed.close()

    def open_seed(self, database_url: str) -> Seed:
        """Return the seed, connected to the database."""
        ttl = timedelta(seconds=self.settings.session_ttl_seconds)
        secret_key = self.secrets.cursor_secret  # what the service is given as SECRET_KEY
        return Seed(database_url, base_url=self.settings.base_url, session_ttl=ttl, secret_key=secret_key)

    def start_service(self, environment: dict[str, str]) -> None:
        """Start the service's own processes."""
        for name in ("api", "worker"):
            self.pids[name] = self.processes.start(name, [sys.executable, "-m", "app", name], environment)
        client = Client(self.settings.base_url)
        self.processes.wait_until(lambda: client.answers("/readyz"), "The API's start")

    def prepare(self) -> list[Preparation]:
        """Let the service find its repositories, write a check on every head, and read the prices."""
        fake_github = Client(self.settings.github_url, self.secrets.github_token)
        prepared = []
        for tenant in TENANTS:
            service = Client(self.settings.base_url, self.secrets.keys[tenant.slug]["all"])
            prepared.append(Preparation(tenant, service, fake_github, self.processes.wait_until))
            prepared[-1].run()
        for tenant in TENANTS:
            self.connect_slack(tenant)
        viewer = Client(self.settings.base_url, self.organizations[TENANTS[0].slug]["sessions"]["viewer"])
        self.processes.wait_until(lambda: viewer.answers("/v1/billing/prices"), "Reading the prices")
        return prepared

    def connect_slack(self, tenant: Tenant) -> None:
        """Connect an organisation's Slack workspace as its administrator does, unless it is connected."""
        service = Client(self.settings.base_url, self.organizations[tenant.slug]["sessions"]["admin"])
        if service.call("GET", "/v1/slack")["state"] != "connected":
            url = service.call("GET", "/v1/slack/install-url")["url"]
            consent = {"url": url, "user": SLACK_USERS[tenant.slug]}
            back = Client(self.settings.slack_url).call("POST", "/_control/install", consent)
            service.call("POST", "/v1/slack/claim", back)

    def demonstrate(self) -> None:
        """Show that a freeze blocks a merge."""
        tenant = TENANTS[0]
        service = Client(self.settings.base_url, self.secrets.keys[tenant.slug]["all"])
        fake_github = Client(self.settings.github_url, self.secrets.github_token)
        Demonstration(tenant, service, fake_github, self.processes.wait_until).run()

    def watch(self, make: Make) -> None:
        """Return when `make` is stopped; until then start again what ends, as a service manager would.

        Raise SandboxError when a process ends again and again.
        """
        while not make.has_been_stopped():
            restarted = self.processes.restart_ended()
            for name, pid in restarted.items():
                say(f"{name} had ended, and runs again as process {pid}")
                self.pids[PID_NAMES.get(name, name)] = pid
            if restarted:
                self.report()
            time.sleep(WATCH_INTERVAL)
