"""A program begins: its codes, and the metadata with the endpoints."""

import re
from collections.abc import Callable
from typing import Any

import httpx

from rules.access.user_codes import ALPHABET
from tests.handlers.callers import refusal
from tests.handlers.device_sign_in.requests import FORM, MINUTES_15, Device, Later, oauth_error


class TestDeviceCode:
    def test_device_code_returns_two_codes_with_their_lifetime_and_address(
        self, http: httpx.Client, redis: Any, database: str
    ) -> None:
        response = http.post("/api/auth/device/code", data={"client_id": "freeze-cli"})
        shown = response.json()
        assert (shown["expires_in"], shown["interval"]) == (600, 5)
        assert re.fullmatch(f"[{ALPHABET}]{{5}}-[{ALPHABET}]{{5}}", shown["user_code"])
        assert shown["verification_uri"] == "http://127.0.0.1:8080/device"
        assert shown["verification_uri_complete"] == f"{shown['verification_uri']}?user_code={shown['user_code']}"
        assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")

    def test_device_code_accepts_json_and_ignores_unknown_parameters(
        self, http: httpx.Client, redis: Any, database: str
    ) -> None:
        for request in (
            {"json": {"client_id": "freeze-cli", "resource": "http://127.0.0.1:8080"}},
            {"data": {"client_id": "freeze-cli", "resource": "http://127.0.0.1:8080", "scope": ""}},
            {
                "content": b"client_id=freeze%2Dcli",
                "headers": {"Content-Type": FORM["Content-Type"] + "; charset=UTF-8"},
            },
        ):
            assert http.post("/api/auth/device/code", **request).status_code == 200

    def test_device_code_reports_malformed_requests_as_oauth_errors(
        self, http: httpx.Client, redis: Any, database: str
    ) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, "invalid_request"),
            ({"content": b"client_id=freeze-cli"}, "invalid_request"),
            ({"content": b"<client_id/>", "headers": {"Content-Type": "text/xml"}}, "invalid_request"),
            ({"data": {"client_id": ""}}, "invalid_request"),
            ({"data": {"client_id": "x" * 101}}, "invalid_request"),
            ({"data": {"client_id": ["one", "two"]}}, "invalid_request"),
            ({"data": {"client_id": "a\0b"}}, "invalid_request"),
            ({"data": {"client_id": "\u202egpj"}}, "invalid_request"),
            ({"content": b"client_id=%ff", "headers": FORM}, "invalid_request"),
            ({"content": b"client_id=\xc3\xa9", "headers": FORM}, "invalid_request"),
            ({"content": b"&".join(b"a%d=1" % number for number in range(60)), "headers": FORM}, "invalid_request"),
            ({"json": {"client_id": 7}}, "invalid_request"),
            ({"json": {"client_id": {"a": "b"}}}, "invalid_request"),
            ({"json": ["client_id"]}, "invalid_request"),
            ({"content": b"[" * 10_000, "headers": {"Content-Type": "application/json"}}, "invalid_request"),
            (
                {"content": b'{"client_id": "\\ud800"}', "headers": {"Content-Type": "application/json"}},
                "invalid_request",
            ),
            (
                {"content": b'{"client_id": "a", "client_id": "b"}', "headers": {"Content-Type": "application/json"}},
                "invalid_request",
            ),
            ({"data": {"client_id": "freeze-cli", "scope": "freeze:write"}}, "invalid_scope"),
        ]
        for request_, error in cases:
            assert oauth_error(http.post("/api/auth/device/code", **request_)) == error

    def test_device_code_rejects_queries_and_large_bodies(self, http: httpx.Client, redis: Any, database: str) -> None:
        given = {"client_id": "freeze-cli"}
        refusal(http.post("/api/auth/device/code?client_id=a", data=given), 400, "invalid_parameter")
        refusal(http.post("/api/auth/device/code", data={**given, "x": "x" * 20_000}), 413, "payload_too_large")

    def test_device_code_is_rate_limited_per_address_with_retry_after(
        self, http: httpx.Client, begin: Callable[[], Device], later: Later
    ) -> None:
        for _ in range(30):
            begin()
        refused = http.post("/api/auth/device/code", data={"client_id": "freeze-cli"})
        refusal(refused, 429, "rate_limited")
        assert 0 < int(refused.headers["Retry-After"]) <= MINUTES_15
        later(minutes=15)
        begin()
