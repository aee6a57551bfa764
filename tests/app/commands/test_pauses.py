"""The operator's command that shows the installations which GitHub limits, and ends a pause."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from app.commands.pauses import main
from models.installations import Installation
from models.organizations import Organization
from tests import factories

END = ("--end", "--by", "grace@example.com")
SINCE = datetime(2027, 1, 4, 8, tzinfo=UTC)


@pytest.fixture
def paused(session: Session, acme: Organization) -> Installation:
    until = factories.now() + timedelta(hours=1)
    found = factories.installation(session, acme, "acme", paused_until=until, paused_since=SINCE)
    session.commit()
    return found


def test_pauses_shows_the_installations_that_are_paused(
    session: Session, paused: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    factories.installation(session, None, "globex", paused_until=factories.now() - timedelta(hours=1))
    session.commit()
    assert main([]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{paused.id} (acme) is paused since 2027-01-04T08:00:00Z until 20")


def test_pause_is_ended_and_the_audit_log_names_the_operator(
    session: Session, acme: Organization, paused: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(paused.id), *END]) == 0
    assert capsys.readouterr().err.startswith(f"Ended: {paused.id} (acme) is paused since")
    session.expire_all()
    assert paused.paused_until is not None
    assert paused.paused_until <= factories.now() + timedelta(seconds=5)
    [entry] = factories.audit_entries(session, "installation.resumed")
    assert (entry.organization_id, entry.actor["name"]) == (acme.id, "grace@example.com")
    assert entry.details["after"] == {"pausedUntil": None}
    assert main([]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("given", "problem"), [("1", "is unknown"), (None, "is not paused")])
def test_pause_that_is_not_there_cannot_be_ended(
    session: Session, acme: Organization, given: str | None, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    active = factories.installation(session, acme, "acme", id=4711)
    session.commit()
    assert main([given or str(active.id), *END]) == 1
    assert problem in capsys.readouterr().err


def test_pause_of_an_account_without_an_organisation_is_ended(session: Session) -> None:
    found = factories.installation(session, None, "globex", paused_until=factories.now() + timedelta(hours=1))
    session.commit()
    assert main([str(found.id), *END]) == 0
