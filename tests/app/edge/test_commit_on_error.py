"""An error with `commit_on_error`: its effects are committed with it, and it binds no idempotency key."""

from typing import Any

import httpx
import psycopg

from tests.app.edge.test_idempotency import BODY, create, effects
from tests.harness.accounts import code
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


def test_committed_error_does_not_bind_the_key_and_stores_nothing(
    api: httpx.Client, sql: psycopg.Connection[Any]
) -> None:
    first, again = create(api, "one", STAYS), create(api, "one", STAYS)
    assert code(first) == code(again) == (409, "invalid_state")
    assert "Idempotency-Replayed" not in again.headers
    assert effects(sql) == 2
    assert sql.execute("SELECT count(*) FROM idempotency_keys").fetchone() == (0,)
    assert create(api, "one").status_code == 201


def test_ordinary_error_leaves_no_effect(api: httpx.Client, sql: psycopg.Connection[Any]) -> None:
    refused = {**BODY, "name": "refused by the service"}
    assert code(api.post("/v1/things", json=refused)) == code(create(api, "one", refused)) == (409, "invalid_state")
    assert effects(sql) == 0
