"""Operations of the tag Sign-in on sessions that are open: where they act, which there are, ending one; the keys."""

from collections.abc import Callable

import jwt
import pytest
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWorkFactory
from services.identity.signing_keys import PUBLISH_BEFORE, SIGNING_PERIOD, VERIFICATION_PERIOD
from services.maintenance.tasks import rotate_keys
from tests import factories
from tests.handlers.accounts import HERE, Client
from tests.handlers.callers import Tenant, refusal
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.passwords import account
from tests.harness.wakeups import RecordedWakeups

Later = Callable[..., None]


@pytest.fixture
def eve(visitor: Client, acme: Tenant, globex: Tenant) -> Client:
    """Return a program that has signed in as a member of both organisations."""
    return visitor.signed_in(account(acme.session, "Eve", acme.organization, globex.organization))


class TestSetActiveOrganization:
    def test_chosen_organization_applies_to_the_next_access_token_only(
        self, eve: Client, acme: Tenant, globex: Tenant
    ) -> None:
        chosen = eve.auth("org/set-active", organizationId=acme.id)
        assert (chosen.status_code, chosen.json()["organizationId"]) == (200, acme.id)
        before = eve.jwt()
        eve.auth("org/set-active", organizationId=globex.id)
        minted = [jwt.decode(token, options={"verify_signature": False})["org"] for token in (before, eve.jwt())]
        assert minted == [acme.id, globex.id]
        assert (eve.calls(before), eve.calls()) == (200, 200)

    def test_choice_is_audited_in_the_chosen_organization_only(self, eve: Client, acme: Tenant, globex: Tenant) -> None:
        before = globex.audit()
        eve.auth("org/set-active", organizationId=acme.id)
        assert acme.audit()[-1] == "session.organization_chosen"
        assert globex.audit() == before

    def test_choice_of_an_organization_leaves_other_sessions_unchanged(
        self, visitor: Client, acme: Tenant, globex: Tenant
    ) -> None:
        user = account(acme.session, "Eve", acme.organization, globex.organization)
        one, other = visitor.signed_in(user), visitor.signed_in(user)
        one.auth("org/set-active", organizationId=acme.id)
        assert other.get("/api/auth/token").json()["organizationId"] is None

    def test_foreign_and_unknown_organizations_are_alike_not_found(self, session: Session, eve: Client) -> None:
        foreign = factories.organization(session, "Initech").id
        for unknown in (foreign, "org_00000000000000000000000000", "usr_1", "x"):
            refusal(eve.auth("org/set-active", organizationId=unknown), 404, "not_found")

    def test_choice_of_a_deleted_organization_is_gone(self, eve: Client, acme: Tenant) -> None:
        acme.organization.deleted_at = factories.now()
        acme.session.flush()
        refusal(eve.auth("org/set-active", organizationId=acme.id), 410, "organization_deleted")

    def test_choice_by_cookie_requires_the_same_origin(self, visitor: Client, eve: Client, acme: Tenant) -> None:
        browser = Client(visitor.http)
        browser.sign_in(account(acme.session, "Ada", acme.organization).email)
        body = {"organizationId": acme.id}
        refusal(browser.post("/api/auth/org/set-active", body), 403, "origin_not_allowed")
        for headers in ({"Origin": HERE}, {"Sec-Fetch-Site": "same-origin"}):
            assert browser.post("/api/auth/org/set-active", body, headers=headers).status_code == 200


class TestListSessions:
    def test_list_sessions_returns_active_sessions_newest_first(
        self, visitor: Client, session: Session, later: Later
    ) -> None:
        user = account(session)
        first, second, third = (visitor.signed_in(user) for _ in range(3))
        visitor.signed_in(account(session, "Ada"))
        second.post("/api/auth/sign-out")
        factories.login(session, user, None, support=True)
        third.jwt()
        listed = first.get("/api/auth/sessions").json()["data"]
        assert [(row["current"], row["lastUsedAt"] is not None) for row in listed] == [(False, True), (True, False)]
        later(days=31)
        again = visitor.signed_in(user)
        assert [row["current"] for row in again.get("/api/auth/sessions").json()["data"]] == [True]

    def test_list_sessions_shows_no_token(self, eve: Client) -> None:
        assert "svc_session" not in eve.get("/api/auth/sessions").text


class TestRevokeSession:
    def test_revoke_session_ends_another_session_of_the_person(self, visitor: Client, acme: Tenant) -> None:
        user = account(acme.session, "Eve", acme.organization)
        mine, lost = visitor.signed_in(user), visitor.signed_in(user)
        minted = lost.jwt()
        [theirs] = [row for row in mine.get("/api/auth/sessions").json()["data"] if not row["current"]]
        assert mine.delete(f"/api/auth/sessions/{theirs['id']}").status_code == 204
        assert lost.calls(minted) == 401
        assert mine.calls() == 200
        refusal(mine.delete(f"/api/auth/sessions/{theirs['id']}"), 404, "not_found")
        assert acme.audit() == ["session.started", "session.started", "session.ended"]

    def test_revoke_session_is_not_found_when_foreign_or_unknown(
        self, visitor: Client, eve: Client, acme: Tenant
    ) -> None:
        user = account(acme.session, "Ada", acme.organization)
        ada = visitor.signed_in(user)
        [theirs] = ada.get("/api/auth/sessions").json()["data"]
        support = factories.login(acme.session, user, acme.organization, support=True).id
        for unknown in (theirs["id"], "ses_00000000000000000000000000", "x"):
            refusal(eve.delete(f"/api/auth/sessions/{unknown}"), 404, "not_found")
        refusal(ada.delete(f"/api/auth/sessions/{support}"), 404, "not_found")
        assert ada.calls() == 200


class TestGetJwks:
    @pytest.fixture
    def sweep(self, database: str, clock: MovableClock, wakeups: RecordedWakeups) -> Callable[[], bool]:
        engine = engine_of(database, WORKER_ROLE)
        uow_factory = UnitOfWorkFactory(engine, clock, wakeups, Ports(SecretKey(factories.SECRET_KEY.encode())))
        return lambda: rotate_keys(uow_factory)

    def published(self, eve: Client) -> list[str]:
        answer = eve.http.get("/.well-known/jwks.json")
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert "no-store" not in answer.headers["Cache-Control"]
        keys = answer.json()["keys"]
        assert not any("d" in key for key in keys)
        return [key["kid"] for key in keys]

    def test_jwks_is_empty_before_the_first_sign_in(self, visitor: Client, session: Session) -> None:
        assert self.published(visitor) == []

    def test_access_tokens_stay_valid_and_their_keys_published_during_rotation(
        self, visitor: Client, acme: Tenant, later: Later, sweep: Callable[[], bool]
    ) -> None:
        user = account(acme.session, "Eve", acme.organization)
        first = kid_of(visitor.signed_in(user).jwt())
        later(days=(SIGNING_PERIOD - PUBLISH_BEFORE).days, seconds=5)
        sweep()
        eve = visitor.signed_in(user)
        second, known = self.published(eve)
        assert (kid_of(eve.jwt()), known) == (first, first)
        later(days=PUBLISH_BEFORE.days, seconds=-10)
        last_of_first = eve.jwt()
        assert kid_of(last_of_first) == first
        later(seconds=20)
        assert kid_of(eve.jwt()) == second
        sweep()
        assert (eve.calls(last_of_first), eve.calls()) == (200, 200)
        assert self.published(eve) == [second, first]
        later(seconds=VERIFICATION_PERIOD.total_seconds())
        sweep()
        assert self.published(eve) == [second]
        assert eve.calls() == 200


def kid_of(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])
