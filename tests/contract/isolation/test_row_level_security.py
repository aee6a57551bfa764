"""I8 in the database: its own rules keep an organisation's rows from all others, whatever a statement selects."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql as composing

from app.database import make_engine
from models.base import Base
from tests.contract.isolation.table_owners import NEVER_SEEN, WITHOUT_OWNER, owned_tables, rows_of
from tests.harness.tenant_fixtures import TenantFixture

OUT_OF_REACH = (
    "SELECT password_hash FROM users",
    "UPDATE users SET name = 'x'",
    "SELECT * FROM mails",
    "SELECT * FROM device_authorizations",
    "SELECT * FROM oauth_clients",
    "UPDATE oauth_grants SET scopes = '{}'",
    "INSERT INTO oauth_grants SELECT * FROM oauth_grants",
    "SELECT * FROM throttled_attempts",
    "SELECT * FROM sessions",
    "SELECT encrypted_private_key FROM signing_keys",
    "SELECT payload FROM webhook_deliveries",
    "UPDATE webhook_deliveries SET payload = '{}'",
    "DELETE FROM webhook_deliveries",
    "UPDATE webhook_log SET since = now()",
    "DELETE FROM webhook_log",
    "UPDATE periodic_tasks SET done_at = now()",
    "SET ROLE change_freeze_worker",
    "SET ROLE change_freeze_identity",
    "ALTER TABLE freezes DISABLE ROW LEVEL SECURITY",
    "UPDATE audit_entries SET action = 'x'",
    "DELETE FROM audit_entries",
    "DELETE FROM plan_grants",
    "UPDATE plan_grants SET plan = 'business', until = NULL",
    "INSERT INTO plan_grants SELECT id, 'stripe', '', 'business', NULL, now() FROM organizations",
    "DELETE FROM used_trials",
    "UPDATE stripe_subscriptions SET plan = 'business'",
    "DELETE FROM stripe_subscriptions",
    "UPDATE stripe_prices SET unit_amount = 0",
    "UPDATE stripe_catalogues SET due_at = NULL",
    "UPDATE used_trials SET used_at = now()",
    "DELETE FROM trial_hash_keys",
)
"""What the API's own role may not do, whatever organisation it is bound to."""


class TestRowLevelSecurity:
    @pytest.fixture
    def as_us(self, database: str, ours: TenantFixture, theirs: TenantFixture) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection of the API's own role, bound to our organisation; `theirs` has rows in every table."""
        engine = make_engine(database, 1)
        pooled = engine.raw_connection()
        connection = pooled.driver_connection
        assert isinstance(connection, psycopg.Connection)
        connection.autocommit = True
        connection.execute("SET ROLE change_freeze_app")
        connection.execute("SELECT set_config('app.organization_id', %s, false)", (ours.organization.id,))
        yield connection
        pooled.invalidate()
        engine.dispose()

    def test_row_level_security_is_forced_on_every_table_with_owned_rows(self, sql: psycopg.Connection[Any]) -> None:
        rows = sql.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT (relrowsecurity AND relforcerowsecurity)"
        ).fetchall()
        assert {name for (name,) in rows} == WITHOUT_OWNER | {"alembic_version"}

    def test_isolation_fixture_has_rows_in_every_table(
        self, sql: psycopg.Connection[Any], theirs: TenantFixture
    ) -> None:
        assert [table for table, rows in rows_of(sql, theirs.organization.id).items() if not rows] == []

    def test_row_level_security_hides_and_protects_foreign_rows(
        self, as_us: psycopg.Connection[Any], sql: psycopg.Connection[Any], theirs: TenantFixture
    ) -> None:
        before = rows_of(sql, theirs.organization.id)
        for table, column in owned_tables().items():
            name, whose = composing.Identifier(table), composing.Identifier(column)
            query = composing.SQL("SELECT DISTINCT {} FROM {}").format(whose, name)
            with pytest.raises(psycopg.errors.InsufficientPrivilege) if table in NEVER_SEEN else nullcontext():
                assert (theirs.organization.id,) not in as_us.execute(query).fetchall(), table
            for statement in ("UPDATE {name} SET {whose} = {whose}", "DELETE FROM {name} WHERE {whose} = {theirs}"):
                written = composing.SQL(statement).format(
                    name=name, whose=whose, theirs=composing.Literal(theirs.organization.id)
                )
                with suppress(psycopg.errors.InsufficientPrivilege):  # the role may have no such right at all
                    as_us.execute(written)
        assert rows_of(sql, theirs.organization.id) == before

    def test_row_level_security_rejects_new_rows_of_another_organization(
        self, as_us: psycopg.Connection[Any], sql: psycopg.Connection[Any], theirs: TenantFixture
    ) -> None:
        before = rows_of(sql, theirs.organization.id)
        for table, column in owned_tables().items():
            [row, *_] = before[table]
            name, whose = composing.Identifier(table), composing.Identifier(column)
            given = (one.name for one in Base.metadata.tables[table].columns if one.computed is None)
            columns = composing.SQL(", ").join(map(composing.Identifier, given))
            query = "INSERT INTO {n} ({columns}) SELECT {columns} FROM json_populate_record(NULL::{n}, %s)"
            again = composing.SQL(query).format(n=name, columns=columns)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_us.execute(again, (row,))
            given_away = composing.SQL("UPDATE {} SET {} = %s").format(name, whose)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_us.execute(given_away, (theirs.organization.id,))
        assert rows_of(sql, theirs.organization.id) == before

    def test_row_level_security_shows_only_members_among_users(
        self, as_us: psycopg.Connection[Any], ours: TenantFixture
    ) -> None:
        shown = as_us.execute("SELECT id FROM users").fetchall()
        assert shown == as_us.execute("SELECT user_id FROM memberships").fetchall() != []

    def test_row_level_security_shows_nothing_without_an_organization(self, as_us: psycopg.Connection[Any]) -> None:
        for no_one in ("", "org_00000000000000000000000000"):
            as_us.execute("SELECT set_config('app.organization_id', %s, false)", (no_one,))
            for table in owned_tables().keys() - NEVER_SEEN:
                query = composing.SQL("SELECT count(*) FROM {}").format(composing.Identifier(table))
                assert as_us.execute(query).fetchone() == (0,), table

    def test_application_role_cannot_bypass_row_level_security(self, as_us: psycopg.Connection[Any]) -> None:
        for query in OUT_OF_REACH:
            if query.startswith("SET ROLE"):
                as_us.execute("SET SESSION AUTHORIZATION change_freeze_app")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_us.execute(query)
