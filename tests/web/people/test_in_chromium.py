"""The pages in a real browser, without JavaScript and by keyboard alone; what a screen reader says, narrow and wide.

`PICTURES=<directory>` keeps a picture of each page.
"""

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.organizations import User
from rules.web_addresses import INVITATION
from tests import factories
from tests.harness.browser import RENDERED, Browser
from tests.harness.concurrency import eventually
from tests.web.people.conftest import PASSWORD, Later, Mailed
from tests.web.people.in_chromium import Keep, fill_form, in_chromium, sign_in
from tests.web.people.test_invitation_page import Invite, acme, invite

__all__ = ["acme", "invite"]

pytestmark = in_chromium(60)

LINE = 24
"""Pixels that things of one line may differ in height."""
ANOTHER = "seven slow trams to the harbour"


class TestKeyboardWithoutScripts:
    def test_browser_of_the_tests_runs_no_scripts(self, browser: Browser, site: str) -> None:
        browser.open("data:text/html,<title>off</title><script>document.title = 'on'</script>")
        assert browser.title == "off"

    def test_sign_up_to_an_organization_works_by_keyboard(
        self, browser: Browser, site: str, mailed: Mailed, keep: Keep, session: Session
    ) -> None:
        browser.open(f"{site}/")
        assert browser.path == "/sign-in"
        keep("sign-in")
        browser.tab_to("Create an account")
        browser.press_and_go()
        keep("sign-up")
        browser.tab_to("Your name")
        browser.write("Grace Hopper")
        browser.tab_to("Email address")
        browser.write("grace@example.test")
        browser.tab_to("Password")
        browser.write(PASSWORD)
        browser.tab_to("Create account")
        browser.press_and_go()
        assert "Check your email" in browser.text
        keep("sign-up-sent")
        browser.open(site + mailed("grace@example.test"))
        keep("verify")
        browser.tab_to("Password")
        browser.write("another one of mine")
        browser.press_and_go()
        assert browser.title.startswith("Error: ")
        keep("verify-wrong")
        browser.tab_to("Password")
        browser.write(PASSWORD)
        browser.tab_to("Confirm address")
        browser.press_and_go()
        assert browser.path == "/"
        assert "Signed in as Grace Hopper" in browser.text
        keep("home-new")
        browser.tab_to("Organisation name")
        browser.write("Acme")
        browser.tab_to("Create organisation")
        browser.press_and_go("Space")
        assert "You are its owner." in browser.text
        keep("home")
        assert session.scalars(select(User.name)).all() == ["Grace Hopper"]
        browser.tab_to("Sign out")
        browser.press_and_go()
        assert "You are signed out." in browser.text

    def test_problems_are_announced_first_and_link_to_their_fields(
        self, browser: Browser, site: str, keep: Keep
    ) -> None:
        browser.open(f"{site}/sign-up")
        browser.tab_to("Your name")
        browser.write("Grace")
        browser.press_and_go()
        assert browser.title.startswith("Error: ")
        eventually(lambda: browser.value("document.activeElement.id") == "problems")  # once the page is drawn
        assert ("alert", "There is a problem") in browser.announced()
        keep("sign-up-problems")
        browser.tab_to("Email address is required")
        browser.press("Enter")
        assert browser.value("location.hash") == "#email"
        assert browser.value("document.activeElement.id") == "email"
        assert browser.value("document.activeElement.getAttribute('aria-invalid')") == "true"

    def test_first_tab_stop_skips_the_header(self, browser: Browser, site: str) -> None:
        browser.open(f"{site}/sign-in")
        browser.press("Tab")
        assert browser.focus() == "Skip to content"
        browser.press("Enter")
        assert browser.value("document.activeElement.id") == "content"
        browser.press("Tab")
        assert browser.focus() == "Email address"

    def test_focus_is_visible_and_follows_the_order_of_the_page(self, browser: Browser, site: str) -> None:
        browser.open(f"{site}/sign-up")
        seen = []
        for _ in range(12):
            browser.press("Tab")
            seen.append(browser.value("document.activeElement.getBoundingClientRect().top"))
            outline = browser.value("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", browser.focus()
            if browser.focus() == "Sign in" and len(seen) > 6:
                break
        assert all(after >= before - LINE for before, after in pairwise(seen[1:])), seen

    def test_password_reset_works_by_keyboard(
        self, browser: Browser, site: str, mailed: Mailed, keep: Keep, account: Callable[[str], User]
    ) -> None:
        account("Ada")
        browser.open(f"{site}/sign-in")
        browser.tab_to("Forgot your password?")
        browser.press_and_go()
        keep("forgot")
        browser.tab_to("Email address")
        browser.write("ada@example.test")
        browser.press_and_go()
        browser.open(site + mailed("ada@example.test"))
        keep("reset")
        browser.tab_to("New password")
        browser.write("short")
        browser.press_and_go()
        keep("reset-problems")
        browser.tab_to("New password")
        browser.write(ANOTHER)
        browser.press_and_go()
        assert "Your password has been changed" in browser.text
        sign_in(browser, site, "ada@example.test", ANOTHER)
        assert browser.path == "/"

    def test_device_approval_works_by_keyboard(
        self, browser: Browser, site: str, keep: Keep, account: Callable[[str], User], session: Session
    ) -> None:
        ada = account("Ada")
        for name, role in (("Acme", "owner"), ("Globex", "viewer")):
            factories.membership(session, factories.organization(session, name), ada, role)
        asked = httpx.post(f"{site}/api/auth/device/code", data={"client_id": "freeze-cli"}).json()
        browser.open(asked["verification_uri_complete"])
        fill_form(browser, email="ada@example.test", password=PASSWORD)
        assert browser.path.startswith("/device?user_code=")
        keep("device")
        browser.tab_to("Continue")
        browser.press_and_go()
        assert "It will be able to" in browser.text
        keep("consent")
        browser.tab_to("Approve")
        browser.press_and_go()
        assert "is signed in" in browser.text
        keep("device-done")
        browser.open(f"{site}/")
        keep("home-several")
        browser.open(f"{site}/device")
        browser.tab_to("Code shown on your device")
        browser.write("BCDFG-HJKLM")
        browser.press_and_go()
        keep("device-problem")

    def test_invitation_works_by_keyboard(
        self,
        browser: Browser,
        site: str,
        keep: Keep,
        account: Callable[[str], User],
        invite: Invite,
    ) -> None:
        account("Ada")
        account("Grace")
        token, _ = invite("grace@example.test", "admin")
        browser.open(f"{site}{INVITATION}?token={token}")
        keep("invitation-nobody")
        sign_in(browser, site, "ada@example.test")
        browser.open(f"{site}{INVITATION}?token={token}")
        keep("invitation-another")
        browser.tab_to("Cancel")
        browser.press_and_go()
        browser.open(f"{site}/sign-out")
        keep("sign-out")
        browser.tab_to("Stay signed in")
        browser.forget()
        sign_in(browser, site, "grace@example.test")
        keep("home-invited")
        browser.open(f"{site}{INVITATION}?token={token}")
        keep("invitation")
        browser.tab_to("Accept invitation")
        browser.press_and_go()
        assert "You joined the organisation." in browser.text
        browser.open(f"{site}{INVITATION}?token={token}")
        assert "Not found" in browser.text
        keep("refused")

    def test_form_left_open_for_hours_is_still_accepted(
        self, browser: Browser, site: str, account: Callable[[str], User], later: Later
    ) -> None:
        account("Ada")
        browser.open(f"{site}/sign-in")
        later(hours=20)
        fill_form(browser, email="ada@example.test", password=PASSWORD)
        assert browser.path == "/"


class TestWithScripts:
    @pytest.mark.parametrize("path", ["/sign-in", "/sign-up", "/forgot", "/verify?token=x", "/docs/errors"])
    def test_page_runs_under_its_policy_without_complaints(self, scripted: Browser, site: str, path: str) -> None:
        scripted.open(site + path)
        assert [each for each in map(str, scripted.complaints()) if "favicon.ico" not in each] == []
        assert scripted.value("window.htmx") is None  # nothing of these pages is exchanged

    def test_reference_is_rendered_without_another_host_and_complaints(self, scripted: Browser, site: str) -> None:
        scripted.open(f"{site}/docs")
        eventually(lambda: scripted.value("document.querySelectorAll('#content .menu-content li').length") > 0)
        scripted.value(RENDERED)
        assert scripted.value("document.querySelectorAll('.menu-content img').length") == 0
        assert [each for each in scripted.requested() if not each.startswith((f"{site}/", "data:", "blob:"))] == []
        assert [each for each in map(str, scripted.complaints()) if "favicon.ico" not in each] == []

    def test_inline_script_is_refused_by_the_policy(self, scripted: Browser, site: str) -> None:
        scripted.open(f"{site}/sign-in")
        scripted.value(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
        )
        assert scripted.value("window.ran") is None
        assert any("Content Security Policy" in str(each) for each in scripted.complaints())

    def test_instants_are_shown_in_the_time_zone_of_the_reader(
        self, scripted: Browser, site: str, account: Callable[[str], User]
    ) -> None:
        account("Ada")
        scripted.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
        sign_in(scripted, site, "ada@example.test")
        scripted.open(f"{site}/settings/account")
        shown, title, instant = scripted.value(
            "(t => [t.textContent, t.title, t.dateTime])(document.querySelector('time'))"
        )
        at = datetime.fromisoformat(instant)
        assert f"{at:%H:%M} UTC" in title
        assert f"{(at.hour + 9) % 24:02}:{at:%M} JST" in shown
        assert scripted.value("document.documentElement.dataset.shownIn") == "Asia/Tokyo"

    def test_reader_who_travels_sees_instants_in_the_new_zone(
        self, scripted: Browser, site: str, account: Callable[[str], User]
    ) -> None:
        account("Ada")
        scripted.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
        sign_in(scripted, site, "ada@example.test")
        scripted.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
        shown = []
        for written_in in ("Asia/Tokyo", "Europe/Berlin"):
            scripted.open(f"{site}/settings/account")
            assert scripted.value("document.documentElement.dataset.shownIn") == written_in
            shown.append(scripted.value("document.querySelector('time').textContent"))
        assert "CE" in shown[0]
        assert shown[0] == shown[1]
