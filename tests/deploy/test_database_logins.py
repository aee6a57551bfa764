"""The roles and logins that are shipped: what each may do, and what a process loses that logs in as the wrong one."""

from collections.abc import Callable

import psycopg
import pytest
import sqlalchemy.exc

from app.commands.doctor import check_database
from app.database import ROLES, make_engine, verify_database
from tests.harness.product import product_config
from tools.embedded import EmbeddedPostgres

pytestmark = pytest.mark.check
OWNER, SERVICE = "change_freeze_owner", "change_freeze_service"


@pytest.fixture
def address_of(shipped_server: EmbeddedPostgres) -> Callable[[str], str]:
    """Return the addresses of the database for its logins."""
    return lambda login: shipped_server.url("change_freeze", login)


def findings(address: str) -> list[tuple[str, str]]:
    """Return what `doctor` finds about a login."""
    found = check_database(product_config(address, "redis://", database_direct_url=address))
    return [(finding.state, finding.text) for finding in found if finding.text.startswith("the login ")]


def test_login_of_the_service_owns_nothing_and_takes_each_role(address_of: Callable[[str], str]) -> None:
    for role in ROLES:
        verify_database(address_of(SERVICE), role)
    with psycopg.connect(address_of(SERVICE)) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM organizations")
    assert findings(address_of(SERVICE)) == [
        ("ok", f"the login {SERVICE} owns nothing, and may take the roles of the service")
    ]


def test_owner_of_the_schema_has_no_right_beyond_it(address_of: Callable[[str], str]) -> None:
    with psycopg.connect(address_of(OWNER)) as connection:
        privileges = "SELECT rolsuper OR rolcreaterole OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
        assert connection.execute(privileges).fetchone() == (False,)


def test_doctor_names_a_login_that_owns_the_schema(address_of: Callable[[str], str]) -> None:
    advice = "use one that owns nothing, as in deploy/postgres/roles.sql (DATABASE_URL)"
    assert findings(address_of(OWNER)) == [("fix", f"the login {OWNER} owns tables: {advice}")]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE freezes DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE freezes NO FORCE ROW LEVEL SECURITY",
        "CREATE POLICY everything ON freezes USING (true)",
        "ALTER TABLE audit_entries DISABLE TRIGGER ALL",
        "TRUNCATE audit_seals",
        "DROP TABLE audit_seals",
        "CREATE TABLE copies AS SELECT * FROM users",
    ],
)
def test_process_that_logs_in_as_the_owner_has_no_right_of_it(
    address_of: Callable[[str], str], role: str, statement: str
) -> None:
    engine = make_engine(address_of(OWNER), 1, role)
    with engine.connect() as connection, pytest.raises(sqlalchemy.exc.ProgrammingError) as refused:
        connection.exec_driver_sql(statement)
    engine.dispose()
    assert isinstance(refused.value.orig, psycopg.errors.InsufficientPrivilege)


def test_other_logins_of_the_server_cannot_connect(address_of: Callable[[str], str]) -> None:
    with psycopg.connect(address_of("postgres"), autocommit=True) as superuser:
        superuser.execute("CREATE ROLE visitor LOGIN")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(address_of("visitor"))
