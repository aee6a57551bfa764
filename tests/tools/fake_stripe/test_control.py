"""The control plane, and the process with its state file."""

from pathlib import Path

import httpx

from tests.tools.fake_stripe.conftest import START
from tests.tools.fake_stripe.shop import DAY, Shop, period
from tools.fake_stripe import FakeStripe


def test_time_passes_on_demand(shop: Shop, http: httpx.Client) -> None:
    subscription = shop.subscribe()
    assert http.post("/_control/clock", json={"seconds": 32 * DAY}).json() == {"now": START + 32 * DAY}
    assert period(shop.again(subscription)) > period(subscription)
    assert http.post("/_control/clock", json={"seconds": -1}).status_code == 400


def test_calls_are_counted_and_reset_forgets_everything(shop: Shop, http: httpx.Client, fake: FakeStripe) -> None:
    shop.customer()
    http.get("/v1/nothing")
    shown = http.get("/_control/calls").json()
    assert shown == {"byOperation": {"POST /v1/customers": 1, "GET (unknown)": 1}, "byStatus": {"200": 1, "404": 1}}
    assert http.post("/_control/reset").status_code == 204
    assert fake.store.all("customer") == []
    assert http.get("/_control/calls").json()["byStatus"] == {}


def test_state_file_restores_everything(tmp_path: Path, shop: Shop, fake: FakeStripe) -> None:
    subscription = shop.subscribe(shop.price(currency_options={"usd": {"unit_amount": 1}}))
    shop.api.customers.delete(shop.customer())
    fake.state = tmp_path / "state.json"
    fake.advance(DAY)
    fake.save()
    restored = FakeStripe(state=fake.state, clock=fake.clock)
    for part in ("objects", "hidden", "deleted"):
        assert getattr(restored.store, part) == getattr(fake.store, part)
    assert (restored.moment, restored.settings) == (fake.moment, fake.settings)
    price = restored.store.objects["subscription"][subscription.id]["items"]["data"][0]["price"]
    assert price is restored.store.objects["price"][price["id"]]


def test_state_is_saved_after_a_reset_and_only_if_something_changed(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    stripe = FakeStripe(state=state)
    for name in ("Acme", "Globex"):
        stripe.reset()
        stripe.store.add("product", {"name": name})
        stripe.save()
    assert [each["name"] for each in FakeStripe(state=state).store.all("product")] == ["Globex"]
    state.unlink()
    stripe.save()
    assert not state.exists()
    state.write_text('{"version": 0}')
    assert FakeStripe(state=state).store.all("product") == []
