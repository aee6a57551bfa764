"""Rate limits: what is counted, what is answered, and that Redis is never needed."""

import asyncio
import socket
from collections.abc import Callable

import httpx
import pytest
from redis.asyncio import Redis as AsyncRedis

from app.edge import rate_limits
from app.edge.rate_limits import RateLimits, raise_if_exceeded
from rules.access.permissions import Principal
from rules.errors import ServiceError
from tests.harness.tenants import Tenant

KEY = Principal("api_key", "key_1", "a key", "org_1")
OTHER_KEY = Principal("api_key", "key_2", "another", "org_1")
STRANGER = Principal("api_key", "key_3", "a stranger", "org_2")


@pytest.fixture(autouse=True)
def redis_timeout(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Wait for Redis for as long as it takes, so that the counts do not depend on load; return what changes that."""

    def change(seconds: float) -> None:
        monkeypatch.setattr(rate_limits, "_REDIS_TIMEOUT_SECONDS", seconds)

    change(60)
    return change


def test_rate_limit_headers_are_on_every_answer_to_a_credential(api: httpx.Client, acme: Tenant) -> None:
    for response in (
        api.get("/v1/things"),
        api.get("/v1/things?limit=x"),
        api.get("/v1/things/thg_none"),
        api.get("/v1/things/thg_wrong"),
        api.get("/v1/sessions-only"),
        api.post("/v1/things", content=b"{"),
        api.delete("/v1/things/a"),
        api.get("/v1/things/a/peek"),
        api.get("/v1/things/a/peek", headers={"If-None-Match": "*"}),
    ):
        assert int(response.headers["RateLimit-Remaining"]) > 0
        assert 0 < int(response.headers["RateLimit-Reset"]) <= 60


def test_rate_limit_headers_are_on_unknown_routes_and_methods(http: httpx.Client, acme: Tenant) -> None:
    for token in (acme.key(), acme.session(), acme.key("freeze:read")):
        remaining = []
        for method, path, status in (("GET", "/v1/nowhere", 404), ("PUT", "/v1/things", 405)):
            response = http.request(method, path, headers={"Authorization": f"Bearer {token}"})
            assert response.status_code == status
            assert 0 < int(response.headers["RateLimit-Reset"]) <= 60
            remaining.append(int(response.headers["RateLimit-Remaining"]))
        assert remaining[1] == remaining[0] - 1
    for header in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Bearer svc_session_unknown"}):
        assert "RateLimit-Remaining" not in http.get("/v1/nowhere", headers=header).headers


@pytest.mark.parametrize("with_redis", [True, False], ids=["in Redis", "in the process"])
def test_rate_limits_cap_the_organization_and_the_writes_of_a_credential(
    redis_url: str, redis: object, with_redis: bool
) -> None:
    async def scenario() -> None:
        client = AsyncRedis.from_url(redis_url) if with_redis else None
        limits = RateLimits(client, organization=5, writes=2)
        assert [(await limits.count(KEY, write=True)).remaining for _ in range(3)] == [1, 0, -1]
        assert (await limits.count(KEY, write=False)).remaining == 1
        assert (await limits.count(OTHER_KEY, write=True)).remaining == 0
        spent = await limits.count(OTHER_KEY, write=False)
        assert spent.remaining == -1
        assert 0 < spent.reset <= 60
        with pytest.raises(ServiceError) as refused:
            raise_if_exceeded(spent)
        assert (refused.value.code, refused.value.retry_after) == ("rate_limited", spent.reset)
        assert (await limits.count(STRANGER, write=False)).remaining == 4
        if client is not None:
            await client.aclose()

    asyncio.run(scenario())


def test_rate_limit_script_is_reloaded_after_redis_lost_the_script(redis_url: str, redis: object) -> None:
    async def scenario() -> None:
        client = AsyncRedis.from_url(redis_url)
        limits = RateLimits(client, organization=5, writes=2)
        await limits.count(KEY, write=False)
        await client.script_flush()
        assert (await limits.count(KEY, write=False)).remaining == 3
        await client.aclose()

    asyncio.run(scenario())


def test_rate_limits_fall_back_when_redis_is_unavailable_or_hangs(redis_timeout: Callable[[float], None]) -> None:
    redis_timeout(0.1)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as hanging:
            for port in (1, hanging.getsockname()[1]):
                client = AsyncRedis.from_url(f"redis://127.0.0.1:{port}")  # without a timeout of its own
                limits = RateLimits(client, organization=5, writes=2)
                assert [(await limits.count(KEY, write=False)).remaining for _ in range(4)] == [4, 3, 2, 1]
                await client.aclose()

    asyncio.run(scenario())
