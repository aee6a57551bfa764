"""The reference and the error codes as pages: whole, linked, self-contained, and refusing like everything else."""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from flask.testing import FlaskClient

from app.edge.access_log import AccessLog
from app.edge.errors import ErrorMapper
from app.edge.middleware import RequestMiddleware
from app.edge.request_context import RequestContext
from app.mount_web import MountedPages
from rules.errors import ServiceError
from schemas.contract import Contract, load_contract
from tools.contract import Document
from web.application import create_pages
from web.reference import RENDERER

Ask = Callable[..., httpx.Response]
BOTH = ("/docs", "/docs/errors")


class Page(HTMLParser):
    """Ids, links and scripts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.inline: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids[given["id"]] += 1
        if tag in {"script", "img", "iframe"}:
            self.loaded.append(given.get("src", "inline"))
        if tag == "link":
            self.loaded.append(given["href"])
        if tag == "a":
            self.links.append(given["href"])
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.inline += [tag] if tag == "style" else []

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def contract() -> Contract:
    return load_contract()


@pytest.fixture(scope="module")
def client(contract: Contract) -> FlaskClient:
    return create_pages(contract).test_client()


async def count_nothing(_request: RequestContext, _code: str | None) -> None:
    """Leave out rate limits: pages take no credential."""


@pytest.fixture(scope="module")
def ask(contract: Contract) -> Ask:
    """Ask the pages as the service mounts them, behind the front that gives every answer its shape."""
    front: Any = RequestMiddleware(
        MountedPages(create_pages(contract)),
        errors=ErrorMapper(contract, "https://freeze.test/docs"),
        count=count_nothing,
        log=AccessLog(None),
    )

    async def answer(method: str, path: str, headers: dict[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="https://freeze.test") as client:
            return await client.request(method, path, headers=headers)

    return lambda method, path, **headers: asyncio.run(answer(method, path, headers))


@pytest.mark.parametrize("path", ["/docs//errors", "//docs", "/docs/", "/docs/errors/", "//evil.example/docs"])
def test_unusual_slashes_never_redirect_to_the_host_header(client: FlaskClient, ask: Ask, path: str) -> None:
    with suppress(ServiceError):
        answer = client.get(path, headers={"Host": "evil.example"})
        assert "evil.example" not in answer.headers.get("Location", "")
    mounted = ask("GET", path, Host="evil.example")
    assert not mounted.is_redirect


def page(client: FlaskClient, path: str) -> Page:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.mimetype == "text/html"
    return Page(answer.text)


class TestErrorsPage:
    def test_errors_page_has_one_anchor_per_code(self, client: FlaskClient, contract: Contract) -> None:
        ids = page(client, "/docs/errors").ids
        assert {code: ids[code] for code in contract.errors} == dict.fromkeys(contract.errors, 1)

    def test_errors_page_resolves_every_docs_url_of_the_contract(self, client: FlaskClient, contract: Contract) -> None:
        ids = page(client, "/docs/errors").ids
        anchors = re.findall(rb"/errors#([a-z_]+)", contract.source)
        assert anchors
        assert [anchor for anchor in anchors if ids[anchor.decode()] != 1] == []

    def test_errors_page_explains_each_code(self, client: FlaskClient, contract: Contract) -> None:
        text = " ".join(page(client, "/docs/errors").text.split())
        assert [row.code for row in contract.errors.values() if " ".join(row.meaning.split()) not in text] == []

    def test_errors_page_names_the_operations_that_return_a_code(self, client: FlaskClient) -> None:
        assert "/docs#tag/Freezes/operation/create_freeze" in page(client, "/docs/errors").links

    def test_errors_page_loads_no_script(self, client: FlaskClient) -> None:
        assert [each for each in page(client, "/docs/errors").loaded if each.endswith(".js")] == []


class TestReference:
    def test_reference_lists_every_operation_without_a_script(self, client: FlaskClient, contract: Contract) -> None:
        text = page(client, "/docs").text
        assert [
            operation.id for operation in contract.operations.values()
            if f"{operation.method} {operation.path}" not in text
        ] == []  # fmt: skip

    def test_reference_has_the_anchors_linked_by_the_errors_page(self, client: FlaskClient) -> None:
        ids = page(client, "/docs").ids
        linked = {link.partition("#")[2] for link in page(client, "/docs/errors").links if link.startswith("/docs#")}
        assert linked
        assert linked <= ids.keys()

    def test_reference_shows_the_extensions_of_a_write(self, client: FlaskClient, contract: Contract) -> None:
        shown = set(re.findall(r'"(x-[a-z-]+)"', client.get("/static/reference.js", buffered=True).text))
        said = {name for name in contract.document["paths"]["/v1/schedules"]["post"] if name.startswith("x-")}
        assert "x-audit" in said
        assert said <= shown

    def test_reference_serves_its_renderer_from_the_same_origin(self, client: FlaskClient) -> None:
        assert f"/static/{RENDERER}" in page(client, "/docs").loaded
        answer = client.get(f"/static/{RENDERER}", buffered=True)
        assert answer.mimetype == "text/javascript"
        assert answer.headers["Cache-Control"].endswith("max-age=31536000")

    def test_stylesheet_is_cached_briefly(self, client: FlaskClient) -> None:
        answer = client.get("/static/app.css", buffered=True)
        assert answer.headers["Cache-Control"].endswith("max-age=300")
        assert answer.headers["ETag"]

    def test_renderer_equals_the_published_file_of_its_package(self, client: FlaskClient) -> None:
        digest = hashlib.sha256(client.get(f"/static/{RENDERER}", buffered=True).data).hexdigest()
        assert digest in client.get("/static/vendor/README.md", buffered=True).text


@pytest.mark.parametrize("path", BOTH)
class TestDocumentationPages:
    def test_documentation_page_loads_nothing_from_other_origins(self, path: str, client: FlaskClient) -> None:
        assert [address for address in page(client, path).loaded if not address.startswith("/static/")] == []

    def test_documentation_page_has_no_inline_style_or_handler(self, path: str, client: FlaskClient) -> None:
        assert page(client, path).inline == []

    def test_documentation_page_restricts_sources_and_framing(self, path: str, client: FlaskClient) -> None:
        policy = client.get(path).headers["Content-Security-Policy"]
        sources = {source for part in policy.split("; ") for source in part.split()[1:]}
        assert sources <= {"'none'", "'self'", "'unsafe-inline'", "data:", "blob:"}
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self' 'unsafe-inline'" not in policy

    def test_documentation_page_has_one_main_heading_and_a_language(self, path: str, client: FlaskClient) -> None:
        html = client.get(path).text
        assert html.count("<h1>") == 1
        assert '<html lang="en"' in html


class TestMountedPages:
    @pytest.mark.parametrize("path", BOTH)
    def test_mounted_page_has_a_request_id_and_nosniff_header(self, path: str, ask: Ask) -> None:
        answer = ask("GET", path)
        assert answer.status_code == 200
        assert answer.headers["x-request-id"].startswith("req_")
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]

    @pytest.mark.parametrize("path", ["/docs/none", "/docs/", "/static/none.js", "/static/../pages.py"])
    def test_missing_page_is_refused_with_the_error_envelope(self, path: str, ask: Ask) -> None:
        answer = ask("GET", path)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"
        assert answer.json()["error"]["docsUrl"] == "https://freeze.test/docs/errors#not_found"
        assert answer.json()["error"]["requestId"] == answer.headers["x-request-id"]

    @pytest.mark.parametrize("path", ["/docs//errors", "/static//app.css", "/docs/"])
    def test_doubled_slash_redirects_nowhere(self, ask: Ask, path: str) -> None:
        answer = ask("GET", path, Host="evil.test")
        assert (answer.status_code, answer.headers.get("Location")) == (404, None)

    def test_unsatisfiable_range_is_refused_with_the_error_envelope(self, ask: Ask) -> None:
        answer = ask("GET", "/static/app.css", Range="bytes=999999-")
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "invalid_parameter"

    @pytest.mark.parametrize("method", ["POST", "OPTIONS", "DELETE"])
    def test_wrong_method_of_a_page_is_refused_with_the_error_envelope(self, method: str, ask: Ask) -> None:
        answer = ask(method, "/docs")
        assert answer.status_code == 405
        assert answer.json()["error"]["code"] == "method_not_allowed"
        assert answer.headers["allow"] == "GET, HEAD"


def test_every_error_of_an_operation_is_on_the_errors_page(client: FlaskClient, contract: Contract) -> None:
    ids = page(client, "/docs/errors").ids
    for operation in Document(contract.document).operations():
        assert {*operation.raw.get("x-errors", ()), *contract.cross_cutting} <= ids.keys()
