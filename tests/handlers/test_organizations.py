"""Operations of the tag Organizations."""

from datetime import timedelta

import httpx
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.organizations import Membership, Organization
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.people import member, newcomer, sign_ins, signed_in
from tests.harness.concurrency import at_once

BOOTSTRAP = "/v1/onboarding/bootstrap"


def delete(session: Session, organization: Organization) -> None:
    organization.deleted_at = factories.now()
    session.flush()


"""The settings of a new organisation."""


class TestGetMe:
    def test_get_me_shows_every_field(self, acme: Tenant) -> None:
        grace = member(acme, "admin")
        reported = grace.caller.get("/v1/me").json()
        assert reported.pop("createdAt").endswith("Z")
        assert reported == {
            "id": grace.id,
            "name": "Grace Hopper",
            "email": grace.user.email,
            "emailVerified": True,
            "support": False,
            "organization": {
                "id": acme.id,
                "name": "Acme",
                "slug": acme.organization.slug,
                "plan": "business",
                "role": "admin",
                "settings": {"approval": "admin", "selfApproval": False, "timezone": "UTC", "checkText": "full"},
            },
        }

    def test_get_me_shows_no_organization_to_a_newcomer(self, session: Session, http: httpx.Client) -> None:
        assert newcomer(session, http).caller.get("/v1/me").json()["organization"] is None

    def test_get_me_chooses_none_of_several_organizations(
        self, acme: Tenant, globex: Tenant, http: httpx.Client
    ) -> None:
        grace = member(acme)
        factories.membership(acme.session, globex.organization, grace.user)
        undecided = signed_in(acme.session, http, grace.user, None)
        assert undecided.caller.get("/v1/me").json()["organization"] is None

    def test_get_me_hides_a_deleted_organization(self, acme: Tenant) -> None:
        grace = member(acme)
        delete(acme.session, acme.organization)
        assert grace.caller.get("/v1/me").json()["organization"] is None

    def test_get_me_shows_a_support_session_without_a_role(self, acme: Tenant) -> None:
        acme_alone = acme.support.get("/v1/me").json()
        assert acme_alone["support"] is True
        assert acme_alone["organization"]["id"] == acme.id
        assert acme_alone["organization"]["role"] is None


class TestListMyOrganizations:
    def test_list_my_organizations_returns_the_last_joined_first(self, acme: Tenant, globex: Tenant) -> None:
        grace = member(acme)
        joined = factories.membership(acme.session, globex.organization, grace.user, "viewer")
        joined.created_at += timedelta(hours=1)
        acme.session.flush()
        shown = grace.caller.get("/v1/me/organizations").json()["data"]
        assert [(row["id"], row["role"], row["active"]) for row in shown] == [
            (globex.id, "viewer", False),
            (acme.id, "member", True),
        ]
        assert shown[0]["name"] == "Globex"
        assert shown[0]["plan"] == "free"
        assert shown[0]["joinedAt"].endswith("Z")

    def test_list_my_organizations_omits_deleted_organizations(self, acme: Tenant, globex: Tenant) -> None:
        grace = member(acme)
        factories.membership(acme.session, globex.organization, grace.user)
        delete(acme.session, globex.organization)
        assert [row["id"] for row in grace.caller.get("/v1/me/organizations").json()["data"]] == [acme.id]

    def test_list_my_organizations_shows_a_support_session_only_its_own(
        self, acme: Tenant, globex: Tenant, http: httpx.Client
    ) -> None:
        grace = member(acme)
        factories.membership(acme.session, globex.organization, grace.user)
        token = factories.session_token(acme.session, grace.user, acme.organization, support=True)
        support = Caller(http, token)
        shown = support.get("/v1/me/organizations").json()
        assert [(row["id"], row["role"]) for row in shown["data"]] == [(acme.id, None)]


