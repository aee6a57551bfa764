"""The way of a new organisation in a real browser: from sign-up to the first freeze, an exception from it, and its end.

Pages are used by keyboard and without scripts. GitHub is simulated; jobs and timed tasks run when the test lets them.
"""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import requests
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.config import Config
from app.database import WORKER_ROLE
from app.main import create_app
from app.wiring import ports_of
from integrations.github import GitHub
from jobs.context import Context
from jobs.registry import JOBS
from jobs.sweep import Sweeper
from models.organizations import Organization, User
from rules.web_addresses import INSTALLED
from services.core.unit_of_work import UnitOfWorkFactory
from services.reconcile.reconciler import Reconciler
from tests import factories
from tests.harness.app_key import AppKey
from tests.harness.browser import Browser
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups
from tests.web.people.conftest import PASSWORD, SECRET_KEY, Mailed
from tests.web.people.in_chromium import fill_form, in_chromium, sign_in
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.model.records import PullRequest
from tools.fake_github.oauth import APP_CLIENT_SECRET, CLIENT_ID, CLIENT_SECRET

pytestmark = in_chromium(20)
REASON = "Release 4.2 is being rolled out"
MAX_STEPS = 200


@dataclass(frozen=True, slots=True)
class Work:
    """GitHub with two pull requests of acme/web, and the jobs of the service."""

    github: Handle
    pulls: tuple[PullRequest, PullRequest]
    context: Context

    def run(self) -> None:
        """Run the timed tasks of a sweeper, and the jobs of a worker that use GitHub until nothing is due."""
        sweeper = Sweeper(self.context, lambda: True, timedelta(days=1000))
        sweeper.run_task("windows")
        sweeper.run_task("seals")
        jobs = [job for job in JOBS.values() if not job.in_background]
        for _ in range(MAX_STEPS):
            if not any(job.step(self.context) for job in jobs):
                return
        pytest.fail("the jobs do not come to rest")

    def merge(self, pull: PullRequest) -> requests.Response:
        """Merge a pull request at GitHub, as its maintainer."""
        return requests.put(
            f"{self.github.base_url}/repos/acme/web/pulls/{pull.number}/merge",
            headers={"Authorization": f"Bearer {self.github.github.person_token}"},
            json={},
            timeout=10,
        )


@pytest.fixture
def github(fake_github_server: Handle, app_key: AppKey) -> Iterator[Handle]:
    """Serve a GitHub of the test's own, where the App is installed nowhere."""
    fake_github_server.replace(FakeGitHub(app_public_key=app_key.public))
    yield fake_github_server
    fake_github_server.github.sender.stop()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def config(
    listener: socket.socket, shared_database: psycopg.Connection[Any], redis_url: str, github: Handle, app_key: AppKey
) -> Config:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    github.github.settings.setup_url = url + INSTALLED
    return product_config(
        address_of(shared_database),
        redis_url,
        base_url=url,
        web_url=url,
        secret_key=SECRET_KEY,
        default_plan="business",
        github_api_url=github.base_url,
        github_web_url=github.base_url,
        github_app_id=github.github.app_id,
        github_app_slug=github.github.app.slug,
        github_app_private_key=app_key.private,
        github_app_client_id=client_id_of(github.github.app.id),
        github_app_client_secret=APP_CLIENT_SECRET,
        github_client_id=CLIENT_ID,
        github_client_secret=CLIENT_SECRET,
    )


@pytest.fixture
def site(config: Config, listener: socket.socket, database: str, redis: Redis) -> Iterator[str]:
    """Serve the pages with this GitHub behind them."""
    parts = product_parts(clock=MovableClock(), wakeups=RecordedWakeups())
    with serving(create_app(config, parts), listener) as url:
        yield url


@pytest.fixture
def work(config: Config, github: Handle, site: str, database: str) -> Work:
    web = github.github.organization("acme").repository("web")
    pulls = (web.pull_request(), web.pull_request())
    ports = ports_of(config)
    github_client = ports.find(GitHub)
    assert github_client is not None
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), MovableClock(), RecordedWakeups(), ports)
    reconciler = Reconciler(jobs, github_client, site)
    return Work(github, pulls, Context(jobs, github_client, reconciler, lambda _name: None))


