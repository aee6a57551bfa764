"""`/docs/guide`: the guide in the product, whose links lead somewhere."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from flask.testing import FlaskClient

from schemas.contract import load_contract
from web.application import create_pages
from web.dashboard.navigation import HELP, SECTIONS
from web.guide import CHAPTERS, FOLDER

LINK = re.compile(r'href="([^"]+)"')
ID = re.compile(r'id="([^"]+)"')


@pytest.fixture(scope="module")
def client() -> Iterator[FlaskClient]:
    with create_pages(load_contract()).test_client() as client:
        yield client


def shown(client: FlaskClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.get_data(as_text=True)


def test_guide_has_every_file_and_each_section_has_its_chapter() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(CHAPTERS)
    assert set(HELP.values()) <= set(CHAPTERS)
    assert {section.address for section in SECTIONS} <= set(HELP)


def test_contents_lead_to_every_chapter(client: FlaskClient) -> None:
    assert {f"/docs/guide/{name}" for name in CHAPTERS} <= set(LINK.findall(shown(client, "/docs/guide")))


@pytest.mark.parametrize("name", CHAPTERS)
def test_links_of_a_chapter_lead_to_pages_and_headings(client: FlaskClient, name: str) -> None:
    html = shown(client, f"/docs/guide/{name}")
    article = html.partition("<article>")[2]
    missing = []
    for target in LINK.findall(article):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            continue
        page = shown(client, parts.path) if parts.path else html
        if parts.fragment and parts.fragment not in ID.findall(page):
            missing.append(target)
    assert missing == []
    assert "<h1" in article
    assert ".md" not in "".join(LINK.findall(article))


def test_chapter_shows_tables_and_code_and_no_html_of_its_own(client: FlaskClient) -> None:
    html = shown(client, "/docs/guide/freezes")
    for scrolled in ("<table", "<pre"):
        assert f'{scrolled} tabindex="0">' in html or f'{scrolled}><code tabindex="0"' in html
    assert "<style" not in html
    assert "style=" not in html


@pytest.mark.parametrize("name", ["nothing", "..%2fREADME", "README"])
def test_unknown_chapter_is_not_found(client: FlaskClient, name: str) -> None:
    with pytest.raises(Exception, match="There is nothing at this address"):
        client.get(f"/docs/guide/{name}")
