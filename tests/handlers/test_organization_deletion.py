"""The tag Organization deletion, over HTTP: who may, what is gone at once, and what goes on elsewhere."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from models.freezes import Freeze
from models.identity import Invitation
from models.organizations import User
from rules.ids import new_id
from services.core.tokens import new_session_token, token_hash
from tests import factories
from tests.handlers.callers import EVERYTHING, Caller, Tenant, answered, refusal
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups

PATH = "/api/auth/org/delete"


def signed_in(tenant: Tenant, role: str, *, active: bool = True, support: bool = False) -> Caller:
    """Return a new member with this role, who calls with a session token."""
    user = factories.member(tenant.session, tenant.organization, role, role.title())
    return of(tenant, user, active=active, support=support)


def of(tenant: Tenant, user: User, *, active: bool = True, support: bool = False) -> Caller:
    """Sign a person in."""
    token = new_session_token()
    organization = tenant.organization if active else None
    factories.login(tenant.session, user, organization, support=support, token_hash=token_hash(token))
    return Caller(tenant.http, token)


def delete(caller: Caller, name: str = "Acme", **request: Any) -> httpx.Response:
    return caller.post(PATH, {"name": name}, **request)


def invited(tenant: Tenant) -> str:
    row = Invitation(
        id=new_id("inv"),
        organization_id=tenant.id,
        email="eve@example.com",
        role="member",
        invited_by=factories.SYSTEM,
        created_at=factories.now(),
        expires_at=factories.now() + timedelta(days=7),
    )
    tenant.session.add(row)
    tenant.session.flush()
    return row.id


@pytest.fixture
def owner(acme: Tenant) -> Caller:
    return signed_in(acme, "owner")


class TestDeleteOrganization:
    def test_delete_organization_returns_the_time_of_its_purge(self, acme: Tenant, owner: Caller) -> None:
        shown = answered(delete(owner))
        assert (shown["id"], shown["name"]) == (acme.id, "Acme")
        length = datetime.fromisoformat(shown["purgedAt"]) - datetime.fromisoformat(shown["deletedAt"])
        assert length == timedelta(days=30)

    @pytest.mark.parametrize("name", ["acme", "Acme ", "Globex", "a"])
    def test_delete_organization_requires_the_exact_name(self, acme: Tenant, owner: Caller, name: str) -> None:
        error = refusal(delete(owner, name), 422, "validation_failed")
        assert [detail["path"] for detail in error["details"]] == ["/name"]
        assert acme.key().get("/v1/freezes").status_code == 200

    def test_deleted_organization_is_gone_for_every_caller_at_once(self, acme: Tenant, owner: Caller) -> None:
        key, member, page = acme.key(), acme.person("member"), signed_in(acme, "admin")
        delete(owner)
        for caller in (key, member):
            refusal(caller.get("/v1/freezes"), 410, "organization_deleted")
            refusal(caller.post("/v1/freezes", EVERYTHING), 410, "organization_deleted")
            refusal(caller.get("/v1/freeze-state", repo="acme/web"), 410, "organization_deleted")
        refusal(delete(page), 410, "organization_deleted")
        refusal(delete(owner), 410, "organization_deleted")

    def test_key_revoked_before_the_deletion_is_only_reported_as_invalid(self, acme: Tenant, owner: Caller) -> None:
        revoked = acme.key(revoked_at=factories.now() - timedelta(hours=1))
        delete(owner)
        refusal(revoked.get("/v1/freezes"), 401, "invalid_token")

    def test_deletion_ends_freezes_and_releases_their_branches(
        self, acme: Tenant, owner: Caller, wakeups: RecordedWakeups
    ) -> None:
        branch = factories.branch(acme.session, acme.repository("web"))
        freeze = factories.freeze(acme.session, acme.organization, [branch])
        before = factories.freeze(acme.session, acme.organization, ended_at=factories.now(), end_reason="lifted")
        delete(owner)
        acme.session.expire_all()
        assert acme.session.get_one(Freeze, freeze.id).end_reason == "organization_deleted"
        assert (acme.session.get_one(Freeze, freeze.id).ended_by or {})["name"] == "Owner"
        assert acme.session.get_one(Freeze, before.id).end_reason == "lifted"
        assert acme.session.scalars(text("SELECT operation FROM freeze_targets")).all() == ["release"]
        assert {"reconcile", "mail"} <= set(wakeups.sent)

    def test_deletion_revokes_keys_invitations_and_setups(self, acme: Tenant, owner: Caller) -> None:
        acme.key()
        factories.calendar_feed(acme.session, factories.user(acme.session), acme.organization)
        invited(acme)
        acme.session.execute(
            text(
                "INSERT INTO enforcement_setups (id, organization_id, scope, state, requested_by, created_at, due_at, "
                "state_hash) VALUES ('stp_1', :id, '{}', 'queued', '{}', now(), now(), NULL), "
                "('stp_2', :id, '{}', 'awaiting_authorization', '{}', now(), NULL, 'x'), "
                "('stp_3', :id, '{}', 'done', '{}', now(), NULL, NULL)"
            ),
            {"id": acme.id},
        )
        delete(owner)
        acme.session.expire_all()
        assert acme.session.scalars(text("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL")).one() == 0
        assert acme.session.scalars(text("SELECT count(*) FROM calendar_feeds WHERE revoked_at IS NULL")).one() == 0
        assert acme.session.scalars(text("SELECT count(*) FROM invitations WHERE revoked_at IS NULL")).one() == 0
        rows = acme.session.execute(text("SELECT state, due_at, state_hash FROM enforcement_setups ORDER BY id")).all()
        assert [tuple(row) for row in rows] == [("failed", None, None), ("failed", None, None), ("done", None, None)]

    def test_deletion_is_audited_with_everything_ended(self, acme: Tenant, owner: Caller) -> None:
        factories.freeze(acme.session, acme.organization, [factories.branch(acme.session, acme.repository("web"))])
        delete(owner)
        assert sorted(acme.audit()) == ["freeze.ended", "organization.deleted"]
        row = acme.session.execute(
            text("SELECT actor ->> 'name', target, details FROM audit_entries WHERE action = 'organization.deleted'")
        ).one()
        assert row[0] == "Owner"
        assert row[1] == {"type": "organization", "id": acme.id, "name": "Acme"}
        assert row[2]["before"] == {"deletedAt": None, "purgedAt": None}
        assert set(row[2]["after"]) == {"deletedAt", "purgedAt"}

    def test_deletion_is_mailed_to_the_owners_only(self, acme: Tenant, owner: Caller) -> None:
        signed_in(acme, "admin")
        factories.member(acme.session, acme.organization, "owner", "Grace")
        delete(owner)
        rows = acme.session.execute(text("SELECT recipient, template FROM mails ORDER BY recipient")).all()
        assert [row.recipient.partition("-")[0] for row in rows] == ["grace", "owner"]
        assert {row.template for row in rows} == {"organization_deleted"}

    def test_concurrent_deletions_succeed_once(self, acme: Tenant) -> None:
        both = [signed_in(acme, "owner"), signed_in(acme, "owner")]
        answers = at_once(*[lambda caller=caller: delete(caller) for caller in both])
        assert sorted(answer.status_code for answer in answers) == [200, 410]
        assert acme.audit().count("organization.deleted") == 1

    def test_deletion_changes_nothing_of_another_organization(
        self, acme: Tenant, globex: Tenant, owner: Caller
    ) -> None:
        branch = factories.branch(acme.session, globex.repository("site"))
        factories.freeze(acme.session, globex.organization, [branch])
        key = globex.key()
        invited(globex)
        before = everything_of(acme.session, globex)
        delete(owner)
        assert everything_of(acme.session, globex) == before
        assert key.get("/v1/freezes").json()["data"][0]["state"] == "in_force"

    def test_member_of_only_a_deleted_organization_may_create_another(self, acme: Tenant, owner: Caller) -> None:
        person = factories.member(acme.session, acme.organization, "owner")
        nowhere = Caller(acme.http, factories.session_token(acme.session, person, None))
        refusal(nowhere.get("/v1/freezes"), 403, "no_organization_selected")
        delete(owner)
        refusal(nowhere.get("/v1/freezes"), 403, "organization_not_provisioned")
        answer = nowhere.post("/v1/onboarding/bootstrap", {"name": "Acme again"})
        assert (answer.status_code, answer.json()["name"]) == (200, "Acme again"), answer.text
        assert answer.json()["id"] != acme.id


def everything_of(session: Session, tenant: Tenant) -> dict[str, list[Any]]:
    """Return all rows of an organisation."""
    tables = session.scalars(
        text("SELECT table_name FROM information_schema.columns WHERE column_name = 'organization_id'")
    ).all()
    return {
        table: list(
            session.scalars(
                text(f"SELECT t::text FROM {table} t WHERE organization_id = :id ORDER BY 1"), {"id": tenant.id}
            )
        )
        for table in tables
    }
