"""Every link and form of every page leads somewhere, and what a viewer can press is not refused."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene
from tests.web.people.dashboard.filled import fill
from tests.web.people.dashboard.scenes import fill_organization
from tests.web.people.forms import Form, Page, Person

pytestmark = pytest.mark.check

_ID = re.compile(r"/[a-z]{3}_[a-z0-9]+")
ENDING = ("everywhere", "leave", "end", "another")
"""Values of buttons that end the session or the membership of the visitor, or lead to another organisation."""
Shape = tuple[str, tuple[str, ...]]
"""An address without ids and without the values of its parameters."""


def shape_of(address: str) -> Shape:
    parts = urlsplit(address)
    return _ID.sub("/{id}", parts.path), tuple(sorted({name for name, _ in parse_qsl(parts.query)}))


def crawl(person: Person) -> dict[str, Page]:
    """Return the pages that links lead to from the overview, one of each shape, by their addresses."""
    waiting, found, opened = ["/"], dict[str, Page](), set[Shape]()
    while waiting:
        address = waiting.pop()
        if shape_of(address) not in opened:
            opened.add(shape_of(address))
            found[address] = page = person.open(address)
            waiting += ours(page, address)
    return found


def ours(page: Page, address: str) -> Iterator[str]:
    """Yield the addresses of this site that a page leads to, without fragments."""
    for each in page.addresses:
        parts = urlsplit(each)
        elsewhere = parts.scheme or parts.netloc or parts.path.startswith(("/static/", "/docs"))
        if elsewhere or not (parts.path or parts.query):
            continue
        path = parts.path or urlsplit(address).path
        yield f"{path}?{parts.query}" if parts.query else path


def missing_fragments(pages: dict[str, Page]) -> list[str]:
    """Return the links to a place of a page that the page does not have."""
    found = []
    for address, page in pages.items():
        for each in page.addresses:
            parts = urlsplit(each)
            target = pages.get(f"{parts.path}?{parts.query}" if parts.query else parts.path) if parts.path else page
            if parts.fragment and target is not None and unquote(parts.fragment) not in target.ids:
                found.append(f"{address} → {each}")
    return found


def forms_of(pages: dict[str, Page]) -> Iterator[tuple[str, Form]]:
    """Yield one form of each target and button, and the address of its page."""
    known = set()
    for address, page in pages.items():
        for form in page.forms:
            shape = shape_of(form.action or address), tuple(sorted(form.buttons))
            if shape not in known:
                known.add(shape)
                yield address, form


def test_every_link_and_form_of_an_owner_leads_to_a_page(member: Enter, acme: Scene) -> None:
    fill_organization(member("admin"), acme)
    fill(acme)
    owner = member("owner")
    pages = crawl(owner)
    assert {address: page.status for address, page in pages.items() if page.status != 200} == {}
    assert missing_fragments(pages) == []
    for address, form in forms_of(pages):
        target = form.action or address
        if form.method == "get":
            assert owner.open(target, **form.fields).status == 200, target
        else:  # without its token it does nothing, and is refused by the page that would take it
            answer = owner.client.post(target, headers={"Origin": owner.site})
            assert (answer.status_code, "This form has expired" in answer.text) == (403, True), target


def test_viewer_is_led_nowhere_and_presses_nothing_that_is_refused(member: Enter, acme: Scene) -> None:
    fill_organization(member("admin"), acme)
    fill(acme)
    viewer = member("viewer")
    pages = crawl(viewer)
    assert {address: page.status for address, page in pages.items() if page.status != 200} == {}
    pressed = []
    for address, form in forms_of(pages):
        for name, value, text in form.buttons:
            if form.method == "post" and form.action != "/sign-out" and value not in ENDING:
                answer = viewer.client.post(
                    form.action or address, data={**form.fields, name: value}, headers={"Origin": viewer.site}
                )
                assert answer.status_code not in {401, 403, 404, 405, 500}, (address, text, answer.text)
                pressed.append(" ".join(text.split()))
    assert {"Save", "Ask for it", "Change name", "Change password"} <= set(pressed)


@pytest.mark.parametrize(("role", "plan"), [("viewer", "business"), ("owner", "free")])
def test_links_lead_to_pages_while_there_is_nothing(member: Enter, acme: Scene, role: str, plan: str) -> None:
    factories.change_plan(acme.session, acme.organization, plan)
    pages = crawl(member(role))
    assert {address: page.status for address, page in pages.items() if page.status != 200} == {}
