"""Traces for OpenTelemetry and errors for Sentry: what they hold, and that they hold no secret."""

import logging
import socket
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import text

from app import variable_parsers
from app.database import make_engine
from app.error_reports import reported_errors
from app.logs import redact
from app.main import create_app
from app.tracing import reported_traces
from app.variable_parsers import collector as parse_collector
from app.variable_parsers import sentry_dsn as parse_dsn
from integrations.spans import child_span, has_tracer, root_span
from integrations.traces import CURRENT, continued, job_metadata
from jobs.context import traced
from rules.version import VERSION
from schemas.contract import Contract
from tests.harness.collectors import Collector, SentSpan, collector
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.tenants import Tenant

SERVER, CLIENT, CONSUMER = 2, 3, 5
TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENT = {"X-Request-Id": "a-request-of-a-client", "traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
CANARY = "canary-name-of-a-person"


@pytest.fixture
def collected() -> Iterator[Collector]:
    with collector() as found:
        yield found


def dsn_of(collected: Collector) -> str:
    return collected.url.replace("//", "//public@") + "/42"


def one(spans: list[SentSpan], name: str) -> SentSpan:
    [found] = [span for span in spans if span.name == name]
    return found


class TestServedApi:
    def test_request_is_a_trace_and_an_error_is_reported_without_secrets(
        self,
        collected: Collector,
        shared_database: psycopg.Connection,
        redis_url: str,
        small_contract: Contract,
        acme: Tenant,
    ) -> None:
        secret = acme.key()
        parts = product_parts(contract=small_contract, handlers="tests.app.edge.machinery")
        with collector() as sentry:
            config = product_config(
                address_of(shared_database),
                redis_url,
                otel_exporter_otlp_endpoint=collected.url,
                sentry_dsn=dsn_of(sentry),
            )
            with serving(create_app(config, parts)) as url, client_of(url) as client:
                headers = {**SENT, "Authorization": f"Bearer {secret}"}
                scope = {"type": "organization"}
                assert client.post("/v1/things", json={"name": CANARY, "scope": scope}, headers=headers).is_success
                failing = {"name": "fails within", "scope": scope}
                assert client.post(f"/v1/things?token={CANARY}", json=failing).status_code == 401
                failed = client.post("/v1/things", json=failing, headers={"Authorization": f"Bearer {secret}"})
                assert failed.status_code == 500
        self._check_spans(collected.spans())
        for sent in (collected.content, sentry.content):
            assert sent
            assert secret.encode() not in sent
            assert CANARY.encode() not in sent
            assert redact(sent.decode("latin-1")) == sent.decode("latin-1")
        [event] = sentry.events()
        assert event["release"] == VERSION
        assert event["tags"] == {"process": "api", "request_id": failed.headers["X-Request-Id"]}
        [exception] = event["exception"]["values"]
        assert exception["type"] == "RuntimeError"
        assert exception["stacktrace"]["frames"][-1]["function"] == "create_thing"
        assert event.keys() & {"user", "request", "breadcrumbs", "extra", "modules"} == set()
        assert b"a fault" not in sentry.content

    @staticmethod
    def _check_spans(spans: list[SentSpan]) -> None:
        served = [span for span in spans if span.kind == SERVER]
        assert [span.attributes["http.response.status_code"] for span in served] == [201, 401, 500]
        assert {span.name for span in served} == {"create_thing"}
        assert [span.failed for span in served] == [False, False, True]
        first = served[0]
        assert (first.trace_id, first.parent_id) == (TRACE_ID, PARENT_ID)
        assert first.attributes["change_freeze.request_id"] == SENT["X-Request-Id"]
        assert first.service == "change-freeze-api"
        assert served[1].parent_id == ""
        statements = [span for span in spans if span.parent_id == first.span_id]
        assert {span.kind for span in statements} == {CLIENT}
        texts = [str(span.attributes["db.query.text"]) for span in statements]
        assert any(each.startswith("INSERT INTO audit_entries") for each in texts)
        assert any("find_api_key(%" in each for each in texts), texts


def test_job_is_a_span_below_the_request_that_woke_it(collected: Collector) -> None:
    with reported_traces(f"{collected.url}/v1/traces", "worker"):
        with continued(SENT), root_span("create_freeze", "server"):
            given = job_metadata()
        with continued(given), pytest.raises(LookupError), traced("reconcile"):
            raise LookupError(CANARY)
    request, job = one(collected.spans(), "create_freeze"), one(collected.spans(), "job reconcile")
    assert (job.trace_id, job.parent_id, job.kind) == (TRACE_ID, request.span_id, CONSUMER)
    assert (job.failed, job.attributes["error.type"]) == (True, "LookupError")
    assert CANARY.encode() not in collected.content


def test_ratio_of_the_sampler_leaves_traces_out(collected: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    with reported_traces(f"{collected.url}/v1/traces", "worker"):
        with traced("mail"), child_span("PostgreSQL SELECT"):
            assert job_metadata()["traceparent"].endswith("-00")
        with continued(SENT), traced("sync"):
            assert job_metadata()["traceparent"].endswith("-01")
    assert [span.name for span in collected.spans()] == ["job sync"]


def test_statement_outside_of_a_trace_is_not_reported(collected: Collector, database: str) -> None:
    with reported_traces(f"{collected.url}/v1/traces", "sweeper"):
        engine = make_engine(database, 1)
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        engine.dispose()
    assert collected.requests == []
    assert not has_tracer()
    assert CURRENT.get() is None


def test_end_of_a_process_does_not_wait_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tracing.FLUSH_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with reported_traces(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces", "api"), traced("mail"):
            pass
        assert not has_tracer()


def test_error_of_a_job_is_reported_without_the_text_of_libraries(collected: Collector) -> None:
    with reported_errors(dsn_of(collected), "sweeper"), continued(SENT):
        with pytest.raises(ValueError, match=CANARY) as failed:
            int(CANARY)
        logging.getLogger("jobs.sweep").error("a task failed and will be retried", exc_info=failed.value)
        logging.getLogger("asyncio").error(f"Task exception was never retrieved: {CANARY}")  # noqa: G004 - as it does
        logging.getLogger("jobs.sweep").warning("no error")
        logging.getLogger("urllib3.connectionpool").error("about the report itself")
    first, second = collected.events()
    assert first["logentry"]["message"] == "a task failed and will be retried"
    assert first["contexts"]["trace"]["trace_id"] == TRACE_ID
    assert first["exception"]["values"][0]["type"] == "ValueError"
    assert second["logentry"]["message"] == "an error of asyncio"
    assert CANARY.encode() not in collected.content


@pytest.mark.parametrize(
    "wrong", ["nonsense", "https://sentry.example/42", "https://key@sentry.example/project", "ftp://a@b/1"]
)
def test_dsn_that_names_no_project_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="must be a DSN"):
        parse_dsn(wrong)


def test_missing_packages_are_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_dsn("https://key@sentry.example/42")
    assert parse_collector("http://collector:4318/") == "http://collector:4318"
    monkeypatch.setattr(variable_parsers, "find_spec", lambda _: None)
    for parse, value in ((parse_dsn, "https://key@sentry.example/42"), (parse_collector, "http://collector:4318")):
        with pytest.raises(ValueError, match="needs the packages of requirements-observability"):
            parse(value)
