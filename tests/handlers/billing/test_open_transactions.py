"""Transactions while Stripe is called: a Stripe that hangs must not hold locks, nor a connection in a transaction."""

import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from tests.handlers.billing.conftest import VISA, Shop
from tests.handlers.test_organization_deletion import signed_in
from tests.harness.engines import owner_engine_of
from tests.tools.fake_stripe.shop import press
from tools.simulation.faults import CALL_KINDS, Fault

OPEN_TRANSACTIONS = text("""
    SELECT pid, state, query FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      AND (xact_start IS NOT NULL OR state LIKE 'idle in transaction%')
""")
PATIENCE_SECONDS = 4.0
"""How long others than the caller may take to end their transactions: less than the caller waits for Stripe."""


class CallWatch:
    """Has each call of Stripe hang until its caller's transactions are known; stands in for the fault switch."""

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        self.open_transactions: dict[str, Sequence[Any]] = {}

    def hit(self, kind: str | tuple[str, ...], label: str) -> Fault | None:
        """Note the transactions that stay open as long as the call hangs; no fault strikes."""
        if kind == CALL_KINDS:
            call = re.sub(r"/(cus|sub|cs)_\w+", "/{id}", label)
            self.open_transactions[call] = [*self.open_transactions.get(call, ()), *self._wait_until_none_is_open()]
        return None

    def _wait_until_none_is_open(self) -> Sequence[Any]:
        give_up = time.monotonic() + PATIENCE_SECONDS
        with owner_engine_of(self.database_url, autocommit=True).connect() as connection:
            while (found := connection.execute(OPEN_TRANSACTIONS).all()) and time.monotonic() < give_up:
                time.sleep(0.05)
        return found


def test_no_transaction_is_open_while_stripe_is_called(
    shop: Shop, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.api.billing_portal.configurations.create({"features": {"payment_method_update": {"enabled": True}}})
    watch = CallWatch(database)
    monkeypatch.setattr(shop.fake.faults, "hit", watch.hit)
    shop.open_checkout()
    press(shop.open_checkout(), card=VISA)
    shop.work()
    assert shop.plan() == ("team", "stripe")
    assert shop.admin.post("/v1/billing/portal", {}, headers={"Idempotency-Key": "portal"}).status_code == 200
    shop.read_prices()
    owner = signed_in(shop.tenant, "owner")
    assert owner.post("/api/auth/org/delete", {"name": shop.tenant.organization.name}).status_code < 300
    shop.work()
    assert watch.open_transactions == {
        "POST /v1/customers": [],
        "GET /v1/subscriptions": [],
        "POST /v1/checkout/sessions": [],
        "POST /v1/checkout/sessions/{id}/expire": [],
        "POST /v1/billing_portal/sessions": [],
        "GET /v1/invoices": [],
        "GET /v1/prices": [],
        "DELETE /v1/subscriptions/{id}": [],
    }
