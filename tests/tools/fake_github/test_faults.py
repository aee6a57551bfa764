"""Faults strike where and as often as configured, and limits answer as GitHub documents them."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness.concurrency import at_once, eventually
from tests.harness.servers import client_of
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder

RATE = "{rateLimit{remaining}}"


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    github.organization("acme").installed(installation_id=1001)
    return github.organization("acme").repository("web")


@pytest.fixture
def http(handle: Handle, github: FakeGitHub, web: RepositoryBuilder) -> Iterator[httpx.Client]:
    installation = github.world.installations[1001]
    token, _ = github.credentials.mint(installation, installation.permissions, None)
    headers = {"Authorization": f"Bearer {token}"}
    with client_of(handle.base_url, headers=headers, trust_env=False, timeout=5) as client:
        yield client


def write(http: httpx.Client, web: RepositoryBuilder, **more: Any) -> httpx.Response:
    body = {"name": "x", "head_sha": web.record.branches["main"], "conclusion": "success"}
    return http.post("/repos/acme/web/check-runs", json=body, **more)


@pytest.mark.parametrize("status", [500, 502, 403, 404])
def test_error_applies_to_the_next_calls_of_its_scope(http: httpx.Client, web: RepositoryBuilder, status: int) -> None:
    http.post("/_control/faults", json={"kind": "error", "scope": "/check-runs", "status": status, "count": 2})
    assert http.get("/repos/acme/web").status_code == 200
    assert [write(http, web).status_code for _ in range(3)] == [status, status, 201]
    assert len(web.github.world.runs) == 1


def test_error_can_apply_to_a_single_call_with_its_own_headers(http: httpx.Client) -> None:
    fault = {"kind": "error", "skip": 2, "count": 1, "status": 429, "headers": {"Retry-After": "7"}}
    http.post("/_control/faults", json=fault)
    answers = [http.get("/repos/acme/web") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 200]
    assert answers[2].headers["Retry-After"] == "7"


def test_response_can_be_lost_after_the_call_took_effect(http: httpx.Client, web: RepositoryBuilder) -> None:
    http.post("/_control/faults", json={"kind": "error", "status": 502, "after": True, "count": 1})
    assert write(http, web).status_code == 502
    assert len(web.github.world.runs) == 1


@pytest.mark.parametrize(("after", "runs"), [(False, 0), (True, 1)])
def test_call_can_time_out_before_and_after_taking_effect(
    http: httpx.Client, web: RepositoryBuilder, runs: int, *, after: bool
) -> None:
    http.post("/_control/faults", json={"kind": "timeout", "after": after, "count": 1})
    with pytest.raises(httpx.ReadTimeout):
        write(http, web, timeout=httpx.Timeout(5, read=0.3))
    eventually(lambda: web.github.calls.total == 1)
    eventually(lambda: len(web.github.world.runs) == runs)


def test_connection_can_be_dropped(http: httpx.Client, web: RepositoryBuilder) -> None:
    http.post("/_control/faults", json={"kind": "disconnect", "count": 1})
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        write(http, web)
    assert write(http, web).status_code == 201


def test_body_can_be_slow(http: httpx.Client, web: RepositoryBuilder) -> None:
    http.post("/_control/faults", json={"kind": "slow_body", "seconds": 0.3, "count": 1})
    began = time.monotonic()
    assert http.get("/repos/acme/web").json()["name"] == "web"
    assert time.monotonic() - began >= 0.3


def test_installation_token_can_be_revoked(http: httpx.Client) -> None:
    http.post("/_control/faults", json={"kind": "revoked"})
    assert http.get("/repos/acme/web").json() | {"documentation_url": ""} == {
        "message": "Bad credentials",
        "documentation_url": "",
        "status": "401",
    }
    http.delete("/_control/faults")
    assert http.get("/repos/acme/web").status_code == 200


def test_graphql_faults_are_scoped_by_field(http: httpx.Client) -> None:
    http.post("/_control/faults", json={"kind": "error", "scope": "createCheckRun"})
    assert http.post("/graphql", json={"query": RATE}).status_code == 200
    text = 'mutation{createCheckRun(input:{repositoryId:"x",headSha:"y",name:"z"}){checkRun{id}}}'
    assert http.post("/graphql", json={"query": text}).status_code == 500


def test_random_faults_repeat_for_the_same_seed(http: httpx.Client) -> None:
    def struck() -> list[int]:
        http.delete("/_control/faults")
        http.post("/_control/faults", json={"kind": "error", "probability": 0.5, "seed": 7})
        return [http.get("/repos/acme/web").status_code for _ in range(20)]

    first = struck()
    assert set(first) == {200, 500}
    assert struck() == first


def test_unknown_fault_is_rejected(http: httpx.Client) -> None:
    assert http.post("/_control/faults", json={"kind": "earthquake"}).status_code == 400
    assert http.post("/_control/faults", json={"kind": "error", "colour": "red"}).status_code == 400


def test_every_call_can_be_delayed(http: httpx.Client) -> None:
    http.put("/_control/settings", json={"latencyMs": 120})
    began = time.monotonic()
    http.get("/repos/acme/web")
    assert time.monotonic() - began >= 0.12


def test_response_headers_have_the_remaining_quota(http: httpx.Client) -> None:
    remaining = [int(http.get("/repos/acme/web").headers["x-ratelimit-remaining"]) for _ in range(2)]
    assert remaining[0] - remaining[1] == 1
    graph = http.post("/graphql", json={"query": RATE})
    assert graph.headers["x-ratelimit-resource"] == "graphql"
    assert graph.json()["data"]["rateLimit"]["remaining"] == int(graph.headers["x-ratelimit-remaining"])


def test_larger_installation_has_a_larger_quota(http: httpx.Client, github: FakeGitHub) -> None:
    for number in range(29):
        github.organization("acme").repository(f"r{number}")
    assert http.get("/repos/acme/web").headers["x-ratelimit-limit"] == str(5000 + 10 * 50)


def test_exhausted_hourly_quota_gives_403_with_a_reset(http: httpx.Client) -> None:
    http.put("/_control/settings", json={"primaryLimits": True, "restPointsPerHour": 2, "graphqlPointsPerHour": 1})
    assert [http.get("/repos/acme/web").status_code for _ in range(3)] == [200, 200, 403]
    refused = http.get("/repos/acme/web")
    assert "API rate limit exceeded for installation ID 1001" in refused.json()["message"]
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert int(refused.headers["x-ratelimit-reset"]) > time.time()
    http.post("/graphql", json={"query": RATE})
    graph = http.post("/graphql", json={"query": RATE})
    assert graph.status_code == 200
    assert graph.json()["errors"][0]["type"] == "RATE_LIMITED"


def test_writes_cost_five_points_per_minute_of_their_endpoint(http: httpx.Client, web: RepositoryBuilder) -> None:
    settings = {"secondaryLimits": True, "endpointPointsPerMinute": 10, "limitStatus": 429, "retryAfterSeconds": 7}
    http.put("/_control/settings", json=settings)
    answers = [write(http, web) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert answers[-1].headers["Retry-After"] == "7"
    assert "secondary rate limit" in answers[-1].json()["message"]
    assert http.get("/repos/acme/web").status_code == 200


def test_concurrent_calls_beyond_the_limit_are_rejected(http: httpx.Client) -> None:
    http.put("/_control/settings", json={"secondaryLimits": True, "concurrentRequests": 1, "latencyMs": 200})
    statuses = sorted(at_once(*[lambda: http.get("/repos/acme/web").status_code] * 2))
    assert statuses == [200, 403]


@pytest.mark.parametrize(("by_alias", "statuses"), [(False, [200, 200, 403]), (True, [200, 403, 403])])
def test_created_content_is_counted_by_request_or_by_alias(
    http: httpx.Client, web: RepositoryBuilder, statuses: list[int], *, by_alias: bool
) -> None:
    settings = {"contentLimits": True, "contentPerMinute": 2, "contentCountsAliases": by_alias}
    http.put("/_control/settings", json=settings)
    given = f'{{repositoryId:"{web.record.node_id}",headSha:"{web.record.branches["main"]}",name:"x"}}'
    fields = " ".join(f"{alias}:createCheckRun(input:{given}){{checkRun{{id}}}}" for alias in "ab")
    answers = [http.post("/graphql", json={"query": f"mutation{{{fields}}}"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == statuses
