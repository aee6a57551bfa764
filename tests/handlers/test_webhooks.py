"""Operations of the tag Webhooks: which deliveries are stored, and which are rejected unread."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.requests import WebhookDelivery
from services.core.unit_of_work import UnitOfWorkFactory
from tests.handlers.callers import Tenant, refusal
from tests.handlers.conftest import WEBHOOK_SECRET
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups

GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
PUSH = {"ref": "refs/heads/main", "repository": {"id": 1}, "installation": {"id": 7}}
MAIN = {"kind": "branches", "installation_id": 7, "github_id": 1, "names": ["main"], "head_sha": None}


def signed(body: bytes, secret: str = WEBHOOK_SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def deliver(
    http: httpx.Client, body: bytes, *, signature: str | bytes | None = "", guid: str = GUID, **headers: Any
) -> httpx.Response:
    """Send a delivery, rightly signed by default; a header of None is left out."""
    given = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": guid,
        "X-Hub-Signature-256": signed(body) if signature == "" else signature,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    present = {name: value for name, value in given.items() if value is not None}
    return http.post("/webhooks/github", content=body, headers=present)


def stored(session: Session) -> list[WebhookDelivery]:
    session.expire_all()
    return list(session.scalars(select(WebhookDelivery)))


def requests_of(row: WebhookDelivery) -> list[dict[str, Any]]:
    """Return what a stored webhook requests; nothing else of it is stored."""
    assert row.payload.keys() <= {"refresh_requests"}
    requests: list[dict[str, Any]] = row.payload.get("refresh_requests", [])
    return requests


class TestReceiveGithubWebhook:
    def test_webhook_is_stored_and_left_to_a_job(
        self, http: httpx.Client, session: Session, wakeups: RecordedWakeups
    ) -> None:
        body = json.dumps(PUSH, indent=2).encode()
        answer = deliver(http, body)
        assert (answer.status_code, answer.json()) == (202, {"deliveryId": GUID, "duplicate": False})
        [row] = stored(session)
        assert (row.delivery_id, row.event, row.installation_id, requests_of(row)) == (GUID, "push", 7, [MAIN])
        assert row.processed_at is None
        assert set(wakeups.sent) == {"webhooks"}

    def test_webhook_in_the_form_content_type_is_stored_like_json(self, http: httpx.Client, session: Session) -> None:
        body = urlencode({"payload": json.dumps(PUSH)}).encode()
        form = "application/x-www-form-urlencoded"
        assert deliver(http, body, Content_Type=form).status_code == 202
        assert [requests_of(row) for row in stored(session)] == [[MAIN]]
        for wrong in (b"", b"payload=", b"payload=%7B", b"other=1", json.dumps(PUSH).encode(), b"a=1&" * 20):
            refusal(deliver(http, wrong, guid=f"{GUID}-2", Content_Type=form), 400, "malformed_json")
        signature = signed(json.dumps(PUSH).encode())
        refusal(deliver(http, body, signature=signature, Content_Type=form), 401, "invalid_signature")

    def test_webhook_with_a_known_delivery_id_changes_nothing(self, http: httpx.Client, session: Session) -> None:
        body = json.dumps(PUSH).encode()
        deliver(http, body)
        other = json.dumps({**PUSH, "ref": "refs/heads/other"}).encode()
        for again in (body, other):
            answer = deliver(http, again)
            assert (answer.status_code, answer.json()["duplicate"]) == (202, True)
        assert [requests_of(row) for row in stored(session)] == [[MAIN]]

    def test_webhook_with_an_invalid_signature_is_refused_and_not_stored(
        self, http: httpx.Client, session: Session, wakeups: RecordedWakeups
    ) -> None:
        cases: list[str | bytes | None] = [
            None,
            "nonsense",
            "sha256=",
            "sha256=" + "0" * 64,
            b"sha256=\xe9" + b"0" * 63,
            "sha1=" + "0" * 40,
            signed(b"another body"),
            signed(json.dumps(PUSH).encode(), "another secret"),
            signed(json.dumps(PUSH).encode(), ""),
            signed(json.dumps(PUSH).encode()).removeprefix("sha256="),
        ]
        for signature in cases:
            refusal(deliver(http, json.dumps(PUSH).encode(), signature=signature), 401, "invalid_signature")
            assert stored(session) == []
            assert wakeups.sent == []

    @pytest.mark.parametrize(
        "again",
        [
            lambda body: json.dumps(json.loads(body), indent=1).encode(),
            lambda body: json.dumps(dict(reversed(json.loads(body).items()))).encode(),
            lambda body: body + b"\n",
            lambda body: body.replace(b"\xc3\xa9", b"\\u00e9"),
        ],
        ids=["other white space", "other order", "a line feed more", "escaped"],
    )
    def test_webhook_with_a_reformatted_body_is_refused(self, http: httpx.Client, session: Session, again: Any) -> None:
        body = json.dumps({**PUSH, "pusher": "Ren\u00e9e"}, ensure_ascii=False).encode()
        assert json.loads(again(body)) == json.loads(body)
        refusal(deliver(http, again(body), signature=signed(body)), 401, "invalid_signature")
        assert stored(session) == []

    def test_webhook_signature_covers_the_bytes_of_the_body(self, http: httpx.Client, session: Session) -> None:
        body = json.dumps({**PUSH, "pusher": "Ren\u00e9e"}, ensure_ascii=False).encode()
        assert deliver(http, body).status_code == 202
        assert [requests_of(row) for row in stored(session)] == [[MAIN]]

    def test_signed_webhook_without_a_json_object_is_malformed(self, http: httpx.Client, session: Session) -> None:
        cases: list[bytes] = [
            b"",
            b"{",
            b"[]",
            b"7",
            b'"push"',
            b"null",
            b"\xff\xfe",
            b'{"a": NaN}',
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"9" * 5000,
        ]
        for body in cases:
            refusal(deliver(http, body), 400, "malformed_json")
            assert stored(session) == []

    def test_webhook_with_an_odd_payload_never_causes_a_server_error(
        self, http: httpx.Client, session: Session
    ) -> None:
        cases: list[bytes] = [
            b"{}",
            b'{"installation": null, "repository": 7}',
            b'{"installation": {"id": "seven"}}',
            b'{"installation": {"id": -1}}',
            b'{"installation": {"id": true}}',
            b'{"installation": {"id": 99999999999999999999999999}}',
            b'{"ref": "a\\u0000b"}',
            b'{"\\u0000": 1}',
            b'{"ref": "\\ud800"}',
            b'{"a": 1e400}',
            b'{"a": 1, "a": 2}',
            b'{"a": -1e999}',
            b'{"a": ' + b"9" * 4000 + b"}",
            b'{"deep": ' + b"[" * 900 + b"]" * 900 + b"}",
            b'{"deep": ' + b"[" * 9000 + b"]" * 9000 + b"}",
            b'{"deep": ' + b"[" * 200 + b"]" * 200 + b"}",
        ]
        accepted = 0
        for number, payload in enumerate(cases):
            answer = deliver(http, payload, guid=f"delivery-{number}")
            assert answer.status_code in {202, 400}, answer.text
            accepted += answer.status_code == 202
            assert len(stored(session)) == accepted

    @pytest.mark.parametrize("event", ["push", "ping", "something_new", "x" * 100])
    def test_webhook_of_any_event_is_stored(self, http: httpx.Client, session: Session, event: str) -> None:
        assert deliver(http, b"{}", X_GitHub_Event=event).status_code == 202
        assert stored(session)[0].event == event

    @pytest.mark.parametrize(
        ("event", "action", "sender", "kept"),
        [
            ("check_run", "created", "change-freeze[bot]", False),
            ("check_run", "completed", "change-freeze[bot]", False),
            ("check_suite", "completed", "change-freeze[bot]", False),
            ("check_run", "completed", "octocat", True),
            ("check_run", "rerequested", "octocat", True),
            ("check_run", "requested_action", "octocat", True),
            ("check_suite", "rerequested", "octocat", True),
        ],
        ids=str,
    )
    def test_webhook_of_a_check_is_stored_if_another_caused_it(
        self, http: httpx.Client, session: Session, event: str, action: str, sender: str, *, kept: bool
    ) -> None:
        about = {"head_sha": "a" * 40, "app": {"id": 1, "slug": "change-freeze"}}
        body = {**PUSH, "action": action, "sender": {"login": sender}, event: about}
        answer = deliver(http, json.dumps(body).encode(), X_GitHub_Event=event)
        assert (answer.status_code, answer.json()["duplicate"]) == (202, False)
        assert len(stored(session)) == kept
        assert all(requests_of(row) for row in stored(session))

    @pytest.mark.parametrize("event", ["check_run", "check_suite"])
    def test_webhook_of_our_own_check_takes_no_transaction(
        self, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, event: str
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a transaction has begun")

        about = {"head_sha": "a" * 40, "app": {"id": 1, "slug": "change-freeze"}}
        body = {**PUSH, "action": "completed", "sender": {"login": "change-freeze[bot]"}, event: about}
        with monkeypatch.context() as without:
            without.setattr(UnitOfWorkFactory, "open", refuse)
            answer = deliver(http, json.dumps(body).encode(), X_GitHub_Event=event)
        assert (answer.status_code, answer.json()) == (202, {"deliveryId": GUID, "duplicate": False})
        refusal(deliver(http, b"{}", X_GitHub_Event=event, signature="sha256=" + "0" * 64), 401, "invalid_signature")
        refusal(deliver(http, b"{", X_GitHub_Event=event), 400, "malformed_json")

    def test_webhook_with_missing_headers_is_refused(self, http: httpx.Client, session: Session) -> None:
        cases: list[tuple[str, str | None, str]] = [
            ("X_GitHub_Event", None, "missing_parameter"),
            ("X_GitHub_Delivery", None, "missing_parameter"),
            ("X_GitHub_Event", "x" * 101, "invalid_parameter"),
            ("X_GitHub_Delivery", "x" * 101, "invalid_parameter"),
            ("X_GitHub_Delivery", "a b", "invalid_parameter"),
        ]
        for header, value, code in cases:
            changed: dict[str, Any] = {header: value}
            error = refusal(deliver(http, b"{}", **changed), 400, code)
            assert [row["path"] for row in error["details"]] == [header.replace("_", "-")]
            assert stored(session) == []

    def test_webhook_above_the_size_limit_is_refused(self, http: httpx.Client, session: Session) -> None:
        refusal(deliver(http, b" " * (25 * 1024 * 1024 + 1), signature="sha256=x"), 413, "payload_too_large")
        assert stored(session) == []

    def test_large_webhook_is_accepted(self, http: httpx.Client, session: Session) -> None:
        body = json.dumps({**PUSH, "commits": ["x" * 1000] * 3000}).encode()
        assert deliver(http, body).status_code == 202

    def test_webhook_ignores_credentials(self, http: httpx.Client, acme: Tenant, session: Session) -> None:
        body = json.dumps(PUSH).encode()
        token = f"Bearer {acme.key().token}"
        refusal(deliver(http, body, signature=None, Authorization=token), 401, "invalid_signature")
        assert deliver(http, body, Authorization="Bearer nonsense").status_code == 202

    def test_concurrent_webhooks_with_the_same_id_are_stored_once(self, http: httpx.Client, session: Session) -> None:
        body = json.dumps(PUSH).encode()
        answers = at_once(*[lambda: deliver(http, body)] * 8)
        assert [answer.json()["duplicate"] for answer in answers].count(False) == 1
        assert len(stored(session)) == 1
