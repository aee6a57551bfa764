"""The service behind PgBouncer in transaction mode, with the configuration and the roles that are shipped."""

import shutil
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy.exc

from app.commands.doctor import check_database
from app.database import APP_ROLE, ROLES, WORKER_ROLE, make_engine, make_lock_engine, verify_database
from services.core.lease_holder import HolderLock, PooledConnectionError
from tests.faults.suite.client import Client, Ledger
from tests.faults.suite.runner import rest
from tests.faults.suite.stack import running
from tests.harness.pgbouncer import MISSING, PROGRAM, PgBouncer
from tests.harness.product import product_config
from tests.harness.server_directories import make_server_directory
from tools.embedded import EmbeddedPostgres

pytestmark = [
    pytest.mark.check,
    pytest.mark.slow(30),
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
]
LOGIN = "change_freeze_service"


def test_freezes_are_enforced_through_a_pooler_when_a_worker_is_killed() -> None:
    with running(quick=True, small=True, pooled=True) as stack:
        rest(stack)
        client = Client(stack, stack.acme, Ledger())
        freeze = client.freeze()
        rest(stack)
        client.lift(freeze)
        stack.processes["worker-1"].kill()
        client.freeze()
        rest(stack)
        exported = client.insist("GET", "/v1/audit/export")
        assert exported.text.count("freeze.started") == 2, exported.text
        assert (stack.home / "pgbouncer.log").read_text().count(f"login attempt: db=change_freeze user={LOGIN}") > 4
        logs = "".join(process.log.read_text() for process in stack.processes.values() if process.log.exists())
        assert "prepared statement" not in logs
        assert "Traceback" not in logs


@pytest.fixture(scope="module")
def service(shipped_server: EmbeddedPostgres) -> Iterator[tuple[str, str]]:
    """Return the addresses of the database as the login of the service, through PgBouncer and past it."""
    directory = make_server_directory("pgbouncer")
    try:
        with PgBouncer(directory / "pgbouncer", shipped_server, LOGIN, "change_freeze") as pooler:
            yield pooler.url, shipped_server.url("change_freeze", LOGIN)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM organizations",
        "SET ROLE change_freeze_owner",
        "CREATE TABLE public.ours ()",
        "CREATE TEMPORARY TABLE ours ()",
        "CREATE ROLE ours",
        "ALTER ROLE change_freeze_app BYPASSRLS",
        "UPDATE audit_entries SET action = 'nothing'",
        "COPY organizations TO STDOUT",
    ],
)
def test_login_may_do_nothing_by_itself_through_a_pooler(service: tuple[str, str], statement: str) -> None:
    for url in service:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_role_of_a_transaction_is_gone_in_the_next_one_of_the_session(service: tuple[str, str]) -> None:
    pooled, _ = service
    for role in ROLES:
        verify_database(pooled, role)
    engine = make_engine(pooled, 1, role=WORKER_ROLE)
    with engine.connect() as connection:
        backend = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    with psycopg.connect(pooled) as other:
        session = "SELECT pg_backend_pid(), current_user::text, current_setting('app.organization_id', true)"
        assert other.execute(session).fetchone() == (backend, LOGIN, "")
    engine.dispose()


def test_pooled_address_is_refused_for_the_lock_of_a_process(service: tuple[str, str]) -> None:
    pooled, direct = service
    with pytest.raises(PooledConnectionError, match="DATABASE_DIRECT_URL must lead to PostgreSQL itself"):
        HolderLock(make_lock_engine(pooled)).take()
    HolderLock(make_lock_engine(direct)).take()


def test_doctor_says_which_address_leads_through_a_pooler(service: tuple[str, str]) -> None:
    pooled, direct = service
    well = check_database(product_config(pooled, "redis://", database_direct_url=direct))
    shown = [(finding.state, finding.text) for finding in well]
    assert ("ok", "a connection pooler is used: nothing is prepared") in shown
    assert ("ok", f"the login {LOGIN} owns nothing, and may take the roles of the service") in shown
    assert ("ok", "workers have a connection of their own") in shown
    wrong = check_database(product_config(pooled, "redis://", database_direct_url=pooled))
    [refusal] = [finding.text for finding in wrong if finding.state == "fix" and "DIRECT" in finding.text]
    assert refusal.startswith("DATABASE_DIRECT_URL must lead to PostgreSQL itself")


def test_rows_of_other_organisations_stay_hidden_in_a_shared_session(service: tuple[str, str]) -> None:
    pooled, _ = service
    engine = make_engine(pooled, 1, role=APP_ROLE)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM organizations").scalar_one() == 0
        with pytest.raises(sqlalchemy.exc.ProgrammingError, match="permission denied"):
            connection.exec_driver_sql("DELETE FROM audit_entries")
    engine.dispose()
