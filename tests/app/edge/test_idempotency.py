"""One effect per idempotency key (I5)."""

from datetime import timedelta
from typing import Any

import httpx
import psycopg
import pytest

from app.database import WORKER_ROLE
from services.core.stored_replies import decrypt_body
from services.core.unit_of_work import UnitOfWorkFactory
from services.maintenance.retention import purge_expired
from tests.app.edge.machinery import things
from tests.factories import SECRET_KEY
from tests.harness.accounts import code
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.tenants import Tenant, tenant
from tests.harness.wakeups import RecordedWakeups

BODY = {"name": "a thing", "scope": {"type": "organization"}}


def create(api: httpx.Client, key: str, body: Any = BODY, **headers: str) -> httpx.Response:
    return api.post("/v1/things", json=body, headers={"Idempotency-Key": key, **headers})


def effects(sql: psycopg.Connection[Any]) -> int:
    found: int = sql.execute("SELECT count(*) FROM audit_entries").fetchone()[0]  # type: ignore[index]
    return found


def test_repeated_request_is_replayed_without_a_second_effect(
    api: httpx.Client, sql: psycopg.Connection[Any], wakeups: RecordedWakeups
) -> None:
    first = create(api, "one")
    again = create(api, '"one"')
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first.headers["Location"] == again.headers["Location"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.headers["X-Request-Id"] != again.headers["X-Request-Id"]
    assert "RateLimit-Remaining" in again.headers
    assert effects(sql) == 1
    assert wakeups.sent == ["reconcile"]


def test_reformatted_json_body_is_the_same_request(api: httpx.Client) -> None:
    create(api, "one")
    raw = b'{"scope": {"type":   "organization"},\n"name":"a thing"}'
    again = api.post("/v1/things", content=raw, headers={"Idempotency-Key": "one", "Content-Type": "application/json"})
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("empty", [b"", b"null", b"{}"])
def test_every_empty_body_is_the_same_request(api: httpx.Client, empty: bytes) -> None:
    headers = {"Idempotency-Key": "one", "Content-Type": "application/json"}
    assert api.delete("/v1/things/a", headers={"Idempotency-Key": "one"}).status_code == 204
    again = api.request("DELETE", "/v1/things/a", content=empty, headers=headers)
    assert (again.status_code, again.headers.get("Idempotency-Replayed")) == (204, "true")


def test_stored_hash_of_a_request_is_another_for_each_key(api: httpx.Client, sql: psycopg.Connection[Any]) -> None:
    create(api, "one")
    create(api, "two")
    hashes = [row[0] for row in sql.execute("SELECT request_hash FROM idempotency_keys").fetchall()]
    assert len({*hashes}) == 2  # or passwords in bodies could be guessed with one table for all


def test_idempotency_key_reuse_for_another_request_is_a_conflict(
    api: httpx.Client, sql: psycopg.Connection[Any]
) -> None:
    create(api, "one")
    assert code(create(api, "one", {**BODY, "name": "other"})) == (409, "idempotency_key_reuse")
    assert code(api.delete("/v1/things/a", headers={"Idempotency-Key": "one"})) == (409, "idempotency_key_reuse")
    assert effects(sql) == 1


def test_fifty_concurrent_requests_with_one_key_have_one_effect(
    api: httpx.Client, sql: psycopg.Connection[Any]
) -> None:
    replies = at_once(*[lambda: create(api, "one")] * 50)
    assert effects(sql) == 1
    fresh = [one for one in replies if one.status_code == 201 and "Idempotency-Replayed" not in one.headers]
    assert len(fresh) == 1
    for one in replies:
        assert one.content == fresh[0].content or code(one) == (409, "idempotency_key_reuse")


def test_repeated_request_is_a_conflict_while_the_first_is_in_progress(
    api: httpx.Client, sql: psycopg.Connection[Any]
) -> None:
    headers = {"Idempotency-Key": "held"}
    with things.holding(lambda: api.post("/v1/things/a/hold", headers=headers)) as first:
        second = api.post("/v1/things/a/hold", headers=headers)
    assert code(second) == (409, "idempotency_key_reuse")
    assert second.headers["Retry-After"] == "1"
    assert first.result().status_code == 200
    assert api.post("/v1/things/a/hold", headers=headers).headers["Idempotency-Replayed"] == "true"
    assert effects(sql) == 1


def test_refused_request_is_rolled_back_and_corrected_under_the_same_key(
    api: httpx.Client, sql: psycopg.Connection[Any], wakeups: RecordedWakeups
) -> None:
    body = {**BODY, "name": "refused by the service"}
    first, again = create(api, "one", body), create(api, "one", body)
    assert code(first) == code(again) == (409, "invalid_state")
    assert "Idempotency-Replayed" not in again.headers
    assert effects(sql) == 0
    assert wakeups.sent == []
    corrected = create(api, "one")
    assert (corrected.status_code, "Idempotency-Replayed" in corrected.headers) == (201, False)
    assert create(api, "one").headers["Idempotency-Replayed"] == "true"


def test_error_that_an_earlier_version_has_stored_does_not_bind_the_key(
    api: httpx.Client, sql: psycopg.Connection[Any]
) -> None:
    create(api, "one")
    sql.execute("UPDATE idempotency_keys SET status = 409")
    again = create(api, "one", {**BODY, "name": "another"})
    assert (again.status_code, "Idempotency-Replayed" in again.headers) == (201, False)


def test_rejected_input_and_internal_errors_are_not_stored(api: httpx.Client, sql: psycopg.Connection[Any]) -> None:
    assert create(api, "one", {}).status_code == 400
    assert create(api, "one", {**BODY, "name": "x"}).status_code == 422
    assert create(api, "one", {**BODY, "name": "fails within"}).status_code == 500
    assert create(api, "one").status_code == 201
    assert effects(sql) == 1


def test_idempotency_key_is_bound_to_principal_and_organization(
    http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any]
) -> None:
    globex = tenant(sql, "globex")
    for credential in (acme.key(), acme.key(), acme.session(), globex.key()):
        reply = create(http, "one", Authorization=f"Bearer {credential}")
        assert (reply.status_code, "Idempotency-Replayed" in reply.headers) == (201, False)


