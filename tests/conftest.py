"""The servers that tests run on: real PostgreSQL and Redis, one pair for each worker of pytest-xdist.

DATABASE_URL (a superuser's, of a server used for nothing else) and REDIS_URL name running servers; without them
embedded ones start. Fixtures:

- `database`: the address of a migrated, empty database, the same throughout a session, so that engines on it may be
  kept; it is emptied before each test that uses it.
- `own_database`: the address of a migrated database of the test's own, to change its tables or rights at will.
- `unmigrated_database`: the same without any table.
- `redis`: a client of an empty Redis; `redis_url` is its address.
- `app_key`: the App's key at the simulated GitHub; `fake_github_server` serves one simulated GitHub after the other.
- `fake_slack_server` serves a simulated Slack; `tls` is a certificate for servers on this machine.
"""

import gc
import itertools
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import hypothesis
import psycopg
import pytest
from psycopg import sql
from redis import Redis
from sqlalchemy import make_url

from app.commands.migrate import migrate
from tests.harness.answered_errors import AnsweredErrors, note_answers
from tests.harness.app_key import AppKey, make_app_key
from tests.harness.certificates import Certified, certified
from tests.harness.cleaning import PROCESSES_RUN, RUNS_HERE, define_reset, reset
from tests.harness.contracts import read_contracts_once
from tests.harness.engines import dispose_engines
from tests.harness.random_seed import exploring
from tests.harness.server_directories import make_server_directory
from tests.harness.time_slices import lengthen_time_slices
from tests.harness.tls import make_tls_context_once
from tools import fake_slack
from tools.embedded import EmbeddedPostgres, EmbeddedValkey
from tools.fake_github import FakeGitHub, Handle, serve

# Speed is for `make bench`, since machines are busy; and what passed once passes again (`TEST_SEED=random` explores).
# The same examples in every run need not be as many as new ones.
EXAMPLES = 100 if exploring() else 25
hypothesis.settings.register_profile("tests", deadline=None, derandomize=not exploring(), max_examples=EXAMPLES)
hypothesis.settings.load_profile("tests")
read_contracts_once()
note_answers()
make_tls_context_once()

SECONDS_OF_A_TEST = 0.1
"""What a test takes on average."""
HAS_CHECKS = re.compile(r"mark\.check|\b(?:sampled|in_chromium)\(|\beach_delivered_or_lost\b")
"""What stands in each file with tests of `make check`: the mark, or a function of tests that sets it."""
gc.disable()  # until the tests are collected: that makes hundreds of thousands of objects, and drops none


def pytest_configure(config: pytest.Config) -> None:
    """Have the answers of the service compared with the examples of the contract."""
    config.pluginmanager.register(AnsweredErrors())


