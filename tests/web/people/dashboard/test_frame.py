"""The frame of the dashboard: navigation, banner, refusals, and what a page does without an organisation."""

import gzip
import re
from pathlib import Path

import pytest

from tests import factories
from tests.web.people.conftest import Visit
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.forms import Person
from web.application import HTMX
from web.dashboard.pages import PAGES
from web.return_addresses import safe_redirect

STATIC = Path("web/static")


def fail(acme: Scene) -> None:
    """Start a freeze one of whose checks could not be written."""
    columns = {"state": "failed", "last_error_code": "forbidden", "last_error_message": "GitHub refused it."}
    factories.target(acme.session, factories.freeze(acme.session, acme.organization), acme.web, **columns)


def test_scripts_and_styles_of_all_pages_fit_into_25_kilobytes() -> None:
    files = ("app.css", "app.js", HTMX)
    assert sum(len(gzip.compress((STATIC / name).read_bytes())) for name in files) <= 25_000


class TestFrame:
    def test_first_load_needs_four_requests(self, member: Enter) -> None:
        text = member("viewer").open("/").answer.text
        assert 1 + text.count("<script src=") + text.count('rel="stylesheet"') + text.count("<img") == 4

    def test_navigation_names_the_organization_and_marks_the_current_page(self, member: Enter) -> None:
        page = member("viewer").open("/attention")
        assert page.title == "Attention"
        assert "Acme, switch organisation" in words(page)
        assert 'href="/attention" data-key="t" aria-current="page"' in page.answer.text

    def test_frame_counts_what_is_open(self, member: Enter, acme: Scene) -> None:
        fail(acme)
        page = member("viewer").open("/attention")
        assert "Attention 1 open" in words(page)

    def test_banner_appears_while_everything_is_frozen(self, member: Enter, acme: Scene) -> None:
        viewer = member("viewer")
        factories.freeze(acme.session, acme.organization, [acme.web])
        assert "Everything is frozen" not in viewer.open("/attention").text
        factories.freeze(acme.session, acme.organization, [acme.api])
        assert "watched branches takes a merge" in words(viewer.open("/attention"))

    def test_notice_is_shown_once_and_is_not_in_the_address(self, member: Enter, acme: Scene) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [acme.web])
        person = member("member")
        answer = person.send(person.open(f"/freezes/{freeze.id}/lift").form("Lift the freeze"), "Lift the freeze")
        assert answer.headers["Location"] == f"/freezes/{freeze.id}"
        assert "lifted. Its branches" not in person.open("/freezes").text
        assert "lifted. Its branches" in person.open(f"/freezes/{freeze.id}").text
        assert "lifted. Its branches" not in person.open(f"/freezes/{freeze.id}").text

    def test_notice_of_an_address_is_not_shown(self, member: Enter, acme: Scene) -> None:
        assert "You switched organisations." not in member("viewer").open("/", notice="switched").text

    def test_part_of_a_page_leaves_the_page_when_the_session_has_ended(self, visitor: Person) -> None:
        answer = visitor.client.get("/attention", headers={"HX-Request": "true"})
        assert (answer.status_code, {"HX-Redirect", "Location"} & set(answer.headers)) == (401, set())

    def test_instants_are_in_the_zone_of_the_reader_from_the_start(self, member: Enter) -> None:
        viewer = member("viewer")
        viewer.client.cookies.set("zone", "Asia/Tokyo", domain="127.0.0.1")
        text = viewer.open("/settings").answer.text
        assert re.search(r'<time datetime="[^"]+" title="[^"]+ UTC">[^<]+ JST</time>', text)
        assert 'data-shown-in="Asia/Tokyo"' in text

    @pytest.mark.parametrize("zone", ["Mars/Olympus", "America", "../etc/passwd", ""])
    def test_zone_that_there_is_not_shows_instants_in_utc(self, member: Enter, zone: str) -> None:
        viewer = member("viewer")
        viewer.client.cookies.set("zone", zone, domain="127.0.0.1")
        text = viewer.open("/settings").answer.text
        assert re.search(r'<time datetime="[^"]+">[^<]+ UTC</time>', text)
        assert "data-shown-in" not in text

    def test_page_leads_home_without_an_organization(self, ada: Person) -> None:
        assert ada.client.get("/attention").headers["location"] == "/"

    def test_refusal_is_shown_in_the_frame(self, member: Enter) -> None:
        page = member("viewer").open("/attention", severity="none")
        assert (page.status, page.title) == (400, "Invalid request")
        assert "Acme" in page.text

    def test_frame_has_a_strict_policy_and_no_inline_style(self, member: Enter) -> None:
        answer = member("viewer").client.get("/attention")
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["Content-Security-Policy"]
        assert "style=" not in answer.text

    def test_another_tab_of_a_signed_out_member_signs_in_again(self, member: Enter, visit: Visit) -> None:
        viewer = member("viewer")
        page = viewer.open("/attention")
        viewer.press(page, "Sign out")
        assert viewer.open("/attention").title == "Sign in"


@pytest.mark.parametrize("path", [page.path.replace("{id}", "frz_1") for page in PAGES])
def test_sign_in_leads_back_to_every_page_of_the_dashboard(path: str) -> None:
    assert safe_redirect(path) == path


@pytest.mark.parametrize("path", ["/freezes//evil.test", "/freezes/..", "/attention/%2f%2fevil.test", "/freezesx"])
def test_sign_in_leads_to_no_unusual_address(path: str) -> None:
    assert safe_redirect(path) == "/"
