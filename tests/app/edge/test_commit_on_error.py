"""A refusal that says that its effects stay: they are committed with it, once under a key, and its secret is sealed."""

from typing import Any

import httpx
import psycopg

from tests.app.edge.test_idempotency import BODY, code, create, effects
from tests.harness.wakeups import RecordedWakeups

STAYS = {**BODY, "name": "refused, and its effect stays"}


def test_effect_of_a_committed_error_is_kept_with_its_wakeup(
    api: httpx.Client, sql: psycopg.Connection[Any], wakeups: RecordedWakeups
) -> None:
    refused = api.post("/v1/things", json=STAYS)
    assert code(refused) == (409, "invalid_state")
    assert refused.json()["error"]["details"][0]["address"] == "https://go.test/canary-state"
    assert refused.json()["error"]["requestId"] == refused.headers["X-Request-Id"]
    assert effects(sql) == 1
    assert wakeups.sent == ["reconcile"]


def test_committed_error_is_replayed_with_one_effect_under_the_same_key(
    api: httpx.Client, sql: psycopg.Connection[Any], wakeups: RecordedWakeups
) -> None:
    first, again = create(api, "one", STAYS), create(api, "one", STAYS)
    assert code(first) == code(again) == (409, "invalid_state")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json()["error"]["details"] == first.json()["error"]["details"]
    assert effects(sql) == 1
    assert wakeups.sent == ["reconcile"]


def test_secret_of_a_committed_error_is_stored_encrypted(api: httpx.Client, sql: psycopg.Connection[Any]) -> None:
    create(api, "one", STAYS)
    [(secret, body, row)] = sql.execute("SELECT secret, body, idempotency_keys::text FROM idempotency_keys").fetchall()
    assert secret
    assert b"canary-state" not in bytes(body)
    assert "canary-state" not in row


def test_ordinary_error_leaves_no_effect(api: httpx.Client, sql: psycopg.Connection[Any]) -> None:
    refused = {**BODY, "name": "refused by the service"}
    assert code(api.post("/v1/things", json=refused)) == code(create(api, "one", refused)) == (409, "invalid_state")
    assert effects(sql) == 0
