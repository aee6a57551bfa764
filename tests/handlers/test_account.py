"""Operations of the tag Account: people change their own account, with a session, and where it matters the password."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.identity import Mail, ThrottledAttempt
from models.oauth import OAuthGrant
from models.organizations import LoginSession, Membership, User
from tests import factories
from tests.handlers.accounts import EVE, OTHER, Client
from tests.handlers.callers import Tenant, closed, refusal
from tests.handlers.device_sign_in.requests import one_time_token
from tests.harness.concurrency import at_once
from tests.harness.mails import mailed_token, mails_to
from tests.harness.passwords import PASSWORD, account

Later = Callable[..., None]
WRONG = "nine purple wheelbarrows"
NEW = "eve.baker@example.com"


@pytest.fixture
def user(acme: Tenant) -> User:
    return account(acme.session, "Eve", acme.organization)


@pytest.fixture
def eve(visitor: Client, user: User) -> Client:
    """Return a program that has signed in as Eve."""
    return visitor.signed_in(user)


def entries(acme: Tenant) -> list[tuple[str, dict[str, Any]]]:
    """Return what was audited about people, without their sign-ins."""
    query = select(AuditEntry).where(AuditEntry.organization_id == acme.id).order_by(AuditEntry.at, AuditEntry.id)
    found = acme.session.scalars(query).all()
    return [(one.action, one.details) for one in found if one.action.startswith(("user.", "member."))]


def mailed(session: Session, address: str) -> list[str]:
    return [template for template, _ in mails_to(session, address)]


class TestChangeName:
    def test_name_is_changed_and_audited_once(self, eve: Client, user: User, acme: Tenant) -> None:
        for _ in range(2):
            answer = eve.auth("change-name", name=" Eve Baker ")
            assert (answer.status_code, answer.json()["name"], answer.json()["id"]) == (200, "Eve Baker", user.id)
        assert entries(acme) == [("user.renamed", {"before": {"name": user.name}, "after": {"name": "Eve Baker"}})]

    def test_entry_of_a_name_that_another_has_names_the_address(self, eve: Client, user: User, acme: Tenant) -> None:
        account(acme.session, "Ada", acme.organization).name = "Ada Byron"
        acme.session.flush()
        assert eve.auth("change-name", name="ada byron").status_code == 200
        [renamed] = factories.audit_entries(acme.session, "user.renamed")
        assert renamed.actor["name"] == f"ada byron ({user.email})"


class TestChangePassword:
    def test_new_password_replaces_the_present_one(self, eve: Client, visitor: Client, user: User) -> None:
        assert eve.auth("change-password", currentPassword=PASSWORD, password=OTHER).status_code == 204
        refusal(visitor.sign_in(user.email), 401, "wrong_credentials")
        assert visitor.sign_in(user.email, OTHER).status_code == 200

    def test_new_password_ends_all_that_the_old_one_gave_but_this_session(
        self, eve: Client, visitor: Client, user: User, acme: Tenant
    ) -> None:
        other = visitor.signed_in(user)
        before = other.jwt()
        grant = factories.connection(acme.session, user, acme.organization)
        reset, pending = (
            one_time_token(acme.session, purpose, user.id) for purpose in ("reset_password", "change_email")
        )
        assert eve.auth("change-password", currentPassword=PASSWORD, password=OTHER).status_code == 204
        assert eve.calls() == 200
        refusal(other.get("/api/auth/token"), 401, "invalid_token")
        refusal(eve.ask(before), 401, "invalid_token")
        refusal(visitor.auth("reset-password", token=reset, password=PASSWORD), 404, "not_found")
        refusal(eve.auth("confirm-email", token=pending), 404, "not_found")
        acme.session.expire_all()
        assert acme.session.get_one(OAuthGrant, grant.id).revoked_why == "password_changed"
        assert entries(acme) == [("user.password_changed", {})]
        assert mailed(acme.session, user.email) == ["password_changed"]

    def test_wrong_password_changes_nothing(self, eve: Client, visitor: Client, user: User, acme: Tenant) -> None:
        refusal(eve.auth("change-password", currentPassword=WRONG, password=OTHER), 403, "wrong_password")
        refusal(eve.auth("change-password", currentPassword=PASSWORD, password="password12"), 422, "weak_password")
        assert (entries(acme), mailed(acme.session, user.email), eve.calls()) == ([], [], 200)
        assert visitor.sign_in(user.email).status_code == 200

    def test_guesses_of_a_session_are_limited_and_lock_no_other_out(
        self, eve: Client, visitor: Client, user: User, later: Later
    ) -> None:
        other, first_try = visitor.signed_in(user), time.monotonic()
        for operation in ("change-password", "change-email") * 5:
            body = {"currentPassword": WRONG, "password": OTHER} if operation == "change-password" else None
            refusal(eve.auth(operation, **(body or {"email": NEW, "password": WRONG})), 403, "wrong_password")
        closed(eve.auth("change-password", currentPassword=PASSWORD, password=OTHER), 900, since=first_try)
        assert other.auth("change-email", email=NEW, password=PASSWORD).status_code == 202
        later(minutes=15)
        assert eve.auth("change-password", currentPassword=PASSWORD, password=OTHER).status_code == 204

    def test_one_of_two_concurrent_changes_wins(self, eve: Client, visitor: Client, user: User) -> None:
        other = visitor.signed_in(user)
        answers = at_once(
            lambda: eve.auth("change-password", currentPassword=PASSWORD, password=OTHER),
            lambda: other.auth("change-password", currentPassword=PASSWORD, password=WRONG),
        )
        assert sorted(one.status_code for one in answers) in ([204, 401], [204, 403])
        right = OTHER if answers[0].status_code == 204 else WRONG
        assert visitor.sign_in(user.email, right).status_code == 200


class TestChangeEmail:
    def test_address_changes_with_the_confirmed_link(
        self, eve: Client, visitor: Client, user: User, acme: Tenant
    ) -> None:
        before = user.email
        answer = eve.auth("change-email", email=NEW.upper(), password=PASSWORD)
        assert (answer.status_code, answer.json()) == (202, {"email": NEW.upper()})
        assert mails_to(acme.session, before)[0][1]["address"] == NEW
        assert visitor.sign_in(before).status_code == 200
        visitor.http.cookies.clear()
        confirmed = eve.auth("confirm-email", token=mailed_token(acme.session, NEW))
        assert (confirmed.status_code, confirmed.json()["email"]) == (200, NEW)
        assert (mailed(acme.session, before), mailed(acme.session, NEW)) == (
            ["email_change_requested", "email_changed"],
            ["change_email"],
        )
        changed = {"before": {"email": before}, "after": {"email": NEW}}
        assert entries(acme) == [("user.email_change_requested", {}), ("user.email_changed", changed)]
        refusal(visitor.sign_in(before), 401, "wrong_credentials")
        assert visitor.sign_in(NEW).status_code == 200
        refusal(eve.auth("confirm-email", token=mailed_token(acme.session, NEW)), 404, "not_found")

    def test_link_is_confirmed_by_the_person_who_requested_it_alone(
        self, eve: Client, visitor: Client, session: Session, user: User
    ) -> None:
        eve.auth("change-email", email=NEW, password=PASSWORD)
        ada = visitor.signed_in(account(session, "Ada"))
        refusal(ada.auth("confirm-email", token=mailed_token(session, NEW)), 404, "not_found")
        refusal(eve.auth("confirm-email", token=one_time_token(session, "reset_password", user.id)), 404, "not_found")
        assert eve.auth("confirm-email", token=mailed_token(session, NEW)).status_code == 200

    def test_link_ends_after_an_hour_or_with_the_next_link(self, eve: Client, session: Session, later: Later) -> None:
        eve.auth("change-email", email=NEW, password=PASSWORD)
        first = mailed_token(session, NEW)
        eve.auth("change-email", email=NEW, password=PASSWORD)
        refusal(eve.auth("confirm-email", token=first), 404, "not_found")
        later(hours=1)
        refusal(eve.auth("confirm-email", token=mailed_token(session, NEW)), 404, "not_found")

    def test_change_of_address_does_not_reveal_who_has_an_account(self, eve: Client, session: Session) -> None:
        taken = account(session, "Ada").email
        answers = [eve.auth("change-email", email=email, password=PASSWORD) for email in (taken, NEW)]
        assert [one.status_code for one in answers] == [202, 202]
        assert len({tuple(sorted(one.headers.keys())) for one in answers}) == 1
        assert mailed(session, taken) == ["taken_address"]

    def test_address_that_got_an_account_meanwhile_is_not_taken_over(
        self, eve: Client, visitor: Client, session: Session, user: User
    ) -> None:
        eve.auth("change-email", email=EVE["email"], password=PASSWORD)
        changing = mailed_token(session, EVE["email"])
        visitor.auth("sign-up", **EVE)
        signing_up = mailed_token(session, EVE["email"])
        answers = at_once(
            lambda: eve.auth("confirm-email", token=changing),
            lambda: visitor.auth("verify-email", token=signing_up, password=PASSWORD),
        )
        assert sorted(one.status_code for one in answers) in ([200, 404], [201, 404])
        assert session.scalar(select(func.count()).select_from(User).where(User.email == EVE["email"])) == 1

    def test_wrong_password_and_present_address_mail_nothing(self, eve: Client, session: Session, user: User) -> None:
        refusal(eve.auth("change-email", email=NEW, password=WRONG), 403, "wrong_password")
        refusal(eve.auth("change-email", email=user.email.upper(), password=PASSWORD), 422, "validation_failed")
        assert session.scalar(select(func.count()).select_from(Mail)) == 0

    def test_mails_of_a_person_are_limited(self, eve: Client, session: Session, later: Later) -> None:
        first_try = time.monotonic()
        for number in range(5):
            assert eve.auth("change-email", email=f"eve{number}@example.com", password=PASSWORD).status_code == 202
        closed(eve.auth("change-email", email=NEW, password=PASSWORD), 3600, since=first_try)
        assert mailed(session, NEW) == []
        later(hours=1)
        assert eve.auth("change-email", email=NEW, password=PASSWORD).status_code == 202

    def test_reset_password_makes_a_pending_change_invalid(
        self, eve: Client, visitor: Client, session: Session, user: User
    ) -> None:
        eve.auth("change-email", email=NEW, password=PASSWORD)
        changing = mailed_token(session, NEW)
        reset = one_time_token(session, "reset_password", user.id)
        assert visitor.auth("reset-password", token=reset, password=OTHER).status_code == 204
        again = visitor.signed_in(user, OTHER)
        refusal(again.auth("confirm-email", token=changing), 404, "not_found")


class TestSignOutEverywhere:
    def test_sign_out_everywhere_ends_all_sessions_of_the_person(
        self, eve: Client, visitor: Client, user: User, acme: Tenant
    ) -> None:
        other, ada = visitor.signed_in(user), visitor.signed_in(account(acme.session, "Ada", acme.organization))
        before = other.jwt()
        answer = eve.post("/api/auth/sign-out-everywhere")
        assert answer.status_code == 204
        assert answer.headers["Set-Cookie"].startswith("session=; Max-Age=0")
        for one in (eve, other):
            refusal(one.get("/api/auth/token"), 401, "invalid_token")
        refusal(ada.ask(before), 401, "invalid_token")
        assert ada.calls() == 200
        acme.session.expire_all()
        open_ones = select(func.count()).where(LoginSession.user_id == user.id, LoginSession.revoked_at.is_(None))
        assert acme.session.scalar(open_ones) == 0
        assert entries(acme) == [("user.signed_out", {})]

    def test_concurrent_sign_outs_everywhere_end_all_sessions(self, eve: Client, visitor: Client, user: User) -> None:
        other = visitor.signed_in(user)
        answers = at_once(*(lambda one=one: one.post("/api/auth/sign-out-everywhere") for one in (eve, other)))
        assert sorted(one.status_code for one in answers) in ([204, 204], [204, 401])


class TestLeaveOrganization:
    def test_member_leaves_the_active_organization_only(self, visitor: Client, acme: Tenant, globex: Tenant) -> None:
        user = account(acme.session, "Eve", acme.organization, globex.organization)
        eve = visitor.signed_in(user)
        refusal(eve.post("/api/auth/org/leave"), 403, "no_organization_selected")
        eve.auth("org/set-active", organizationId=acme.id)
        before, grant = eve.jwt(), factories.connection(acme.session, user, acme.organization)
        assert eve.post("/api/auth/org/leave").status_code == 204
        assert eve.ask(before).status_code in {401, 403}
        acme.session.expire_all()
        left = acme.session.scalars(select(Membership.organization_id).where(Membership.user_id == user.id)).all()
        assert left == [globex.id]
        assert acme.session.get_one(OAuthGrant, grant.id).revoked_why == "member_removed"
        assert entries(acme) == [("member.left", {"before": {"role": "member"}, "after": None})]

    def test_only_owner_cannot_leave(self, visitor: Client, acme: Tenant) -> None:
        owners = [
            visitor.signed_in(account(acme.session, name, acme.organization, role="owner")) for name in ("Ann", "Bea")
        ]
        answers = at_once(*(lambda one=one: one.post("/api/auth/org/leave") for one in owners))
        assert sorted(one.status_code for one in answers) == [204, 409]
        [stays] = [one for one, answer in zip(owners, answers, strict=True) if answer.status_code == 409]
        refusal(stays.post("/api/auth/org/leave"), 409, "invalid_state")


def test_attempts_are_forgotten_after_the_right_password(eve: Client, session: Session) -> None:
    eve.auth("change-email", email=NEW, password=WRONG)
    eve.auth("change-email", email=NEW, password=PASSWORD)
    kinds = session.scalars(select(ThrottledAttempt.kind).where(ThrottledAttempt.kind.like("password%"))).all()
    assert kinds == []