class TestBootstrapOrganization:
    def test_bootstrap_organization_makes_a_newcomer_its_owner(self, session: Session, http: httpx.Client) -> None:
        eve = newcomer(session, http)
        reported = answered(eve.caller.post(BOOTSTRAP))
        assert reported.pop("createdAt").endswith("Z")
        organization_id = reported.pop("id")
        assert reported == {
            "name": "Eve's organisation",
            "slug": "eves-organisation",
            "plan": "free",
            "settings": {"approval": "admin", "selfApproval": False, "timezone": "UTC", "checkText": "full"},
            "installationId": None,
            "deletedAt": None,
        }
        assert session.get_one(Membership, (organization_id, eve.id)).role == "owner"
        [entry] = factories.audit_entries(session)
        assert (entry.action, entry.organization_id) == ("organization.created", organization_id)
        assert entry.actor == {"type": "user", "id": eve.id, "name": "Eve Ernst"}

    def test_bootstrapped_organization_is_active_in_the_next_access_token(
        self, session: Session, http: httpx.Client
    ) -> None:
        eve = newcomer(session, http)
        refusal(eve.caller.get("/v1/orgs/current"), 403, "organization_not_provisioned")
        made = eve.caller.post(BOOTSTRAP).json()
        refusal(eve.caller.get("/v1/orgs/current"), 403, "no_organization_selected")
        assert sign_ins(session, eve) == {made["id"]: 1}
        organization = session.get_one(Organization, made["id"])
        assert signed_in(session, http, eve.user, organization).caller.get("/v1/orgs/current").json() == made

    def test_bootstrap_organization_accepts_a_name_and_makes_its_slug_unique(
        self, acme: Tenant, http: httpx.Client
    ) -> None:
        acme.organization.slug = "initech-gmbh"
        acme.session.flush()
        made = newcomer(acme.session, http).caller.post(BOOTSTRAP, {"name": "Initech GmbH"}).json()
        assert made["name"] == "Initech GmbH"
        assert made["slug"].startswith("initech-gmbh-")

    def test_repeated_bootstrap_returns_the_same_organization(self, session: Session, http: httpx.Client) -> None:
        eve = newcomer(session, http)
        first = eve.caller.post(BOOTSTRAP).json()
        assert eve.caller.post(BOOTSTRAP, {"name": "Another"}).json() == first
        assert session.scalar(select(func.count()).select_from(Organization)) == 1

    def test_another_organization_is_created_and_selected(self, session: Session, http: httpx.Client) -> None:
        eve = newcomer(session, http)
        first = eve.caller.post(BOOTSTRAP).json()
        other = eve.caller.post(BOOTSTRAP, {"name": "Initech", "another": True, "timezone": "Europe/Berlin"}).json()
        assert other["id"] != first["id"]
        assert other["settings"]["timezone"] == "Europe/Berlin"
        assert sign_ins(session, eve) == {other["id"]: 1}

    def test_bootstrap_in_an_unknown_time_zone_is_refused(self, session: Session, http: httpx.Client) -> None:
        answer = newcomer(session, http).caller.post(BOOTSTRAP, {"timezone": "Mars/Olympus"})
        refusal(answer, 422, "invalid_timezone")

    def test_concurrent_bootstraps_create_one_organization(self, session: Session, http: httpx.Client) -> None:
        eve = newcomer(session, http)
        made = at_once(*[lambda: eve.caller.post(BOOTSTRAP)] * 4)
        assert {answer.status_code for answer in made} == {200}
        assert len({answer.json()["id"] for answer in made}) == 1
        assert session.scalar(select(func.count()).select_from(Organization)) == 1

    def test_bootstrap_returns_the_active_or_first_joined_organization(
        self, acme: Tenant, globex: Tenant, http: httpx.Client
    ) -> None:
        grace = member(acme)
        factories.membership(acme.session, globex.organization, grace.user).created_at += timedelta(hours=1)
        acme.session.flush()
        active = signed_in(acme.session, http, grace.user, globex.organization)
        assert active.caller.post(BOOTSTRAP).json()["id"] == globex.id
        undecided = signed_in(acme.session, http, grace.user, None)
        assert undecided.caller.post(BOOTSTRAP).json()["id"] == acme.id
        assert sign_ins(acme.session, grace) == {None: 1, acme.id: 2, globex.id: 1}
        assert acme.audit() == globex.audit() == []

    def test_bootstrap_rejects_an_invalid_name(self, session: Session, http: httpx.Client) -> None:
        cases: list[object] = ["", " ", " Acme", "x" * 101, "a\nb", None, 7]
        for name in cases:
            refusal(newcomer(session, http).caller.post(BOOTSTRAP, {"name": name}), 422, "validation_failed")


