"""The trace and the request id of a request, in all that it causes."""

import pytest
from sqlalchemy import select

from app.edge.access_log import AccessLog
from app.edge.request_context import RequestContext
from integrations.traces import CURRENT, Trace
from models.audit import AuditEntry
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.freezes.requests import FIRST
from tests.harness.mcp_client import McpClient
from tests.harness.wakeups import RecordedWakeups

TRACE_ID, REQUEST_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "deploy-4711-attempt-2"
SENT = {"X-Request-Id": REQUEST_ID, "traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01"}


@pytest.fixture
def served_requests(monkeypatch: pytest.MonkeyPatch) -> list[RequestContext]:
    """Return the requests that are logged from now on."""
    found: list[RequestContext] = []
    monkeypatch.setattr(AccessLog, "write", lambda _self, request, *_: found.append(request))
    return found


def test_write_leaves_the_clients_ids_in_the_audit_log_and_in_wake_ups(
    acme: Tenant, wakeups: RecordedWakeups, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.branch(acme.session, acme.repository())
    woken: list[Trace | None] = []
    monkeypatch.setattr(wakeups, "send", lambda _: woken.append(CURRENT.get()))
    answer = acme.key().post("/v1/freezes", FIRST, headers=SENT)
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (201, REQUEST_ID)
    assert acme.session.scalars(select(AuditEntry.request_id)).all() == [REQUEST_ID]
    assert woken == [Trace(TRACE_ID, "00f067aa0ba902b7", "01", REQUEST_ID)]


def test_refusal_names_the_request_id_of_the_client(acme: Tenant) -> None:
    answer = acme.key().send("GET", "/v1/freezes/frz_unknown", headers=SENT)
    assert answer.json()["error"]["requestId"] == answer.headers["X-Request-Id"] == REQUEST_ID


@pytest.mark.parametrize("sent", ["short", "two words", "x" * 129, "svc_live_abcdefghijklmnop", "a-good-one"])
def test_malformed_or_repeated_ids_are_replaced(sent: str, acme: Tenant, served_requests: list[RequestContext]) -> None:
    headers = [("X-Request-Id", sent), ("traceparent", f"00-{TRACE_ID}-short-01")]
    if sent == "a-good-one":
        headers = [("X-Request-Id", sent), *SENT.items()]
    answer = acme.http.get("/healthz", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["X-Request-Id"].startswith("req_")
    [request] = served_requests
    assert (request.trace.trace_id == TRACE_ID) == (sent == "a-good-one")


def test_page_and_tool_pass_their_ids_on_to_the_operations_they_call(
    acme: Tenant, served_requests: list[RequestContext]
) -> None:
    assert acme.anybody.send("GET", "/status", headers=SENT).status_code == 200
    McpClient(acme.key()).send("tools/call", {"name": "svc_list_freezes", "arguments": {}}, **SENT)
    operations = [request.operation_id for request in served_requests]
    assert {"get_readiness", "list_freezes", "mcp"} <= set(operations)
    assert {(each.trace.trace_id, each.request_id) for each in served_requests} == {(TRACE_ID, REQUEST_ID)}
