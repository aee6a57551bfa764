"""What a browser reads to show a page first: HTML, styles, scripts and icon, compressed."""

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache

import pytest

from models.audit import AuditEntry
from rules.audit.actions import ACTIONS
from rules.ids import new_id
from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene
from tests.web.people.dashboard.filled import ADA, addresses, fill
from tests.web.people.dashboard.scenes import fill_organization
from tests.web.people.dashboard.test_pages_in_chromium import FILLED
from tests.web.people.forms import Person
from web.dashboard.planning.timeline import LENGTHS

pytestmark = pytest.mark.slow(12)
MOST = {"br": 25_000, "gzip": 25_600}
"""Bytes of a first view."""
SCHEDULE = {
    "reason": "Nightly reports",
    "scope": {"type": "organization"},
    "timezone": "UTC",
    "recurrence": {"frequency": "daily", "startDate": f"{factories.now():%Y-%m-%d}"},
    "allowOverlap": True,
}
WORDS = ("billing", "checkout", "docs", "gateway", "identity", "mobile", "search", "warehouse", "ledger", "mail")
LISTS = (
    "/", "/freezes", "/freezes?show=ended", "/freezes?show=", "/exceptions", "/pulls", "/attention", "/repositories",
    "/branches", "/schedules", "/calendar", "/audit", "/freezes/new",
)  # fmt: skip


def received(person: Person, path: str, coding: str) -> tuple[str, int]:
    """Return a text, and how many bytes of it come through the network."""
    with person.client.stream("GET", path, headers={"Accept-Encoding": coding}) as answer:
        answer.read()
        return answer.text, answer.num_bytes_downloaded


def assert_small(person: Person, pages: Mapping[str, str], coding: str = "br") -> None:
    """Assert that the first view of each page, an address by its name, has at most 25 kB with its files."""

    @cache
    def size_of(file: str) -> int:
        return received(person, file, coding)[1]

    sizes = {}
    for name, path in pages.items():
        html, size = received(person, path, coding)
        files = set(re.findall(r'(?:href|src)="(/static/[^"?]+)', html))
        assert files, f"{path} has no style"
        sizes[name] = {"html": size, **{file: size_of(file) for file in files}}
    assert {name: of for name, of in sizes.items() if sum(of.values()) > MOST[coding]} == {}


def test_first_view_of_every_page_has_at_most_25_kilobytes(member: Enter, acme: Scene) -> None:
    admin = member("admin")
    ids = fill_organization(admin, acme)
    names = {**ids, "month": f"{factories.now() + timedelta(days=30):%Y-%m}"}
    pages = {**addresses(fill(acme)), **{name: path.format(**names) for name, path in FILLED.items()}}
    assert_small(admin, pages)
    assert_small(admin, {"overview": "/"}, "gzip")


def fill_lists(admin: Person, acme: Scene) -> dict[str, str]:
    """Give every list more than a page of rows, and return the addresses of those pages."""
    session, now = acme.session, factories.now()
    key = {"Authorization": f"Bearer {factories.api_key(session, acme.organization).secret}"}
    for number in range(50):
        window = {"startTime": f"{number % 22:02}:{number:02}", "endTime": f"{number % 22 + 2:02}:00", "days": 0}
        schedule = {**SCHEDULE, "name": f"Reports of region {number}", "window": window}
        answer = admin.client.post("/v1/schedules", json=schedule, headers=key)
        assert answer.status_code == 201, answer.text
    freeze = factories.freeze(session, acme.organization, reason="Quarter-end close", created_by=ADA)
    for number in range(60):
        repository = factories.repository(session, acme.organization, f"acme/{WORDS[number % 10]}-{number}")
        branch = factories.branch(session, repository)
        factories.branch_enforcement(session, branch, ("green", "red", "amber")[number % 3])
        factories.target(session, freeze, branch, state="applied", heads_total=number, heads_written=number)
        title = f"Fix the {WORDS[number % 10]} of {WORDS[number // 10]}"
        pull = factories.pull_request(session, repository, 100 + number, title=title)
        factories.exception(session, freeze, pull, branch, reason=f"The {WORDS[number % 10]} fails", requested_by=ADA)
        at = now - timedelta(seconds=number * 41_111)
        ended = {"started_at": at - timedelta(hours=number), "ended_at": at, "end_reason": "lifted", "ended_by": ADA}
        factories.freeze(session, acme.organization, [branch], reason=f"Release of {repository.name}", **ended)
        session.add(
            AuditEntry(
                id=new_id("aud"),
                organization_id=acme.organization.id,
                at=at,
                action=sorted(ACTIONS)[number],
                actor=ADA,
                source="api",
                target={"type": "freeze", "id": new_id("frz"), "name": f"Release of {repository.name}"},
                request_id=new_id("req"),
                details={},
            )
        )
    session.flush()
    return {
        "freeze": f"/freezes/{freeze.id}",
        **{path: path for path in LISTS},
        **{f"timeline of {days} days": f"/timeline?days={days}" for days in LENGTHS},
        "timeline as a list": f"/timeline?days={LENGTHS[-1]}&view=list",
    }


def test_first_view_of_full_lists_has_at_most_25_kilobytes(member: Enter, acme: Scene) -> None:
    admin = member("admin")
    assert_small(admin, fill_lists(admin, acme))
