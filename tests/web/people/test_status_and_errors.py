"""The status page, which needs no sign-in; and errors outside any page, as pages for browsers and as JSON."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.edge.maintenance_mode import Maintenance
from tests.web.people.forms import Page, Person

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class TestStatus:
    def test_status_shows_components_without_a_sign_in(self, visitor: Person) -> None:
        page = visitor.open("/status")
        assert page.status == 200
        assert "Database" in page.text
        assert "Works" in page.text
        assert page.answer.headers["content-security-policy"].startswith("default-src 'none'")

    def test_window_has_its_beginning_and_the_note_of_the_operator(self, tmp_path: Path) -> None:
        file = tmp_path / "maintenance"
        maintenance = Maintenance(file, "https://status.test")
        assert maintenance.find_window() is None
        file.write_text(" Back at noon. \nsecond line")
        window = maintenance.find_window()
        assert window is not None
        assert window == (datetime.fromtimestamp(file.stat().st_mtime, UTC), "Back at noon.")
        assert Maintenance(None, "https://status.test").find_window() is None


class TestErrorPages:
    def test_unknown_address_is_a_page_for_browsers(self, visitor: Person) -> None:
        answer = visitor.client.get("/nowhere", headers=BROWSER)
        page = Page(answer)
        assert (page.status, page.title) == (404, "Not found")
        assert "There is no page at this address." in page.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "x-request-id" in answer.headers

    def test_form_that_is_too_large_is_a_page_for_browsers(self, visitor: Person) -> None:
        answer = visitor.client.post("/import", content=b"x" * 1_400_000, headers=BROWSER)
        assert (answer.status_code, Page(answer).title) == (413, "Too large")

    @pytest.mark.parametrize("path", ["/v1/nowhere", "/api/nowhere", "/webhooks/nowhere", "/v1/freezes"])
    def test_errors_of_the_api_are_json_for_browsers_too(self, visitor: Person, path: str) -> None:
        answer = visitor.client.get(path, headers=BROWSER)
        assert answer.headers["content-type"] == "application/json"
        assert "requestId" in answer.json()["error"]

    def test_unknown_address_is_json_for_programs(self, visitor: Person) -> None:
        assert visitor.client.get("/nowhere").json()["error"]["code"] == "not_found"
