"""The control plane, and the process with its state file."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.tools.fake_stripe.conftest import START
from tests.tools.fake_stripe.shop import DAY, Shop
from tools.fake_stripe import FakeStripe


def test_time_passes_on_demand(shop: Shop, http: httpx.Client) -> None:
    subscription = shop.subscribe()
    assert http.post("/_control/clock", json={"seconds": 32 * DAY}).json() == {"now": START + 32 * DAY}
    assert shop.last_invoice(subscription).billing_reason == "subscription_cycle"
    assert http.post("/_control/clock", json={"to": START + 40 * DAY}).json() == {"now": START + 40 * DAY}
    assert http.post("/_control/clock", json={"to": START}).status_code == 400


def test_settings_are_read_and_changed(http: httpx.Client) -> None:
    changed = http.put("/_control/settings", json={"retryDays": [1], "afterRetries": "unpaid"}).json()
    assert changed == http.get("/_control/settings").json()
    assert (changed["retryDays"], changed["afterRetries"]) == ([1], "unpaid")
    assert http.put("/_control/settings", json={"unknown": 1}).status_code == 400


def test_latency_delays_answers(http: httpx.Client) -> None:
    http.put("/_control/settings", json={"latencyMs": 30})
    assert http.get("/v1/customers").elapsed.total_seconds() >= 0.03


def test_calls_are_counted_and_shown(shop: Shop, http: httpx.Client) -> None:
    shop.customer(metadata={"a": "b"})
    http.get("/v1/nothing")
    shown = http.get("/_control/calls", params={"reset": "true"}).json()
    assert shown["byOperation"] == {"POST /v1/customers": 1, "GET (unknown)": 1}
    assert shown["byStatus"] == {"200": 1, "404": 1}
    assert shown["exchanges"][0]["params"] == {"name": "Acme", "metadata": {"a": "b"}}
    assert http.get("/_control/calls").json()["exchanges"] == []
    http.get("/v1/customers")
    assert http.delete("/_control/calls").status_code == 204
    assert http.get("/_control/calls").json()["byStatus"] == {}


def test_reset_deletes_everything_but_settings(shop: Shop, http: httpx.Client, fake: FakeStripe) -> None:
    shop.subscribe()
    fake.settings.retry_days = [1]
    assert http.post("/_control/reset").status_code == 204
    assert shop.api.customers.list().data == []
    assert shop.api.events.list().data == []
    assert fake.settings.retry_days == [1]


def test_unknown_control_names_those_that_exist(http: httpx.Client) -> None:
    answer = http.get("/_control/nothing")
    assert answer.status_code == 404
    assert "POST /_control/clock" in answer.json()["known"]


def test_control_without_what_it_needs_is_refused(http: httpx.Client) -> None:
    assert http.put("/_control/keys", json={"key": "rk_test_x"}).status_code == 400


def test_state_file_restores_everything(tmp_path: Path, shop: Shop, fake: FakeStripe) -> None:
    subscription = shop.subscribe(shop.price(currency_options={"usd": {"unit_amount": 1}}))
    shop.api.customers.delete(shop.customer().id)
    fake.state = tmp_path / "state.json"
    fake.keys.restricted["rk_test_x"] = {"customer": "read"}
    fake.keys.expired.add("rk_test_y")
    fake.advance(DAY)
    fake.save()
    restored = FakeStripe(state=fake.state, clock=fake.clock)
    assert restored.store.objects == fake.store.objects
    assert restored.store.hidden == fake.store.hidden
    assert restored.store.deleted == fake.store.deleted
    assert restored.keys.restricted == fake.keys.restricted
    assert restored.keys.expired == fake.keys.expired
    assert restored.moment == fake.moment
    assert restored.settings == fake.settings
    price = restored.store.objects["subscription"][subscription.id]["items"]["data"][0]["price"]
    assert price is restored.store.objects["price"][price["id"]]


def test_state_is_written_only_if_something_changed(tmp_path: Path) -> None:
    stripe = FakeStripe(state=tmp_path / "state.json")
    stripe.save()
    stripe.state.unlink()  # type: ignore[union-attr]
    stripe.save()
    assert not list(tmp_path.iterdir())


def test_state_is_saved_after_a_reset(tmp_path: Path) -> None:
    stripe = FakeStripe(state=tmp_path / "state.json")
    for name in ("Acme", "Globex"):
        stripe.reset()
        stripe.store.add("product", {"name": name})
        stripe.save()
    assert [each["name"] for each in FakeStripe(state=stripe.state).store.all("product")] == ["Globex"]


def test_state_of_another_version_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text('{"version": 0}')
    assert FakeStripe(state=file).store.all("customer") == []


@pytest.mark.check
def test_process_saves_its_state_when_it_ends(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    command = [sys.executable, "-m", "tools.fake_stripe", "--port", "0", "--state", str(state)]
    for names in ([], ["Acme"]):
        with subprocess.Popen([*command, "--secret-key", "sk_test_own"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            base_url = process.stdout.readline().removeprefix("Stripe at ").strip()
            with httpx.Client(base_url=base_url, auth=("sk_test_own", ""), trust_env=False) as client:
                assert [each["name"] for each in client.get("/v1/customers").json()["data"]] == names
                client.post("/v1/customers", data={"name": "Acme"})
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