class TestGetCurrentOrganization:
    def test_get_current_organization_shows_every_field(self, acme: Tenant) -> None:
        acme.organization.settings = {"timezone": "Europe/Rome"}
        acme.session.flush()
        reported = acme.key("repo:read").get("/v1/orgs/current").json()
        assert reported.pop("createdAt").endswith("Z")
        assert reported == {
            "id": acme.id,
            "name": "Acme",
            "slug": acme.organization.slug,
            "plan": "business",
            "settings": {"approval": "admin", "selfApproval": False, "timezone": "Europe/Rome", "checkText": "full"},
            "installationId": acme.installation.id,
            "deletedAt": None,
        }

    def test_get_current_organization_omits_a_removed_installation(self, acme: Tenant) -> None:
        acme.installation.state = "removed"
        acme.session.flush()
        assert acme.key().get("/v1/orgs/current").json()["installationId"] is None


class TestUpdateCurrentOrganization:
    path = "/v1/orgs/current"

    def test_update_current_organization_changes_only_the_given_fields(self, acme: Tenant, globex: Tenant) -> None:
        acme.organization.settings = {"selfApproval": True}
        acme.session.flush()
        changed = acme.person("admin").patch(self.path, {"settings": {"timezone": "Europe/London"}}).json()
        assert changed["name"] == "Acme"
        assert changed["settings"] == {
            "approval": "admin",
            "selfApproval": True,
            "timezone": "Europe/London",
            "checkText": "full",
        }
        body = {"name": "Acme Corporation", "settings": {"approval": "member", "selfApproval": False}}
        changed = acme.person("admin").patch(self.path, body).json()
        assert changed["name"] == "Acme Corporation"
        assert changed["slug"] == acme.organization.slug
        assert changed["settings"] == {
            "approval": "member",
            "selfApproval": False,
            "timezone": "Europe/London",
            "checkText": "full",
        }
        assert acme.key().get(self.path).json() == changed
        assert globex.key().get(self.path).json()["name"] == "Globex"

    def test_update_of_the_organization_is_audited_with_both_values(self, acme: Tenant) -> None:
        acme.person("admin").patch(self.path, {"name": "Acme Corporation"})
        [entry] = factories.audit_entries(acme.session)
        assert entry.action == "organization.updated"
        assert entry.target == {"type": "organization", "id": acme.id, "name": "Acme Corporation"}
        assert entry.details == {"before": {"name": "Acme"}, "after": {"name": "Acme Corporation"}}

    def test_update_of_settings_is_audited_with_the_changed_settings_only(self, acme: Tenant) -> None:
        acme.person("admin").patch(self.path, {"settings": {"timezone": "Europe/London", "approval": "admin"}})
        [entry] = factories.audit_entries(acme.session)
        assert entry.details["after"] == {"settings": {"timezone": "Europe/London"}}

    def test_update_current_organization_rejects_an_unknown_timezone(self, acme: Tenant) -> None:
        for zone in ("Mars/Olympus", "", "europe/london", "../etc/passwd", 7):
            answer = acme.person("admin").patch(self.path, {"settings": {"timezone": zone}})
            error = refusal(answer, 422, "invalid_timezone")
            assert [row["path"] for row in error["details"]] == ["/settings/timezone"]
            assert acme.audit() == []
