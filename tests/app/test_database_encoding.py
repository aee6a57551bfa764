"""A database that is not one of UTF-8, as `createdb` makes it where the server was set up in the locale C."""

import json
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from app.__main__ import main
from app.main import create_app
from tests.app.test_entry_point import ROOT, environment_of
from tests.conftest import as_libpq, on_database
from tests.harness.product import product_config, product_parts
from tests.harness.servers import client_of, serving

NEEDED = "make it again with `createdb --encoding UTF8 --template template0`."


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def foreign_database(request: pytest.FixtureRequest, unmigrated_database: str) -> Iterator[tuple[str, str]]:
    """Return the address of an empty database, and its encoding."""
    name = f"{make_url(unmigrated_database).database}_{request.param.lower()}"
    create = "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE_PROVIDER libc LOCALE 'C'"
    with psycopg.connect(as_libpq(unmigrated_database), autocommit=True) as connection:
        connection.execute(sql.SQL(create).format(sql.Identifier(name), sql.Literal(request.param)))
        yield on_database(unmigrated_database, name), request.param
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_migrate_refuses_another_encoding_than_utf8_in_one_line(
    foreign_database: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address, encoding = foreign_database
    monkeypatch.setenv("DATABASE_OWNER_URL", address)
    assert main(["migrate"]) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == (
        f"Nothing was migrated. The encoding of the database is {encoding}, and has to be UTF8: {NEEDED}"
    )


def test_readiness_names_the_encoding_of_the_database(foreign_database: tuple[str, str], redis_url: str) -> None:
    address, encoding = foreign_database
    with serving(create_app(product_config(address, redis_url), product_parts())) as url, client_of(url) as client:
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert f"The encoding of the database is {encoding}, and has to be UTF8: {NEEDED}" in answer.text


@pytest.mark.check
@pytest.mark.slow(5)
def test_worker_waits_with_one_line_for_a_database_of_utf8(foreign_database: tuple[str, str], redis_url: str) -> None:
    address, encoding = foreign_database
    command = [sys.executable, "-m", "app", "worker"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment_of(address, redis_url), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = [json.loads(process.stderr.readline())["event"] for _ in range(2)]
        process.terminate()
        assert process.stderr.read() == ""
    wanted = f"waiting for the database: The encoding of the database is {encoding}, and has to be UTF8: {NEEDED}"
    assert lines[1] == wanted


def test_doctor_names_the_encoding_of_the_database(
    foreign_database: tuple[str, str],
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, encoding = foreign_database
    for name, value in environment_of(address, redis_url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:1")
    main(["doctor"])
    shown = capsys.readouterr().out
    assert f"The encoding of the database is {encoding}, and has to be UTF8: {NEEDED} (DATABASE_URL)" in shown
