"""Joining by a mailed link: it proves the mailbox, creates an account, and never gives access to one that exists."""

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import Membership, User
from tests import factories
from tests.handlers.accounts import OTHER, Client, accounts, confirmed
from tests.handlers.callers import Tenant, answered, refusal
from tests.handlers.invitations.requests import GRACE, INVITATIONS, link, mailed
from tests.handlers.people import Person
from tests.harness.concurrency import at_once
from tests.harness.mails import mailed_token, token_of
from tests.harness.passwords import PASSWORD, account

Later = Callable[..., None]
ADDRESS = GRACE["email"]


@pytest.fixture
def invitation(acme: Tenant) -> str:
    return str(answered(acme.person("owner").post(INVITATIONS, {"email": ADDRESS, "role": "viewer"}), 201)["id"])


@pytest.fixture
def token(invitation: str, session: Session) -> str:
    return token_of(mailed(session)["url"])


@pytest.fixture
def visitor(http: httpx.Client) -> Client:
    return Client(http)


def join(client: Client, token: str, **fields: str) -> httpx.Response:
    return client.auth("join", **{"token": token, "name": "Grace Hopper", "password": PASSWORD, **fields})


def members(session: Session, acme: Tenant) -> list[tuple[str, str]]:
    query = select(User.email, Membership.role).join(Membership, Membership.user_id == User.id)
    query = query.where(Membership.organization_id == acme.id, User.email == ADDRESS)
    return [(email, role) for email, role in session.execute(query)]


class TestJoinByInvitation:
    def test_mailed_link_creates_the_account_and_signs_it_in(self, acme: Tenant, visitor: Client, token: str) -> None:
        answer = join(visitor, token)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["account"]["name"], answer.json()["account"]["email"]) == ("Grace Hopper", ADDRESS)
        assert answer.json()["session"]["organizationId"] == acme.id
        assert {line.partition("=")[0] for line in answer.headers.get_list("set-cookie")} == {"session", "device"}
        assert members(acme.session, acme) == [(ADDRESS, "viewer")]
        visitor.http.cookies.clear()
        assert Client(visitor.http, answer.json()["sessionToken"]).calls() == 200
        actions = factories.audit_actions(acme.session, acme.organization)
        assert {"invitation.accepted", "member.joined", "session.started"} <= set(actions)

    def test_mailed_link_joins_once_even_concurrently(self, acme: Tenant, visitor: Client, token: str) -> None:
        answers = at_once(*[lambda: join(visitor, token)] * 3)
        assert sorted(answer.status_code for answer in answers) == [200, 404, 404]
        assert members(acme.session, acme) == [(ADDRESS, "viewer")]

    def test_link_that_an_administrator_has_seen_creates_no_account(
        self, acme: Tenant, visitor: Client, invitation: str
    ) -> None:
        shown = link(acme, invitation)
        before = accounts(acme.session)
        refusal(join(visitor, shown), 404, "invitation_not_found")
        assert accounts(acme.session) == before

    def test_mailed_link_gives_no_access_to_an_account_that_exists(
        self, acme: Tenant, visitor: Client, token: str
    ) -> None:
        grace = account(acme.session, "Grace")
        grace.email = ADDRESS
        acme.session.flush()
        known = grace.password_hash
        answer = join(visitor, token, password="nine blue umbrellas")
        refusal(answer, 409, "already_exists")
        assert "set-cookie" not in answer.headers
        acme.session.refresh(grace)
        assert (grace.password_hash, members(acme.session, acme)) == (known, [])

    def test_revoked_or_expired_invitation_creates_no_account(
        self, acme: Tenant, visitor: Client, invitation: str, token: str, later: Later
    ) -> None:
        before = accounts(acme.session)
        acme.person("owner").delete(f"{INVITATIONS}/{invitation}")
        refusal(join(visitor, token), 404, "invitation_not_found")
        again = acme.person("owner").post(INVITATIONS, {"email": ADDRESS, "role": "viewer"})
        assert again.status_code == 201
        later(days=7)
        refusal(join(visitor, token), 404, "invitation_not_found")
        assert accounts(acme.session) == before

    @pytest.mark.parametrize("wrong", ["x", "a" * 43])
    def test_unknown_token_is_not_found(self, visitor: Client, wrong: str) -> None:
        refusal(join(visitor, wrong), 404, "invitation_not_found")

    def test_weak_password_leaves_the_link_valid(self, visitor: Client, token: str) -> None:
        assert join(visitor, token, password="password123").status_code == 422
        assert join(visitor, token).status_code == 200

    def test_links_of_earlier_sign_ups_end_with_the_account(
        self, visitor: Client, session: Session, token: str
    ) -> None:
        visitor.auth("sign-up", name="Mallory", email=ADDRESS, password=OTHER)
        earlier = mailed_token(session, ADDRESS)
        assert join(visitor, token).status_code == 200
        refusal(confirmed(visitor, earlier, OTHER), 404, "not_found")


def test_person_of_an_account_accepts_with_it(eve: Person, acme: Tenant, visitor: Client) -> None:
    made = acme.person("owner").post(INVITATIONS, {"email": eve.user.email, "role": "viewer"}).json()
    refusal(join(visitor, token_of(mailed(acme.session)["url"])), 409, "already_exists")
    assert eve.caller.post(f"{INVITATIONS}/{made['id']}/accept").status_code == 200
