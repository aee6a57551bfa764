"""Client id metadata documents: the addresses that name one, and what it may say."""

import json
from datetime import timedelta
from typing import Any

import pytest

from rules.access.client_documents import (
    ClientRefusedError,
    freshness,
    is_document_address,
    parse_document,
    read_document,
    uses_refresh_tokens,
)

CLIENT_ID = "https://client.example/oauth/metadata.json"
DOCUMENT: dict[str, Any] = {
    "client_id": CLIENT_ID,
    "client_name": "Example Client",
    "redirect_uris": ["http://localhost/callback"],
}


@pytest.mark.parametrize(
    "client_id", [CLIENT_ID, "https://client.example/m?v=1", "https://localhost:9443/m.json", "https://8.8.8.8/m"]
)
def test_document_address_is_https_with_a_path(client_id: str) -> None:
    assert is_document_address(client_id)


@pytest.mark.parametrize(
    "client_id",
    [
        "",
        "freeze-cli",
        "http://client.example/m",
        "HTTPS://client.example/m",
        "https://client.example",
        "https://client.example/",
        "https://client.example/a/../m",
        "https://client.example/a/%2E%2e/m",
        "https://client.example/./m",
        "https://client.example/m#x",
        "https://client.example/m#",
        "https://user@client.example/m",
        "https://user:word@client.example/m",
        "https://client.example:0/m",
        "https://client.example:99999/m",
        "https://client.example/m m",
        "https://client.example/m\r\nHost: other",
        "https://cliént.example/m",
        "https://client.example\\@other.example/m",
        "https:///m",
        "https://" + "x" * 500 + ".example/m",
        "file:///etc/passwd",
    ],
)
def test_client_id_is_no_document_address_when_ambiguous(client_id: str) -> None:
    assert not is_document_address(client_id)


def test_document_gives_name_redirects_and_use_of_refresh_tokens() -> None:
    found = read_document(CLIENT_ID, DOCUMENT)
    assert (found.name, found.host, found.redirect_uris) == (
        "Example Client",
        "client.example",
        ("http://localhost/callback",),
    )


@pytest.mark.parametrize(
    ("document", "refreshes"),
    [
        ({}, True),
        ({"grant_types": ["authorization_code"]}, False),
        ({"grant_types": ["authorization_code", "refresh_token"]}, True),
        ({"grant_types": "authorization_code"}, True),
    ],
)
def test_client_uses_refresh_tokens_unless_its_grant_types_lack_them(document: dict[str, Any], refreshes: bool) -> None:
    assert uses_refresh_tokens(document) is refreshes


def test_client_name_is_one_short_line_without_control_characters() -> None:
    found = read_document(CLIENT_ID, {**DOCUMENT, "client_name": " Bank\u202e\nof  " + "x" * 200})
    assert found.name.startswith("Bank of x")
    assert len(found.name) == 80


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\u202eknaB\u202c", "knaB"),
        ("\u2066Bank\u2069 \u200b\u200d\ufeff2", "Bank 2"),
        ("Bank\u3164\u2800of\x00\x1b[0mus", "Bank of [0mus"),
        ("Ba\u0301\u0301\u0301\u0301\u0301\u0301nk", "B\u00e1\u0301\u0301\u0301nk"),
        ("\u05d1\u05e0\u05e7", "\u05d1\u05e0\u05e7"),
        ("e\u0301", "\u00e9"),
    ],
)
def test_client_name_shows_nothing_but_visible_characters(name: str, shown: str) -> None:
    assert read_document(CLIENT_ID, {**DOCUMENT, "client_name": name}).name == shown


@pytest.mark.parametrize("name", ["\u3164", "\u202e\u200b", "\u2800 \uffa0", "\u115f\u1160"])
def test_document_is_refused_when_its_name_shows_nothing(name: str) -> None:
    with pytest.raises(ClientRefusedError, match="client_name"):
        read_document(CLIENT_ID, {**DOCUMENT, "client_name": name})


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "https://client.example/other"},
        {"client_id": CLIENT_ID + "/"},
        {"client_id": None},
        {"client_secret": "x"},
        {"client_secret_expires_at": 0},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://client.example/jwks"},
        {"token_endpoint_auth_method": ["none"]},
        {"client_name": None},
        {"client_name": " \u200b\n "},
        {"client_name": 7},
        {"redirect_uris": []},
        {"redirect_uris": "http://localhost/callback"},
        {"redirect_uris": ["http://localhost/callback"] * 21},
        {"redirect_uris": ["http://localhost/callback", "http://client.example/callback"]},
        {"redirect_uris": ["com.example:/callback"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": [None]},
        {"redirect_uris": ["https://client.example/" + "x" * 1000]},
    ],
    ids=str,
)
def test_document_is_refused_when_it_breaks_a_rule(change: dict[str, Any]) -> None:
    with pytest.raises(ClientRefusedError):
        parse_document(CLIENT_ID, json.dumps({**DOCUMENT, **change}).encode())


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b'"x"', b"\xff", b"[" * 5000])
def test_document_is_refused_when_it_is_no_json_object(raw: bytes) -> None:
    with pytest.raises(ClientRefusedError):
        parse_document(CLIENT_ID, raw)


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        ("", 60),
        ("max-age=600", 600),
        ("public, MAX-AGE = 600", 600),
        ("max-age=1", 60),
        ("max-age=999999999", 86_400),
        ("max-age=600, no-store", 60),
        ("no-cache", 60),
        ("s-maxage=600", 60),
        ("max-age=nonsense", 60),
    ],
)
def test_document_is_fresh_for_a_minute_to_a_day(cache_control: str, seconds: int) -> None:
    assert freshness(cache_control) == timedelta(seconds=seconds)