def press(browser: Browser, name: str) -> None:
    """Reach a button or a link by keyboard, and press it."""
    browser.tab_to(name)
    browser.press_and_go()


def write(browser: Browser, label: str, text: str) -> None:
    browser.tab_to(label)
    browser.write(text)


def sign_up(browser: Browser, site: str, mailed: Mailed) -> None:
    browser.open(f"{site}/sign-up")
    fill_form(browser, name="Ada", email="ada@example.test", password=PASSWORD)
    browser.open(site + mailed("ada@example.test"))
    write(browser, "Password", PASSWORD)
    browser.press_and_go()


def connect(browser: Browser, work: Work) -> None:
    """Go from the first steps to GitHub, install the App there, and connect it."""
    press(browser, "Connect GitHub")
    press(browser, "Install the App")
    press(browser, "Continue at GitHub")
    assert browser.path.startswith(f"{INSTALLED}?")
    press(browser, "Connect")
    assert "GitHub is connected" in browser.text
    work.run()
    press(browser, "Go on to the next step")


def set_up(browser: Browser, site: str, work: Work) -> None:
    """Enable the repository, and have an administrator at GitHub let us write the rule that requires our check."""
    press(browser, "Choose repositories")
    press(browser, "Enable it")
    work.run()
    browser.open(f"{site}/")
    press(browser, "Set up the rules")
    press(browser, "Show the plan")
    assert "1 ruleset would change" in browser.text
    press(browser, "Write it at GitHub")
    press(browser, "Go on at GitHub")
    press(browser, "Write this ruleset")
    work.run()


def test_new_organization_freezes_makes_an_exception_and_lifts(
    browser: Browser, site: str, work: Work, mailed: Mailed, account: Callable[[str], User], session: Session
) -> None:
    first, second = work.pulls
    sign_up(browser, site, mailed)
    assert "First steps" in browser.text
    write(browser, "Organisation name", "Acme")
    browser.press_and_go()
    assert "Your organisation has been created." in browser.text
    connect(browser, work)
    set_up(browser, site, work)

    browser.open(f"{site}/onboarding")
    press(browser, "Start a freeze")
    assert "1 branch of 1 repository would be frozen" in browser.text
    assert "would not block" not in browser.text
    write(browser, "Why", REASON)
    press(browser, "Start the freeze")
    freeze = browser.path.partition("?")[0]
    work.run()
    browser.open(site + freeze)
    assert "The branch is blocked" in browser.text
    assert [work.merge(pull).status_code for pull in work.pulls] == [405, 405]

    organization = session.scalars(select(Organization)).one()
    factories.membership(session, organization, account("Grace"), "member")
    browser.forget()
    sign_in(browser, site, "grace@example.test")
    browser.open(f"{work.github.base_url}/acme/web/pull/{first.number}")
    browser.tab_to("change-freeze/main")
    press(browser, "Details")  # of the check: the page that says why is one click away
    assert f"acme/web#{first.number} is blocked" in browser.text
    press(browser, "Ask for an exception")
    write(browser, "Why", "The fix of the outage has to be merged")
    press(browser, "Ask for it")
    assert "The exception is requested." in browser.text
    work.run()
    assert work.merge(first).status_code == 405

    browser.forget()
    sign_in(browser, site, "ada@example.test")
    assert "1 exception request" in browser.text
    press(browser, "1 exception request")
    for _ in ("of the list", "of the question"):
        press(browser, "Approve")
    work.run()
    assert [work.merge(pull).status_code for pull in work.pulls] == [200, 405]

    browser.open(site + freeze)
    press(browser, "Lift")
    press(browser, "Lift the freeze")
    assert "The freeze is lifted." in browser.text
    work.run()
    assert work.merge(second).status_code == 200
    browser.open(f"{site}/")
    assert "Nothing is frozen" in browser.text
