"""Parameters and bodies: what reaches the handler, and everything that does not."""

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.app.edge.machinery import things
from tests.harness.accounts import code

GOOD = {"name": "a thing", "scope": {"type": "organization"}}


def codes(response: httpx.Response) -> list[tuple[str, str]]:
    return [(row["path"], row["code"]) for row in response.json()["error"]["details"]]


def post(
    api: httpx.Client,
    content: bytes | Iterator[bytes],
    content_type: str = "application/json",
    path: str = "/v1/things",
) -> httpx.Response:
    return api.post(path, content=content, headers={"Content-Type": content_type})


class TestHandlerArguments:
    def test_query_values_are_typed_with_defaults(self, api: httpx.Client) -> None:
        query = "limit=7&startedAfter=2026-11-21T10:00:00%2B01:00&frozen=true&state=open&state=shut&ratio=0.5"
        assert api.get(f"/v1/things?{query}").status_code == 200
        assert things.SEEN["list_things"] == {
            "limit": 7,
            "cursor": None,
            "started_after": datetime(2026, 11, 21, 9, tzinfo=UTC),
            "frozen": True,
            "state": ["open", "shut"],
            "ratio": 0.5,
        }
        api.get("/v1/things?")
        assert things.SEEN["list_things"]["limit"] == 50

    def test_body_reaches_the_handler_with_snake_case_keys_and_defaults(self, api: httpx.Client) -> None:
        body = {**GOOD, "endsAt": "2026-12-24T17:00:00.1239+01:00", "count": 3.0, "options": None}
        assert api.post("/v1/things", json=body).status_code == 201
        assert things.SEEN["create_thing"] == {
            **GOOD,
            "allowed": True,
            "ends_at": datetime(2026, 12, 24, 16, 0, 0, 123_000, tzinfo=UTC),
            "count": 3,
            "options": None,
        }
        assert isinstance(things.SEEN["create_thing"]["count"], int)

    def test_empty_cursor_is_the_first_page(self, api: httpx.Client) -> None:
        assert api.get("/v1/things?cursor=").status_code == 200
        assert things.SEEN["list_things"]["cursor"] is None
        assert code(api.get("/v1/things?cursor=&cursor=")) == (400, "invalid_parameter")
        assert code(api.get("/v1/things?frozen=")) == (400, "invalid_parameter")

    def test_encoded_slash_stays_inside_its_path_segment(self, api: httpx.Client) -> None:
        assert api.get("/v1/things/acme%2Fweb").json()["name"] == "acme/web"
        assert api.get("/v1/things/caf%C3%A9%20au%20lait").json()["name"] == "café au lait"

    def test_chunked_body_is_read(self, api: httpx.Client) -> None:
        raw = json.dumps(GOOD).encode()
        assert post(api, iter([raw[:10], raw[10:]])).status_code == 201

    def test_raw_body_reaches_its_handler_unparsed(self, http: httpx.Client, acme: object) -> None:
        response = http.post("/webhooks/things", content=b"{not json", headers={"X-Event": "push", "X-Signature": "s"})
        assert (response.status_code, response.text) == (202, "taken")
        assert things.SEEN["receive"] == (b"{not json", "s", "push")
        assert code(http.post("/webhooks/things", content=b"{}")) == (400, "missing_parameter")
        assert code(http.post("/webhooks/things", content=b"x" * 2001)) == (413, "payload_too_large")


DEEP = b"[" * 100_000
MALFORMED = {
    "not JSON": b"{bad",
    "nothing but white space": b"  ",
    "two values": b"{} {}",
    "NaN": b'{"count": NaN}',
    "Infinity": b'{"count": -Infinity}',
    "an exponent beyond a double": b'{"count": 1e400}',
    "an underscore in a number": b'{"count": 1_0}',
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "a byte-order mark": b"\xef\xbb\xbf{}",
    "a lone surrogate": b'{"name": "\\ud800"}',
    "surrogates in the wrong order": b'{"name": "\\udc00\\ud800"}',
    "a raw NUL": b'{"name": "a\x00b"}',
    "100,000 open brackets": DEEP,
    "100,000 nested lists": DEEP + b"]" * 100_000,
    "300 nested lists": b"[" * 300 + b"]" * 300,
    "300 nested objects": b'{"a":' * 300 + b"1" + b"}" * 300,
    "a duplicate key": b'{"name": "a", "name": "b"}',
    "a duplicate key, escaped": b'{"name": "a", "n\\u0061me": "b"}',
    "a duplicate key, deep inside": b'{"scope": {"type": "glob", "type": "organization"}}',
    "a duplicate key beside escaped quotation marks": b'{"name": "\\"\\"\\"\\"", "name": "b"}',
}