@cache
def has_checks(file: Path) -> bool:
    """True if a file can have tests of `make check`."""
    return HAS_CHECKS.search(file.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without tests of `make check` where only those run: to import them takes 9 of 14 seconds."""
    if config.option.markexpr != "check" or collection_path.suffix != ".py":
        return None
    return None if has_checks(collection_path) else True


def pytest_itemcollected(item: pytest.Item) -> None:
    """Fail for a test of `make check` whose file would be left out there."""
    if item.get_closest_marker("check") and not has_checks(item.path):
        raise pytest.UsageError(f"{item.nodeid}: {HAS_CHECKS.pattern} has to match the file of a test of `make check`")


def pytest_collection_finish() -> None:
    """Lengthen the time that the product gives things, and exempt what collecting has made from garbage collections.

    With Python's own threshold of 700 objects garbage collections take a twenty-fifth of all time.
    """
    lengthen_time_slices()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the files that take longest begun first, where several workers share the files.

    A long file that is begun last leaves the other workers idle.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    seconds = defaultdict[Path, float](float)
    marks = set[tuple[Path, int]]()
    for item in items:
        seconds[item.path] += SECONDS_OF_A_TEST
        for mark in item.iter_markers("slow"):
            if (item.path, id(mark)) not in marks:  # one mark can be of all tests of a file, or of all parameters
                marks.add((item.path, id(mark)))
                seconds[item.path] += mark.args[0]
    items.sort(key=lambda item: (-seconds[item.path], item.path))


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    """Make a directory for servers, which the unprivileged account that they run as can enter."""
    home = make_server_directory("tests")
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(server_home: Path) -> Iterator[str]:
    """Return the address of the server's maintenance database, as a superuser."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield as_sqlalchemy(given)
        return
    with EmbeddedPostgres(server_home / "postgres", throwaway=True) as server:
        yield as_sqlalchemy(server.url("postgres"))


@pytest.fixture(scope="session")
def redis_url(server_home: Path, worker_id: str) -> Iterator[str]:
    """Return the address of this worker's Redis: a server of its own, or a database of its own at the given one."""
    given = os.environ.get("REDIS_URL")
    if given:
        number = "0" if worker_id == "master" else worker_id.removeprefix("gw")
        yield make_url(given).set(database=number).render_as_string(hide_password=False)
        return
    with EmbeddedValkey(server_home / "redis") as server:
        yield server.url


@pytest.fixture(scope="session")
def template_database(postgres_url: str, worker_id: str) -> Iterator[str]:
    """Return the address of a migrated database, to be copied: no one may be connected to it."""
    with new_database(postgres_url, f"change_freeze_template_{worker_id}_{os.getpid()}") as url:
        migrate(url)
        with psycopg.connect(as_libpq(url)) as connection:
            connection.execute(PROCESSES_RUN)
        yield url


@pytest.fixture(scope="session")
def shared_database(postgres_url: str, template_database: str, worker_id: str) -> Iterator[psycopg.Connection]:
    """Return a superuser's connection to the database that this worker's tests share."""
    name = f"change_freeze_{worker_id}_{os.getpid()}"
    with (
        new_database(postgres_url, name, template_database) as url,
        psycopg.connect(as_libpq(url), autocommit=True) as connection,
    ):
        connection.execute("SET session_replication_role = replica")  # any order of deletion will do
        connection.execute("SET lock_timeout = '10s'")  # a transaction left open by an earlier test is an error
        define_reset(connection)
        yield connection


@pytest.fixture
def database(shared_database: psycopg.Connection, postgres_url: str) -> str:
    """Return the address of a migrated, empty database."""
    reset(shared_database)
    return on_database(postgres_url, shared_database.info.dbname)


numbers = itertools.count(1)


@pytest.fixture(scope="module")
def module_database(postgres_url: str, template_database: str, worker_id: str) -> Iterator[str]:
    """Return the address of a database for the tests of one module, which set up much and change little."""
    with new_database(postgres_url, f"module_{worker_id}_{os.getpid()}_{next(numbers)}", template_database) as url:
        yield url


@pytest.fixture
def own_database(postgres_url: str, template_database: str, worker_id: str) -> Iterator[str]:
    """Return the address of a migrated database that no other test uses."""
    with new_database(postgres_url, f"own_{worker_id}_{os.getpid()}_{next(numbers)}", template_database) as url:
        yield url


@pytest.fixture
def unmigrated_database(postgres_url: str, worker_id: str) -> Iterator[str]:
    """Return the address of a database without any table."""
    with new_database(postgres_url, f"own_{worker_id}_{os.getpid()}_{next(numbers)}") as url:
        yield url


@pytest.fixture(scope="session")
def redis_of_session(redis_url: str) -> Iterator[Redis]:
    """Return the client of this worker's Redis."""
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def redis(redis_of_session: Redis) -> Redis:
    """Return a client of this worker's Redis, emptied."""
    redis_of_session.flushdb()
    return redis_of_session


@pytest.fixture(scope="session")
def app_key() -> AppKey:
    return make_app_key()


@pytest.fixture(scope="session")
def fake_github_server() -> Iterator[Handle]:
    """Serve a simulated GitHub, which a test replaces by its own."""
    handle = serve(FakeGitHub())
    yield handle
    handle.stop()


@pytest.fixture(scope="session")
def fake_slack_server() -> Iterator[fake_slack.Handle]:
    """Serve a simulated Slack, which a test resets."""
    handle = fake_slack.serve(fake_slack.FakeSlack())
    yield handle
    handle.stop()


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """Return both ends of TLS with a certificate for this machine."""
    return certified(tmp_path_factory.mktemp("tls"))


@contextmanager
def new_database(server: str, name: str, template: str | None = None) -> Iterator[str]:
    """Create a database, empty or as a copy, and drop it at the end, with all connections."""
    source = make_url(template).database if template else "template0"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(str(source)))
    with psycopg.connect(as_libpq(server), autocommit=True) as connection:
        connection.execute(create)
        url = on_database(server, name)
        if template is not None:
            with psycopg.connect(as_libpq(url)) as copy:
                copy.execute(RUNS_HERE)
        yield url
        dispose_engines(url)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def on_database(url: str, name: str) -> str:
    """Return the address of another database of the same server."""
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def as_sqlalchemy(url: str) -> str:
    """Return `url` with the driver named, as the application takes it."""
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def as_libpq(url: str) -> str:
    """Return `url` as psycopg itself takes it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
