"""Changes of keys apply in every process at once, and secrets are never shown again."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import psycopg
import pytest

from app.main import create_app
from tests import factories
from tests.handlers.api_keys.requests import PATH, SECOND, USED, instant, listed, made, rotated
from tests.handlers.callers import Caller, Tenant, refusal
from tests.harness.clock import MovableClock
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.response_conformance import checked_client
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups


@pytest.fixture(scope="session")
def other_process(
    shared_database: psycopg.Connection,
    redis_url: str,
    clock_of_session: MovableClock,
    wakeups_of_session: RecordedWakeups,
) -> Iterator[httpx.Client]:
    """Serve the product a second time, on the same database, and return a client of it."""
    config = product_config(
        address_of(shared_database), redis_url, base_url=factories.AUDIENCE, session_issuer=factories.ISSUER
    )
    parts = product_parts(clock=clock_of_session, wakeups=wakeups_of_session)
    with serving(create_app(config, parts)) as url, checked_client(url) as client:
        yield client


class TestPropagationToEveryProcess:
    """What one process does to a key acts in another one from the next request on, whatever that remembers."""

    def test_revocation_takes_effect_in_every_process_at_once(self, acme: Tenant, other_process: httpx.Client) -> None:
        body = made(acme)
        there = Caller(other_process, body["secret"])
        assert there.get(USED).status_code == 200
        acme.person("admin").delete(f"{PATH}/{body['apiKey']['id']}")
        refusal(there.get(USED), 401, "invalid_token")

    def test_rotation_takes_effect_in_every_process_at_once(self, acme: Tenant, other_process: httpx.Client) -> None:
        old = made(acme)
        assert Caller(other_process, old["secret"]).get(USED).status_code == 200
        new = rotated(acme, old["apiKey"]["id"], graceSeconds=0)
        refusal(Caller(other_process, old["secret"]).get(USED), 401, "invalid_token")
        assert Caller(other_process, new["secret"]).get(USED).status_code == 200

    def test_expiry_takes_effect_in_every_process_to_the_second(
        self, acme: Tenant, other_process: httpx.Client, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        expires_at = clock.at + timedelta(minutes=10)
        secret = made(acme, expiresAt=instant(expires_at))["secret"]
        callers = [Caller(http, secret) for http in (acme.http, other_process)]
        for before in (timedelta(minutes=10), SECOND):
            clock.at = expires_at - before
            assert [caller.get(USED).status_code for caller in callers] == [200, 200]
        for late in (timedelta(), SECOND):
            clock.at = expires_at + late
            for caller in callers:
                refusal(caller.get(USED), 401, "token_expired")
        assert listed(acme)[0]["state"] == "expired"
