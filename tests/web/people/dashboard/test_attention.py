"""`/attention`: by severity, and within each the latest first."""

from datetime import timedelta

import pytest

from models.attention import AttentionItem
from rules.ids import new_id
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.overview import alerts as sources
from tests import factories
from tests.factories.adding import added
from tests.web.people.dashboard.conftest import Enter, Scene, words


def raise_item(acme: Scene, severity: str, name: str, minutes: int) -> None:
    """Open an alert that began so many minutes ago."""
    item = AttentionItem(
        id=new_id("att"),
        organization_id=acme.organization.id,
        key=f"missed_window {name}",
        type="missed_window",
        severity=severity,
        since=factories.now() - timedelta(minutes=minutes),
        subject={"type": "schedule", "id": new_id("sch"), "name": name},
        message="The window was missed.",
        action={"label": "Open the schedule", "url": "https://freeze.example/schedules"},
    )
    added(acme.session, item)


@pytest.fixture
def alerts(acme: Scene) -> None:
    for severity, name, minutes in (
        ("info", "Newest", 1),
        ("warning", "Third", 2),
        ("critical", "Second", 30),
        ("critical", "First", 20),
        ("warning", "Fourth", 40),
    ):
        raise_item(acme, severity, name, minutes)


@pytest.mark.usefixtures("alerts")
class TestAttention:
    def test_alerts_stand_by_severity_and_the_latest_first(self, member: Enter) -> None:
        text = words(member("viewer").open("/attention")).partition("Information (1)")[2]
        parts = ("Critical", "First", "Second", "Warnings", "Third", "Fourth", "Information", "Newest")
        assert sorted(parts, key=text.index) == list(parts)
        assert "Show all" not in text

    def test_page_of_one_severity_has_the_others_pages(self, member: Enter, acme: Scene) -> None:
        for number in range(51):
            raise_item(acme, "critical", f"Window {number}", 60 + number)
        viewer = member("viewer")
        page = viewer.open("/attention")
        assert "Window 17" in page.text
        assert "Window 18" not in page.text
        critical = viewer.open(page.links["Show all"], severity="critical")
        assert "Window 47" in critical.text
        assert "Third" not in critical.text
        assert "Window 50" in viewer.open(critical.links["Next rows"]).text


def test_alert_has_its_action(member: Enter, acme: Scene) -> None:
    freeze = factories.freeze(acme.session, acme.organization)
    factories.target(acme.session, freeze, acme.web, state="failed")
    viewer = member("viewer")
    page = viewer.open("/attention")
    assert "Failed targets Release under way" in words(page)
    assert "Open the freeze: Release under way" in words(page)
    assert viewer.client.get(page.links["Open the freeze"]).status_code == 200


def test_page_says_that_nothing_needs_attention(member: Enter) -> None:
    assert "Nothing needs attention" in member("viewer").open("/attention").text


def test_severity_without_alerts_does_not_say_that_all_is_well(member: Enter, acme: Scene) -> None:
    raise_item(acme, "warning", "Weekends", 1)
    viewer = member("viewer")
    assert "Nothing is critical" in viewer.open("/attention", severity="critical").text
    assert "Nothing needs attention" not in viewer.open("/attention", severity="info").text


def test_unknown_severity_leads_back_to_the_page(member: Enter) -> None:
    page = member("viewer").open("/attention", severity="none")
    assert (page.status, page.links["Back to Attention"]) == (400, "/attention")


def test_severities_without_alerts_are_not_read(member: Enter, acme: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_item(acme, "warning", "Weekends", 1)
    read: list[str | None] = []
    list_alerts = sources.list_alerts

    def recorded(uow: UnitOfWork, wanted: sources.AlertFilters, cursor: str | None, limit: int) -> Page:
        read.append(wanted.severity)
        return list_alerts(uow, wanted, cursor, limit)

    monkeypatch.setattr(sources, "list_alerts", recorded)
    page = member("viewer").open("/attention")
    assert "Weekends" in page.text
    assert {"warning"} <= set(read) < {"critical", "warning", "info"}
