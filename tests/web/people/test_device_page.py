"""`/device`: nothing is let in without a page that names it, and a person who approves."""

from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import LoginSession, Organization, User
from tests import factories
from tests.web.people.conftest import PASSWORD, user_of
from tests.web.people.forms import Page, Person

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
UNKNOWN_CODE = "This code is not valid."


@dataclass(frozen=True, slots=True)
class Device:
    """A CLI that asks to be let in."""

    site: str
    device_code: str
    user_code: str
    complete: str

    def poll(self) -> dict[str, str]:
        form = {"grant_type": GRANT, "device_code": self.device_code, "client_id": "freeze-cli"}
        return dict(httpx.post(f"{self.site}/api/auth/device/token", data=form).json())


@pytest.fixture
def device(site: str) -> Device:
    asked = httpx.post(f"{site}/api/auth/device/code", data={"client_id": "freeze-cli"}).json()
    complete = asked["verification_uri_complete"].removeprefix(site)
    return Device(site, asked["device_code"], asked["user_code"], complete)


def devices_of(session: Session) -> list[LoginSession]:
    return list(session.scalars(select(LoginSession).where(LoginSession.kind == "device")))


def consent(person: Person, device: Device) -> Page:
    return person.press(person.open("/device"), "Continue", user_code=device.user_code)


class TestConsent:
    def test_consent_page_names_device_origin_organization_and_permissions(
        self, ada: Person, acme: Organization, device: Device
    ) -> None:
        page = consent(ada, device)
        words = " ".join(page.text.split())
        assert "A device that calls itself freeze-cli" in words
        assert "127.0.0.1" in words
        assert device.user_code in words
        assert "Acme, as admin" in words
        assert "for 30 days or until you end its session" in words
        assert "Ada (ada@example.test)" in words
        assert "Manage members, invitations" in words
        assert "delete the organisation" not in words

    @pytest.mark.parametrize("name", ["freeze-cli", "https://client.example/oauth/metadata.json"])
    def test_consent_page_says_that_nobody_has_verified_the_name(
        self, ada: Person, acme: Organization, site: str, name: str
    ) -> None:
        asked = httpx.post(f"{site}/api/auth/device/code", data={"client_id": name}).json()
        page = ada.press(ada.open("/device"), "Continue", user_code=asked["user_code"])
        words = " ".join(page.text.split())
        assert f"A device that calls itself {name} wants to act in your name. Nobody has verified that name: " in words

    def test_approved_device_acts_as_the_person_in_the_organization(
        self, ada: Person, acme: Organization, device: Device, session: Session
    ) -> None:
        assert device.poll()["error"] == "authorization_pending"
        done = ada.press(consent(ada, device), "Approve")
        assert (done.status, done.title) == (200, "Device connected")
        assert "access_token" in device.poll()
        [row] = devices_of(session)
        assert (row.user_id, row.organization_id) == (user_of(session).id, acme.id)
        assert "freeze-cli" in ada.open("/settings/account").text

    def test_denied_device_gets_no_token(
        self, ada: Person, acme: Organization, device: Device, session: Session
    ) -> None:
        done = ada.press(consent(ada, device), "Deny")
        assert (done.status, done.title) == (200, "Request denied")
        assert device.poll()["error"] == "access_denied"
        assert devices_of(session) == []

    def test_consent_page_offers_a_choice_among_several_organizations(
        self, ada: Person, acme: Organization, device: Device, session: Session
    ) -> None:
        globex = factories.organization(session, "Globex")
        factories.membership(session, globex, user_of(session), "viewer")
        page = consent(ada, device)
        assert "Acme, as admin" in page.text
        assert "Globex, as viewer" in page.text
        assert "It can switch to your other organisations later." in page.text
        ada.press(page, "Approve", organization_id=globex.id)
        device.poll()
        assert [row.organization_id for row in devices_of(session)] == [globex.id]

    def test_person_without_an_organization_may_approve_a_device(self, ada: Person, device: Device) -> None:
        page = consent(ada, device)
        assert "You belong to no organisation yet" in page.text
        assert ada.press(page, "Approve").title == "Device connected"

    def test_client_name_of_a_device_is_escaped(self, ada: Person, site: str) -> None:
        asked = httpx.post(f"{site}/api/auth/device/code", data={"client_id": "<script>alert(1)</script>"}).json()
        page = ada.press(ada.open("/device"), "Continue", user_code=asked["user_code"])
        assert "<script>" not in page.answer.text
        assert "calls itself <script>alert(1)</script>" in page.text


class TestUserCode:
    def test_link_with_a_code_neither_decides_nor_shows_consent(self, ada: Person, device: Device) -> None:
        page = ada.open(device.complete)
        assert page.title == "Connect a device"
        assert page.form("Continue").fields["user_code"] == device.user_code
        assert "freeze-cli" not in page.text
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"
        assert device.poll()["error"] == "authorization_pending"

    def test_user_code_survives_the_sign_in(
        self, visitor: Person, device: Device, account: Callable[[str], User]
    ) -> None:
        account("Grace")
        page = visitor.open(device.complete)
        assert page.title == "Sign in"
        assert page.answer.headers["Referrer-Policy"] == "no-referrer"
        page = visitor.press(page, "Sign in", email="grace@example.test", password=PASSWORD)
        assert page.form("Continue").fields["user_code"] == device.user_code

    def test_user_code_may_be_typed_in_any_notation(self, ada: Person, device: Device) -> None:
        typed = " " + device.user_code.replace("-", " ").lower()
        assert "freeze-cli" in ada.press(ada.open("/device"), "Continue", user_code=typed).text

    @pytest.mark.parametrize("code", ["BCDFG-HJKLM", "x", "ü" * 10, "1" * 4000])
    def test_wrong_user_code_is_reported_at_its_field(self, ada: Person, code: str) -> None:
        page = ada.press(ada.open("/device"), "Continue", user_code=code)
        assert (page.status, page.title) == (404, "Connect a device")
        assert any(text.startswith(UNKNOWN_CODE) and link == "#user_code" for text, link in page.links.items())

    def test_empty_user_code_is_not_counted_as_an_attempt(self, ada: Person, device: Device) -> None:
        pages = [ada.press(ada.open("/device"), "Continue") for _ in range(11)]
        assert {page.status for page in pages} == {400}
        assert pages[0].links["Enter the code that your device shows."] == "#user_code"
        assert consent(ada, device).status == 200

    def test_user_code_is_valid_for_one_decision(self, ada: Person, device: Device) -> None:
        page = consent(ada, device)
        ada.press(page, "Deny")
        assert ada.press(page, "Approve").status == 404
        assert consent(ada, device).status == 404
        assert device.poll()["error"] == "access_denied"

    def test_user_codes_are_rate_limited_after_ten_wrong_attempts(self, ada: Person, device: Device) -> None:
        pages = [ada.press(ada.open("/device"), "Continue", user_code="BCDFG-HJKLM") for _ in range(11)]
        assert [page.status for page in pages] == [404] * 10 + [429]
        assert int(pages[-1].answer.headers["Retry-After"]) > 0
        assert consent(ada, device).status == 429

    def test_person_who_has_signed_out_cannot_decide(self, ada: Person, device: Device) -> None:
        page = consent(ada, device)
        ada.press(ada.open("/"), "Sign out")
        answer = ada.send(page.form("Approve"), "Approve")
        assert answer.status_code == 403
        assert device.poll()["error"] == "authorization_pending"
