"""The operator's command that sets up Stripe."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.commands.billing import main
from integrations.stripe import Stripe, StripeSettings
from tools.fake_stripe import FakeStripe, Handle, serve

OFFERS = """
[plans.team]
name = "Team"
taxBehavior = "exclusive"
month = {EUR = 4900, USD = 5300}

[plans.business]
month = {EUR = 19900}
year = {EUR = 199000}
"""


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    running = serve(FakeStripe())
    for name, value in {
        "DATABASE_URL": "postgresql://localhost/nothing",
        "REDIS_URL": "redis://localhost",
        "SECRET_KEY": "a secret of the tests",
        "STRIPE_SECRET_KEY": running.stripe.keys.secret_key,
        "STRIPE_WEBHOOK_SECRET": "whsec_of_the_tests",
        "STRIPE_API_URL": running.base_url,
    }.items():
        monkeypatch.setenv(name, value)
    yield running
    running.stop(wait=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "plans.toml"
    found.write_text(OFFERS)
    return found


def sold(handle: Handle) -> set[tuple[str, str, str, int]]:
    """Return plan, interval, currency and amount of what is on sale, as the service reads it."""
    client = Stripe(StripeSettings(handle.stripe.keys.secret_key, api_url=handle.base_url))
    return {
        (each.plan, each.interval, each.currency, each.unit_amount) for each in client.list_prices() if each.on_sale
    }


def test_setup_makes_what_is_sold_once(handle: Handle, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", str(file)]) == 0
    first = capsys.readouterr()
    assert sold(handle) == {
        ("team", "month", "EUR", 4900),
        ("team", "month", "USD", 5300),
        ("business", "month", "EUR", 19900),
        ("business", "year", "EUR", 199000),
    }
    [portal] = handle.stripe.store.all("billing_portal.configuration")
    assert first.out == f"STRIPE_PORTAL_CONFIGURATION={portal['id']}\n"
    assert portal["features"]["subscription_update"]["proration_behavior"] == "always_invoice"
    assert main(["setup", str(file)]) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "Everything is there already.\n")
    assert len(handle.stripe.store.all("price")) == 3
    assert len(handle.stripe.store.all("product")) == 2


def test_setup_replaces_a_price_that_changes(handle: Handle, file: Path) -> None:
    assert main(["setup", str(file)]) == 0
    file.write_text(OFFERS.replace("4900", "5900"))
    assert main(["setup", str(file)]) == 0
    assert ("team", "month", "EUR", 5900) in sold(handle)
    assert ("team", "month", "EUR", 4900) not in sold(handle)
    assert len(handle.stripe.store.all("price")) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[plans.free]\nmonth = {EUR = 1}",
        "[plans.team]",
        "[plans.team]\nmonth = {XXX = 1}",
        "[plans.team]\nday = {}",
    ],
)
def test_setup_rejects_a_file_that_is_wrong(handle: Handle, file: Path, text: str) -> None:
    file.write_text(text)
    assert main(["setup", str(file)]) == 1
    assert not handle.stripe.calls.exchanges


def test_setup_reports_what_stripe_refuses(handle: Handle, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handle.stripe.faults.add("revoked", "")
    assert main(["setup", str(file)]) == 1
    assert capsys.readouterr().err.startswith("Stripe: ")
