"""The operator's command that changes a plan."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.commands.plan import main, read_arguments
from models.audit import AuditEntry
from models.organizations import Organization
from tests import factories
from tests.harness.product import address_of
from tests.harness.sessions import committing


@pytest.fixture
def session(
    database: str, shared_database: psycopg.Connection, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    """Open a session on the database of the command."""
    monkeypatch.setenv("DATABASE_URL", address_of(shared_database))
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("SECRET_KEY", factories.SECRET_KEY)
    with committing(database) as session:
        yield session


@pytest.fixture
def acme(session: Session) -> Organization:
    return factories.organization(session, plan="free")


def plan_of(session: Session, organization: Organization) -> str:
    return session.get_one(Organization, organization.id, populate_existing=True).plan


def test_plan_is_changed_and_audited(session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([acme.slug, "team", "--by", " grace@example.com "]) == 0
    assert capsys.readouterr().err == f"Acme ({acme.id}) was on the plan free and is on team now.\n"
    assert plan_of(session, acme) == "team"
    entry = session.scalars(select(AuditEntry)).one()
    assert (entry.action, entry.organization_id, entry.source) == ("organization.plan_changed", acme.id, "system")
    assert (entry.actor["type"], entry.actor["name"]) == ("support", "grace@example.com")
    assert entry.target == {"type": "organization", "id": acme.id, "name": "Acme"}
    assert entry.details == {"before": {"plan": "free"}, "after": {"plan": "team"}}


def test_plan_change_without_operator_is_audited_as_the_service(session: Session, acme: Organization) -> None:
    assert main([acme.id, "business"]) == 0
    assert plan_of(session, acme) == "business"
    assert session.scalars(select(AuditEntry.actor)).one()["type"] == "system"


def test_plan_change_is_rejected_if_unchanged_unknown_or_deleted(
    session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = factories.organization(session, "Gone")
    gone.deleted_at = factories.now()
    session.flush()
    for name, plan, message in (
        (acme.slug, "free", "is already on the free plan"),
        ("nothing", "team", "Organisation 'nothing' not found"),
        (gone.slug, "team", "has been deleted"),
    ):
        assert main([name, plan]) == 1
        assert message in capsys.readouterr().err
    assert session.scalars(select(AuditEntry)).all() == []


@pytest.mark.parametrize("arguments", [[], ["acme"], ["acme", "platinum"], ["acme", "team", "--by", ""]], ids=str)
def test_plan_command_with_invalid_arguments_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(arguments)
    assert ended.value.code == 2


def test_plan_command_without_configuration_ends_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert main(["acme", "team"]) == 3
    assert "DATABASE_URL is required" in capsys.readouterr().err
