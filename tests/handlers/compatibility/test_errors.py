"""Refusals below the prefix: the older shape for every status, and what is refused."""

from collections.abc import Callable

import httpx
import pytest

from app.edge.errors import ErrorMapper
from app.edge.request_context import RequestContext
from models.repositories import WatchedBranch
from rules.errors import ServiceError
from schemas.contract import load_contract
from tests.handlers.compatibility.requests import FORM, PREFIX, ClassicClient, refused, shown
from tests.harness.contract_assertions import assert_classic_error, assert_envelope

MAIN = f"{PREFIX}/branches/acme/web/main/"


def context(path: str) -> RequestContext:
    return RequestContext(
        {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}, None, None
    )


@pytest.mark.parametrize("code", sorted(load_contract().errors))
def test_every_code_has_the_older_shape_below_the_prefix_alone(code: str) -> None:
    mapper = ErrorMapper(load_contract(), "https://docs.example")
    for path in (MAIN, "/api/compat/", "/api/compat/v2/x"):
        reply = mapper.reply(ServiceError(code, "Why.", retry_after=3), context(path))
        response = httpx.Response(reply.status, headers=[(b"X-Request-Id", b"req"), *reply.headers], content=reply.body)
        assert {**response.json(), "request_id": ""} == {"error": "Why.", "code": code, "request_id": ""}
        assert response.headers["Retry-After"] == "3"
    reply = mapper.reply(ServiceError(code, "Why."), context("/v1/freezes"))
    assert b'"docsUrl"' in reply.body


class TestRouting:
    def test_unknown_path_is_404(self, client: ClassicClient) -> None:
        cases: list[str] = [
            "",
            "/",
            "/branches",
            "/branches/",
            "/branches/acme/web",
            "/branches//web/main",
            "/a/b/c/d/e/f/g/h",
            "/%00",
        ]
        for path in cases:
            answer = client.get(path)
            refused(answer, 404, "not_found")
            assert_classic_error(answer)

    def test_unknown_version_is_404_in_the_older_shape_and_v1_keeps_its_own(self, http: httpx.Client) -> None:
        refused(http.get("/api/compat/v2/branches/acme"), 404, "not_found")
        assert_envelope(http.get("/v1/nothing"))
        assert_envelope(http.get("/api/nothing"))

    @pytest.mark.parametrize(
        ("path", "allowed"),
        [
            ("/branches/acme", "GET, HEAD"),
            ("/branches/acme/web/release/1.2/", "GET, HEAD, POST"),
            ("/scheduled_freezes/", "POST"),
            ("/generate_access_token", "POST"),
        ],
    )
    def test_wrong_method_is_405_and_names_the_right_ones(self, client: ClassicClient, path: str, allowed: str) -> None:
        answer = client.http.delete(client.address(path))
        refused(answer, 405, "method_not_allowed")
        assert answer.headers["Allow"] == allowed

    def test_head_is_answered_without_a_body(self, client: ClassicClient, web: WatchedBranch) -> None:
        answer = client.http.head(client.address("/branches/acme/web/main/"))
        assert (answer.status_code, answer.content) == (200, b"")


class TestUnknownObjects:
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_unknown_names_are_404(self, client: ClassicClient, web: WatchedBranch, method: str) -> None:
        client.acme.repository("off", enabled=False)
        for path, code in (
            ("acme/web/Main", "branch_not_found"),
            ("acme/web/main//x", "branch_not_found"),
            ("acme/web/%2F", "branch_not_found"),
            ("acme/web/a b%C3%A9", "branch_not_found"),
            ("acme/off/main", "repository_not_found"),
            ("acme/acme%2Fweb/main", "repository_not_found"),
            ("nobody/web/main", "repository_not_found"),
        ):
            answer = client.http.request(method, client.address(f"/branches/{path}"), content=b"frozen=true")
            refused(answer, 404, code)

    def test_name_that_is_too_long_is_400(self, client: ClassicClient, web: WatchedBranch) -> None:
        refused(client.get(f"/branches/acme/web/{'x' * 256}"), 400, "invalid_parameter")


