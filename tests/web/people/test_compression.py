"""Answers are compressed for clients that accept it: pages, our files, and the JSON of the API from 1 KB on."""

import gzip
from unittest.mock import Mock

import brotli
import httpx
import pytest

from app.edge import compression
from app.edge.compression import MIN_BYTES, coding_for
from tests.web.people.forms import Person

STYLES, SCRIPT = "/static/app.css", "/static/app.js"
OPENAPI = "/openapi.json"
DECOMPRESS = {"br": brotli.decompress, "gzip": gzip.decompress}


def asked(person: Person, path: str, accepted: str = "gzip") -> tuple[httpx.Response, bytes]:
    """Return an answer, and its body as it was sent."""
    with person.client.stream("GET", path, headers={"Accept-Encoding": accepted}) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("coding", DECOMPRESS)
@pytest.mark.parametrize("path", ["/settings/account", STYLES, SCRIPT, OPENAPI, "/docs/guide/mcp", "/docs"])
def test_answer_is_compressed_for_clients_that_accept_it(ada: Person, path: str, coding: str) -> None:
    plain, body = asked(ada, path, "identity")
    packed, sent = asked(ada, path, coding)
    assert (plain.status_code, "content-encoding" in plain.headers) == (200, False)
    assert packed.headers["content-encoding"] == coding
    assert int(packed.headers["content-length"]) == len(sent) < len(body) / 2
    for answer in (plain, packed):
        assert "accept-encoding" in answer.headers["vary"].lower()
    if path.startswith(("/static", "/docs", "/openapi")):
        assert DECOMPRESS[coding](sent) == body
        assert packed.headers.get("etag") == plain.headers.get("etag")


@pytest.mark.parametrize("path", [OPENAPI, "/openapi.yaml", "/docs", "/docs/errors", "/docs/guide", "/docs/guide/mcp"])
def test_document_for_everybody_is_compressed_once(ada: Person, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, sent = asked(ada, path)
    monkeypatch.setattr(gzip, "compress", Mock(side_effect=AssertionError("compressed again")))
    again, same = asked(ada, path)
    assert (again.status_code, again.headers["content-encoding"], same) == (200, "gzip", sent)
    assert again.headers["etag"] == first.headers["etag"]
    known = ada.client.get(path, headers={"If-None-Match": first.headers["etag"], "Accept-Encoding": "gzip"})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", first.headers["etag"])
    changed = ada.client.get(path, headers={"If-None-Match": '"another"', "Accept-Encoding": "identity"})
    assert (changed.status_code, changed.content) == (200, gzip.decompress(sent))


def test_page_of_a_person_is_not_kept_compressed(ada: Person) -> None:
    assert "public" not in asked(ada, "/settings/account")[0].headers["cache-control"]
    before = compression._compress_once.cache_info()
    asked(ada, "/settings/account")
    assert compression._compress_once.cache_info() == before


def test_short_answer_is_sent_as_it_is(ada: Person) -> None:
    answer, sent = asked(ada, "/healthz")
    assert len(sent) < MIN_BYTES
    assert {"content-encoding", "vary"} & set(answer.headers) == set()


def test_redirect_and_unchanged_file_have_no_body(ada: Person, visitor: Person) -> None:
    assert asked(visitor, "/settings/account")[0].status_code == 303
    tag = asked(ada, STYLES)[0].headers["etag"]
    answer = ada.client.get(STYLES, headers={"If-None-Match": tag, "Accept-Encoding": "gzip"})
    assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, ""),
        (b"", ""),
        (b"identity", ""),
        (b"gzip", "gzip"),
        (b"deflate, GZIP;q=0.5", "gzip"),
        (b"gzip; q=0", ""),
        (b"gzip;q=0.000, *", "br"),
        (b"gzip;q=0, br;q=0, *", ""),
        (b"gzip;q=x", ""),
        (b"*", "br"),
        (b"gzip, deflate, br, zstd", "br"),
        (b"br;q=0.2, gzip;q=0.8", "gzip"),
        (b"br;q=1.0, *;q=0", "br"),
    ],
)
def test_accept_encoding_is_read_as_http_says(header: bytes | None, accepted: str) -> None:
    assert coding_for(header) == accepted


def test_token_of_forms_looks_different_in_each_page_and_is_accepted(ada: Person) -> None:
    pages = [ada.open("/settings/account") for _ in range(3)]
    tokens = [page.form("Create organisation").fields["token"] for page in pages]
    assert len(set(tokens)) == 3
    assert len(set.intersection(*(set(zip(range(128), token, strict=False)) for token in tokens))) < 10
    assert "Your organisation has been created" in ada.press(pages[0], "Create organisation", name="Acme").text


def test_token_that_is_none_is_refused(ada: Person) -> None:
    cases: list[str] = [
        "",
        "x",
        "00",
        "0" * 64,
        "0" * 128,
        "0" * 127,
    ]
    for wrong in cases:
        form = ada.open("/settings/account").form("Create organisation")
        assert ada.send(form, token=wrong).status_code == 403