def test_idempotency_key_expires_after_a_day(
    api: httpx.Client, sql: psycopg.Connection[Any], clock: MovableClock
) -> None:
    create(api, "one")
    clock.offset = timedelta(hours=23, minutes=59)
    assert create(api, "one").headers["Idempotency-Replayed"] == "true"
    clock.offset = timedelta(hours=24, seconds=1)
    fresh = create(api, "one", {**BODY, "name": "another"})
    assert (fresh.status_code, "Idempotency-Replayed" in fresh.headers) == (201, False)
    assert effects(sql) == 2


@pytest.mark.parametrize("key", ["", '""', "a b", "é", "x" * 256, '"unfinished', "a\tb"])
def test_invalid_idempotency_key_is_rejected(api: httpx.Client, key: str) -> None:
    if key == '"unfinished':
        assert create(api, key).status_code == 201  # a quotation mark is a visible character too
        return
    response = api.post("/v1/things", json=BODY, headers={b"Idempotency-Key": key.encode("latin-1")})
    assert code(response) == (400, "invalid_parameter")


def test_duplicate_idempotency_key_header_is_rejected(api: httpx.Client) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b"), ("Authorization", api.headers["Authorization"])]
    assert code(api.post("/v1/things", json=BODY, headers=headers)) == (400, "invalid_parameter")


def test_secret_is_replayed_for_an_hour_and_stored_encrypted(
    api: httpx.Client, sql: psycopg.Connection[Any], database: str, clock: MovableClock
) -> None:
    replies = [api.post("/v1/things/a/reveal", headers={"Idempotency-Key": "one"}) for _ in range(2)]
    assert replies[0].content == replies[1].content
    assert b"canary-secret" in replies[1].content
    rows = sql.execute("SELECT body, idempotency_keys::text FROM idempotency_keys").fetchall()
    assert [b"canary-secret" in bytes(body) or "canary-secret" in row for body, row in rows] == [False]
    body = bytes(rows[0][0])
    assert decrypt_body([b"another secret of a service"], "one", body) is None, "the key of the client is not enough"
    assert decrypt_body([SECRET_KEY.encode()], "another key", body) is None
    assert decrypt_body([SECRET_KEY.encode()], "one", body) == replies[0].content
    clock.offset = timedelta(minutes=59)
    assert api.post("/v1/things/a/reveal", headers={"Idempotency-Key": "one"}).status_code == 200
    clock.offset = timedelta(hours=1, seconds=1)
    assert code(api.post("/v1/things/a/reveal", headers={"Idempotency-Key": "one"})) == (409, "idempotency_key_reuse")
    purge_expired(UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, RecordedWakeups()))
    assert sql.execute("SELECT secret, body FROM idempotency_keys").fetchall() == [(True, None)]
    assert code(api.post("/v1/things/a/reveal", headers={"Idempotency-Key": "one"})) == (409, "idempotency_key_reuse")
    assert effects(sql) == 1
