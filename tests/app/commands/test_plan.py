"""The operator's command that grants, ends and shows plans."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.commands.plan import main
from models.audit import AuditEntry
from models.organizations import Organization
from tests import factories


@pytest.fixture
def acme(session: Session) -> Organization:
    return factories.organization(session, plan="free")


def plan_of(session: Session, organization: Organization) -> str:
    session.expire_all()
    return factories.grants_of(session, organization).at(factories.now()).plan.id


def last_details(session: Session) -> dict[str, Any]:
    entries = session.scalars(select(AuditEntry).order_by(AuditEntry.at.desc(), AuditEntry.id.desc()))
    return entries.all()[0].details


NO_PLAN = {"plan": "free", "source": "none", "until": None}


def test_plan_is_granted_and_audited(session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([acme.slug, "team", "--by", " grace@example.com "]) == 0
    assert capsys.readouterr().err == f"Acme ({acme.id}) has the plan team (manual).\n  manual: team\n"
    assert plan_of(session, acme) == "team"
    [entry] = factories.audit_entries(session)
    assert (entry.action, entry.organization_id, entry.source) == ("organization.plan_changed", acme.id, "system")
    assert (entry.actor["type"], entry.actor["name"]) == ("support", "grace@example.com")
    assert entry.target == {"type": "organization", "id": acme.id, "name": "Acme"}
    after = {"plan": "team", "source": "manual", "until": None}
    assert entry.details == {"before": NO_PLAN, "after": after, "grant": {"plan": "team", "until": None}}


def test_plan_granted_without_operator_is_audited_as_the_service(session: Session, acme: Organization) -> None:
    assert main([acme.id, "business"]) == 0
    assert plan_of(session, acme) == "business"
    assert session.scalars(select(AuditEntry.actor)).one()["type"] == "system"


@pytest.mark.parametrize(
    ("text", "until"),
    [("2999-01-31", "2999-01-31T00:00:00Z"), ("2999-01-31T12:30:00+02:00", "2999-01-31T10:30:00Z")],
)
def test_plan_is_granted_until_an_instant(session: Session, acme: Organization, text: str, until: str) -> None:
    assert main([acme.slug, "business", "--until", text]) == 0
    assert last_details(session)["after"] == {"plan": "business", "source": "manual", "until": until}


def test_plan_granted_again_replaces_the_earlier_grant(session: Session, acme: Organization) -> None:
    assert main([acme.slug, "business", "--until", "2999-01-31"]) == 0
    assert main([acme.slug, "team"]) == 0
    assert plan_of(session, acme) == "team"
    assert last_details(session)["grant"] == {"plan": "team", "until": None}


def test_manual_plan_is_ended_and_audited(
    session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([acme.slug, "business"]) == 0
    assert main([acme.slug, "--end", "--by", "grace@example.com"]) == 0
    assert plan_of(session, acme) == "free"
    assert last_details(session)["after"] == NO_PLAN
    assert main([acme.slug, "--end"]) == 1
    assert "has no manual plan" in capsys.readouterr().err


def test_ending_the_manual_plan_leaves_a_running_trial(session: Session, acme: Organization) -> None:
    factories.grant(session, acme, "business", "trial", until=factories.now() + timedelta(days=3))
    assert main([acme.slug, "team"]) == 0
    assert plan_of(session, acme) == "business"
    assert main([acme.slug, "--end"]) == 0
    assert plan_of(session, acme) == "business"


def test_plans_are_listed_as_text_and_as_json(
    session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    globex = factories.organization(session, "Globex", plan="team")
    gone = factories.organization(session, "Gone")
    gone.deleted_at = factories.now()
    session.flush()
    assert main([]) == 0
    assert capsys.readouterr().out == f"Globex ({globex.id}) has the plan team (manual).\n  manual: team\n"
    assert main([acme.slug]) == 0
    assert capsys.readouterr().out == f"Acme ({acme.id}) has the plan free.\n"
    assert main([globex.id, "--json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)
    [granted] = shown.pop("grants")
    assert shown == {
        "organization": {"id": globex.id, "slug": globex.slug, "name": "Globex"},
        "plan": "team",
        "source": "manual",
        "until": None,
    }
    assert granted.pop("createdAt")
    assert granted == {"source": "manual", "reference": "", "plan": "team", "until": None}


def test_plan_change_is_rejected_if_it_changes_nothing_or_cannot_be(
    session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = factories.organization(session, "Gone")
    gone.deleted_at = factories.now()
    globex = factories.organization(session, "Globex", plan="team")
    session.flush()
    for arguments, message in (
        ([acme.slug, "free"], "Every organisation has the free plan"),
        ([globex.slug, "team"], "has this grant already"),
        ([acme.slug, "team", "--until", "2020-01-31"], "in the past"),
        (["nothing", "team"], "Organisation 'nothing' not found"),
        ([gone.slug, "team"], "has been deleted"),
    ):
        assert main(arguments) == 1
        assert message in capsys.readouterr().err
    assert factories.audit_entries(session) == []


def test_plan_below_the_default_is_granted(
    session: Session, acme: Organization, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEFAULT_PLAN", "business")
    assert main([acme.slug, "free"]) == 0
    assert "has the plan free (manual)" in capsys.readouterr().err