class TestRejectedBodies:
    def test_body_other_than_strict_json_is_malformed(self, api: httpx.Client) -> None:
        for raw in MALFORMED.values():
            assert code(post(api, raw)) == (400, "malformed_json")

    @pytest.mark.parametrize(
        "content_type",
        [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=utf-16",
            "application/jsonp",
            "*/*",
        ],
    )
    def test_body_requires_the_json_content_type(self, api: httpx.Client, content_type: str) -> None:
        assert code(post(api, b"{}", content_type)) == (400, "unsupported_content_type")

    def test_body_limit_holds_where_no_body_is_documented(self, api: httpx.Client) -> None:
        for content in (b"x" * 16_385, iter([b"x" * 16_000, b"x" * 385])):
            assert code(api.post("/v1/installed", content=content)) == (413, "payload_too_large")
        assert post(api, b"{" + b" " * 16_382 + b"}", path="/v1/installed").is_success

    def test_json_content_type_may_name_the_utf_8_charset(self, api: httpx.Client) -> None:
        assert post(api, json.dumps(GOOD).encode(), 'Application/JSON; charset="UTF-8"').status_code == 201

    def test_refusal_of_a_charset_names_it(self, api: httpx.Client) -> None:
        answer = post(api, b"{}", "application/json; charset=latin1")
        assert answer.json()["error"]["message"] == "The charset of application/json must be utf-8 (got 'latin1')"

    def test_missing_body_is_a_missing_parameter(self, api: httpx.Client) -> None:
        assert code(api.post("/v1/things")) == (400, "missing_parameter")

    def test_body_above_the_limit_is_refused_before_being_read_completely(self, api: httpx.Client) -> None:
        assert code(post(api, b" " * (1 << 20) + b"{}")) == (413, "payload_too_large")
        taken = 0

        def endless() -> Iterator[bytes]:
            nonlocal taken
            for _ in range(10_000):
                taken += 1
                yield b" " * 65_536

        with (
            httpx.Client(base_url=api.base_url, headers=api.headers) as streaming,  # `api` reads the body first
            contextlib.suppress(httpx.WriteError),  # the server hung up while we were still sending: the better for it
        ):
            assert code(post(streaming, endless())) == (413, "payload_too_large")
        assert taken < 200

    def test_nul_character_in_a_string_is_rejected_with_its_path(self, api: httpx.Client) -> None:
        response = api.post("/v1/things", json={**GOOD, "tags": ["a\0b"], "name": "a\\u0000b"})
        assert code(response) == (422, "validation_failed")
        assert codes(response) == [("/tags/0", "validation_failed")]


