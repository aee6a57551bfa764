"""The pages for people, served over real HTTP at their own web origin, and people who visit them.

Fixtures:

- `ada`: a person who is signed in; `signed_in(account("Bob"))` is another. `visitor` has a browser and no account;
  `visit()` creates more.
- `acme`: an organisation that Ada administers.
- `mailed(address)`: the link of the last mail to an address.
- `session`: rows as they are; what is added or changed there is committed at once.
- `later(minutes=11)`: lets time pass.
- `browser`: Chromium without scripts; `scripted` is the same with them. `keep(name)` judges the page as it is.
- `shop`: an organisation that may buy at the simulated Stripe; `admin` is a person with a browser who administers it.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from app.main import create_app
from integrations.stripe import Stripe, StripeSettings
from models.organizations import Organization, User
from rules.access.login_sessions import LIFETIME
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.tokens import new_session_token, token_hash
from services.core.unit_of_work import UnitOfWorkFactory
from tests import factories
from tests.harness import passwords
from tests.harness.browser import Browser, chromium
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.mails import mailed_link
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.sessions import committing
from tests.harness.wakeups import RecordedWakeups
from tests.web.people.billing import Shop
from tests.web.people.forms import Person
from tests.web.people.in_chromium import Keep, judge_looks
from tools import fake_slack
from tools.fake_stripe import FakeStripe, Handle, serve

PASSWORD = passwords.PASSWORD
SECRET_KEY = factories.SECRET_KEY
Mailed = Callable[[str], str]
Visit = Callable[..., Person]
SignedIn = Callable[..., Person]
Later = Callable[..., None]


@pytest.fixture(scope="session")
def clock_of_pages() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="session")
def stripe_of_pages(clock_of_pages: MovableClock) -> Iterator[Handle]:
    """Serve a simulated Stripe with the clock of the pages."""

    def clock() -> float:
        return time.time() + clock_of_pages.offset.total_seconds()

    handle = serve(FakeStripe(clock=clock))
    yield handle
    handle.stop()


@pytest.fixture(scope="session")
def slack_of_pages() -> Iterator[fake_slack.Handle]:
    handle = fake_slack.serve(fake_slack.FakeSlack())
    yield handle
    handle.stop()


@pytest.fixture(scope="session")
def site_of_session(
    shared_database: psycopg.Connection[Any],
    redis_url: str,
    clock_of_pages: MovableClock,
    stripe_of_pages: Handle,
    slack_of_pages: fake_slack.Handle,
) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = product_config(
        address_of(shared_database),
        redis_url,
        web_url=url,
        stripe_secret_key=stripe_of_pages.stripe.keys.secret_key,
        stripe_webhook_secret=("whsec_of_the_pages",),
        stripe_api_url=stripe_of_pages.base_url,
        slack_client_id=slack_of_pages.slack.settings.client_id,
        slack_client_secret=slack_of_pages.slack.settings.client_secret,
        slack_signing_secret=(slack_of_pages.slack.settings.signing_secret,),
        slack_url=slack_of_pages.base_url,
    )
    parts = product_parts(clock=clock_of_pages, wakeups=RecordedWakeups())
    with serving(create_app(config, parts), listener) as served:
        yield served


@pytest.fixture(scope="session")
def started() -> Iterator[Browser]:
    """Run a Chromium for all modules: its start takes two seconds of a core."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def running(started: Browser) -> Iterator[Browser]:
    """Return the browser with a profile for the tests of one module."""
    with started.profile() as browser:
        yield browser


@pytest.fixture
def browser(running: Browser, site: str) -> Browser:
    running.forget()
    running.resize(1000)
    return running


@pytest.fixture
def scripted(browser: Browser) -> Iterator[Browser]:
    """Return the browser with scripts, which it has not otherwise."""
    browser.run_scripts(enabled=True)
    yield browser
    browser.run_scripts(enabled=False)


@pytest.fixture
def keep(browser: Browser) -> Keep:
    """Judge the page as it is, and keep pictures of it where they are wanted: `keep("sign-in")`."""
    return partial(judge_looks, browser)


@pytest.fixture
def site(site_of_session: str, database: str, redis: Redis) -> str:
    return site_of_session


@pytest.fixture
def session(site: str, database: str) -> Iterator[Session]:
    with committing(database) as session:
        yield session


@pytest.fixture
def later(clock_of_pages: MovableClock) -> Iterator[Later]:
    def pass_time(**length: float) -> None:
        clock_of_pages.offset += timedelta(**length)

    yield partial(pass_time)
    clock_of_pages.reset()


@pytest.fixture
def visit(site: str) -> Iterator[Visit]:
    people: list[Person] = []

    def visit(**headers: str) -> Person:
        people.append(Person(site, **headers))
        return people[-1]

    yield visit
    for person in people:
        person.close()


@pytest.fixture
def visitor(visit: Visit) -> Person:
    return visit()


@pytest.fixture
def account(session: Session) -> Callable[[str], User]:
    """Make an account whose password is PASSWORD: `account("Ada")` is `ada@example.test`."""

    def make(name: str) -> User:
        return passwords.account(session, name, email=f"{name.lower()}@example.test")

    return make


@pytest.fixture
def signed_in(session: Session, visit: Visit) -> SignedIn:
    """Return a function that gives a person a browser with a session, as the sign-in page does with four requests."""

    def make(user: User, organization: Organization | None = None) -> Person:
        token, end = new_session_token(), factories.now() + LIFETIME
        factories.login(session, user, organization, token_hash=token_hash(token), expires_at=end)
        person = visit()
        person.client.cookies.set("session", token, domain="127.0.0.1")
        return person

    return make


@pytest.fixture
def ada(account: Callable[[str], User], signed_in: SignedIn) -> Person:
    """Return Ada, signed in."""
    return signed_in(account("Ada"))


@pytest.fixture
def mailed(session: Session) -> Mailed:
    def link(address: str) -> str:
        return re.sub(r"^https?://[^/]+", "", mailed_link(session, address))

    return link


@pytest.fixture
def shop(session: Session, database: str, clock_of_pages: MovableClock, stripe_of_pages: Handle) -> Iterator[Shop]:
    fake = stripe_of_pages.stripe
    fake.reset()
    client = Stripe(StripeSettings(fake.keys.secret_key, api_url=stripe_of_pages.base_url))
    ports = Ports(SecretKey(SECRET_KEY.encode()), client)
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock_of_pages, RecordedWakeups(), ports)
    yield Shop(session, factories.organization(session, "Acme", plan="free"), fake, jobs, clock_of_pages)
    clock_of_pages.reset()


@pytest.fixture
def admin(account: Callable[[str], User], signed_in: SignedIn, shop: Shop) -> Person:
    """Return Ada, signed in, who administers the organisation of the shop."""
    user = account("Ada")
    shop.joined_by(user, "admin")
    return signed_in(user, shop.organization)


@pytest.fixture
def acme(session: Session, ada: Person) -> Organization:
    """Make Ada an administrator of Acme."""
    organization = factories.organization(session, "Acme")
    factories.membership(session, organization, user_of(session), "admin")
    return organization


def user_of(session: Session) -> User:
    """Return Ada's account."""
    return session.scalars(select(User).where(User.email == "ada@example.test")).one()
