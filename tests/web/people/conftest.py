"""The pages for people, served over real HTTP at their own web origin, and people who visit them.

Fixtures:

- `ada`: a person with a browser and an account; `visitor` has a browser and no account. `visit()` creates more.
- `mailed(address)`: the link of the last mail to an address.
- `session`: rows as they are; what is added or changed there is committed at once.
- `later(minutes=11)`: lets time pass.
"""

import re
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import psycopg
import pytest
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.main import create_app
from models.identity import Mail
from models.organizations import User
from services.core.encryption import decrypt
from services.mail.outbox import USE, associated_data
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.passwords import hash_password
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.sessions import committing
from tests.harness.wakeups import RecordedWakeups
from tests.web.people.forms import Person

SECRET_KEY = "what seals the mails of these tests"
PASSWORD = "green paper boats on the canal"

Mailed = Callable[[str], str]
Visit = Callable[..., Person]
Later = Callable[..., None]


@pytest.fixture(scope="session")
def clock_of_pages() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="session")
def site_of_session(
    shared_database: psycopg.Connection[Any], redis_url: str, clock_of_pages: MovableClock
) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = product_config(address_of(shared_database), redis_url, web_url=url, secret_key=SECRET_KEY)
    parts = product_parts(clock=clock_of_pages, wakeups=RecordedWakeups())
    with serving(create_app(config, parts), listener) as served:
        yield served


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
        user = factories.user(session, name)
        user.email, user.password_hash = f"{name.lower()}@example.test", hash_password(PASSWORD)
        user.email_verified_at = factories.now()
        session.flush()
        return user

    return make


@pytest.fixture
def ada(account: Callable[[str], User], visit: Visit) -> Person:
    """Return Ada, signed in by the page."""
    account("Ada")
    person = visit()
    person.sign_in("ada@example.test", PASSWORD)
    assert person.session is not None
    return person


@pytest.fixture
def mailed(session: Session) -> Mailed:
    def link(address: str) -> str:
        query = select(Mail).where(Mail.recipient == address).order_by(Mail.created_at.desc(), Mail.id.desc())
        mail = session.scalars(query.execution_options(populate_existing=True)).first()
        assert mail is not None, f"there is no mail to {address}"
        assert mail.encrypted_values is not None
        values = orjson.loads(
            decrypt(SECRET_KEY.encode(), USE, associated_data(mail.id, mail.recipient), mail.encrypted_values)
        )
        return re.sub(r"^https?://[^/]+", "", str(values["url"]))

    return link