class TestBodies:
    @pytest.mark.parametrize("media", ["text/plain", "multipart/form-data; boundary=x", "application/xml", "x"])
    def test_other_content_type_is_refused(self, client: ClassicClient, web: WatchedBranch, media: str) -> None:
        refused(client.post(b"frozen=true", content_type=media), 400, "unsupported_content_type")
        assert client.state()["frozen"] is False
        shown(client.post(b"", content_type=media))

    def test_body_other_than_a_json_object_is_malformed(self, client: ClassicClient, web: WatchedBranch) -> None:
        cases: list[bytes] = [b"{", b"[]", b"3", b'"x"', b"\xff", b'{"a": "\\ud800"}', b"[" * 10_000]
        for body in cases:
            refused(client.post(body, content_type="application/json"), 400, "malformed_json")

    def test_unreadable_body_is_counted_and_its_sender_identified_first(
        self, client: ClassicClient, client_with: Callable[..., ClassicClient], web: WatchedBranch
    ) -> None:
        for body, media in ((b"[null]", "application/json"), (b"x" * 70_000, FORM), (b"x", "text/plain")):
            answer = client.post(body, content_type=media)
            assert answer.status_code in {400, 413}
            assert int(answer.headers["RateLimit-Remaining"]) >= 0
            refused(client_with("freeze:read").post(body, content_type=media), 403, "insufficient_scope")
            refused(client.http.post(f"{MAIN}?access_token=nonsense", content=body), 401, "invalid_token")
        refused(client.http.post(MAIN, json=[None]), 400, "malformed_json")

    def test_frozen_that_is_neither_true_nor_false_is_refused(self, client: ClassicClient, web: WatchedBranch) -> None:
        cases: list[str] = ["yes", "", "2", "-1", "null", "tru", "%FF", "true,false", "t" * 5000]
        for value in cases:
            assert "frozen" in refused(client.post(f"frozen={value}".encode()), 400, "invalid_parameter")

    def test_frozen_in_json_other_than_true_or_false_is_refused(
        self, client: ClassicClient, web: WatchedBranch
    ) -> None:
        for value in ("[]", "{}", '"maybe"', "2", "1.5", "[true]"):
            body = f'{{"frozen": {value}}}'.encode()
            refused(client.post(body, content_type="application/json"), 400, "invalid_parameter")

    @pytest.mark.parametrize("value", ["true", '"True"', "1", '" 1 "', '"TRUE"'])
    def test_frozen_in_json_may_be_text_or_number(self, client: ClassicClient, web: WatchedBranch, value: str) -> None:
        body = f'{{" frozen ": {value}, "note": null, "user_name": 7, "unknown": [[]]}}'.encode()
        assert shown(client.post(body, content_type="application/json; charset=utf-8"))["frozen_by"] == "7"

    def test_odd_forms_are_read_leniently(self, client: ClassicClient, web: WatchedBranch) -> None:
        body = b"&&=&x&frozen&frozen=false& frozen =true&user_name=\xffAda+B%20%C3%A9%&=x&note"
        assert client.change(body)["frozen_by"] == "\ufffdAda B é%"

    def test_large_body_is_413_and_a_long_note_is_cut(self, client: ClassicClient, web: WatchedBranch) -> None:
        answer = client.post(b"frozen=true&note=" + b"x" * 70_000)
        refused(answer, 413, "payload_too_large")
        assert_classic_error(answer)
        refused(client.http.post(client.address("/scheduled_freezes"), content=b"x" * 70_000), 413, "payload_too_large")
        many = b"&".join(b"a=1" for _ in range(10_000))
        assert client.change(b"frozen=true&note=" + "é".encode() * 5000 + b"&" + many)["note"] == "é" * 1000