class TestBodyErrors:
    def test_body_errors_are_reported_in_the_order_of_the_contract(self, api: httpx.Client) -> None:
        body = {"zzz": 1, "tags": ["too long", 3], "reason": "short", "scope": {"type": "glob"}, "name": "x"}
        response = api.post("/v1/things", json=body)
        assert code(response) == (422, "validation_failed")
        assert codes(response) == [
            ("/name", "validation_failed"),
            ("/scope/patterns", "invalid_glob"),
            ("/reason", "reason_required"),
            ("/tags/0", "validation_failed"),
            ("/tags/1", "validation_failed"),
            ("/zzz", "validation_failed"),
        ]

    def test_missing_property_is_a_missing_parameter_named_in_the_message(self, api: httpx.Client) -> None:
        response = api.post("/v1/things", json={"scope": {"type": "organization"}})
        assert code(response) == (400, "missing_parameter")
        assert response.json()["error"]["message"] == "name is required"

    def test_property_with_its_own_error_code_reports_the_code(self, api: httpx.Client) -> None:
        assert code(api.post("/v1/things", json={**GOOD, "reason": "short"})) == (422, "reason_required")
        for wrong in ("r" * 1001, 12345678, None):
            assert code(api.post("/v1/things", json={**GOOD, "reason": wrong})) == (422, "validation_failed")
        assert code(api.post("/v1/things", json={**GOOD, "window": {}})) == (422, "invalid_recurrence")
        assert code(api.post("/v1/things", json={**GOOD, "window": {"days": "3"}})) == (422, "invalid_recurrence")
        scope = {"type": "glob", "patterns": ["a", 1]}
        assert code(api.post("/v1/things", json={**GOOD, "scope": scope})) == (422, "invalid_glob")

    def test_variant_reports_only_errors_of_the_chosen_branch(self, api: httpx.Client) -> None:
        cases: list[tuple[Any, list[tuple[str, str]]]] = [
            ({}, [("/scope/type", "missing_parameter")]),
            ({"type": "galaxy"}, [("/scope/type", "validation_failed")]),
            ({"type": None}, [("/scope/type", "validation_failed")]),
            ("organization", [("/scope", "validation_failed")]),
            (None, [("/scope", "validation_failed")]),
            ({"type": "organization", "patterns": []}, [("/scope/patterns", "validation_failed")]),
            ({"type": "branch", "repository": "acme/web"}, [("/scope/branch", "missing_parameter")]),
            ({"type": "branch"}, [("/scope/branchId", "missing_parameter")]),
            ({"type": "branch", "branchId": 3}, [("/scope/branchId", "validation_failed")]),
            ({"type": "branch", "branch": "main"}, [("/scope/repository", "missing_parameter")]),
            (
                {"type": "branch", "branchId": "wbr_1", "branch": "main"},
                [("/scope/branch", "validation_failed")],
            ),
            (
                {"type": "branch", "branchId": "wbr_1", "repository": "acme/web", "branch": "main"},
                [("/scope/repository", "validation_failed"), ("/scope/branch", "validation_failed")],
            ),
        ]
        for scope, expected in cases:
            assert codes(api.post("/v1/things", json={**GOOD, "scope": scope})) == expected

    def test_value_that_violates_the_schema_is_rejected(self, api: httpx.Client) -> None:
        cases: list[dict[str, Any]] = [
            {"count": 1.5},
            {"count": True},
            {"count": "3"},
            {"count": 10**30},
            {"count": -1},
            {"count": 1e300},
            {"allowed": "true"},
            {"endsAt": "tomorrow"},
            {"endsAt": "2026-12-24"},
            {"endsAt": "2026-12-24T17:00:00"},
            {"endsAt": "2026-12-31T23:59:60Z"},
            {"endsAt": "0001-01-01T00:00:00+14:00"},
            {"endsAt": "0000-01-01T00:00:00Z"},
            {"endsAt": "9999-12-31T23:59:59-14:00"},
            {"email": "nobody"},
            {"organizationId": "org_1"},
            {"__proto__": {}},
            {"": 1},
            {"a" * 5000: 1},
            {"\u202e\x1b[31m": 1},
            {"options": {"depth": 10}},
            {"options": []},
        ]
        for changes in cases:
            assert code(api.post("/v1/things", json={**GOOD, **changes})) == (422, "validation_failed")

    def test_body_other_than_an_object_is_rejected(self, api: httpx.Client) -> None:
        cases: list[Any] = [[], "text", 3, None, True]
        for body in cases:
            response = post(api, json.dumps(body).encode())
            assert code(response) == (422, "validation_failed")
            assert response.json()["error"]["message"] == "the body must be an object"


REFUSED_QUERIES = {
    "limit=1_0": "limit",
    "limit=%D9%A1%D9%A0": "limit",
    "limit=+5": "limit",
    "limit=1.0": "limit",
    "limit=1e1": "limit",
    "limit=0": "limit",
    "limit=101": "limit",
    "limit=" + "9" * 5000: "limit",
    "limit=": "limit",
    "limit": "limit",
    "limit=5&limit=6": "limit",
    "frozen=True": "frozen",
    "frozen=1": "frozen",
    "ratio=NaN": "ratio",
    "ratio=inf": "ratio",
    "startedAfter=2026-11-21T10:00:00+01:00": "startedAfter",
    "startedAfter=2026-11-21": "startedAfter",
    "state=open&state=ajar": "state",
    "unknown=1": "unknown",
    "Limit=5": "Limit",
    "cursor=%zz": "cursor",
    "cursor=%": "cursor",
    "cursor=%ff": "cursor",
    "cursor=a%00b": "cursor",
    "cursor=%ed%a0%80": "cursor",
}


class TestQueryErrors:
    def test_query_value_that_violates_the_schema_is_an_invalid_parameter(self, api: httpx.Client) -> None:
        for query, path in REFUSED_QUERIES.items():
            response = api.get(f"/v1/things?{query}")
            assert code(response) == (400, "invalid_parameter")
            assert codes(response) == [(path, "invalid_parameter")]

    @pytest.mark.parametrize("query", ["", "&&", "limit=5&", "cursor=caf%C3%A9+au+lait"])
    def test_harmless_query_is_accepted(self, api: httpx.Client, query: str) -> None:
        assert api.get(f"/v1/things?{query}").status_code == 200

    def test_query_errors_are_reported_together(self, api: httpx.Client) -> None:
        assert len(codes(api.get("/v1/things?limit=0&frozen=x&nope=1"))) == 3

    def test_path_value_is_validated(self, api: httpx.Client) -> None:
        response = api.get("/v1/things/" + "a" * 101)
        assert (code(response), codes(response)) == ((400, "invalid_parameter"), [("thingId", "invalid_parameter")])
