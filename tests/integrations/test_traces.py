"""Trace context: what is accepted from outside, and what a job is given."""

import pytest

from integrations.traces import CURRENT, Trace, accept_request_id, continued, job_metadata, new_trace, read_traceparent

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("sent", "flags"),
    [
        (f"00-{TRACE}-{PARENT}-01", "01"),
        (f"00-{TRACE}-{PARENT}-00", "00"),
        (f"00-{TRACE}-{PARENT}-ff", "01"),
        (f"cc-{TRACE}-{PARENT}-01-what-comes-later", "01"),
    ],
)
def test_valid_traceparent_is_continued(sent: str, flags: str) -> None:
    trace = read_traceparent(sent, "req")
    assert trace == Trace(TRACE, PARENT, flags, "req")
    assert trace.traceparent == f"00-{TRACE}-{PARENT}-{flags}"


@pytest.mark.parametrize(
    "sent",
    [
        "",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f" 00-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-" + "x" * 10_000,
    ],
)
def test_malformed_traceparent_begins_a_new_trace(sent: str) -> None:
    trace = read_traceparent(sent, "req")
    assert trace.trace_id != TRACE
    assert read_traceparent(trace.traceparent, "req") == trace._replace(begins_here=False)
    assert trace.flags == "00"


@pytest.mark.parametrize(
    "sent", ["req_06aq1m3k0v5t8c2n7d4e9f1g81", "7b9d1f3e-0c4a-4e0f-8d3b-2f1c0a9b8e7d", "a" * 128, "A.b-c_de"]
)
def test_request_id_of_a_client_is_accepted(sent: str) -> None:
    assert accept_request_id(sent, str) == sent


@pytest.mark.parametrize("sent", ["", "short", "a" * 129, "-leading", "with space", "a\nb" * 4, "ü" * 10, "a/b/c/d/e"])
def test_malformed_request_id_is_not_accepted(sent: str) -> None:
    assert accept_request_id(sent, str) is None


def test_request_id_that_is_a_secret_is_not_accepted() -> None:
    assert accept_request_id("svc_live_abc", lambda _: "[redacted]") is None


def test_job_continues_the_trace_of_the_request_that_wakes_it() -> None:
    request = new_trace("a-request")
    token = CURRENT.set(request)
    given = job_metadata()
    CURRENT.reset(token)
    with continued(given) as trace:
        assert trace == request._replace(begins_here=False)
        assert job_metadata() == given
    assert job_metadata() == {}


def test_job_without_a_trace_begins_one() -> None:
    with continued({}) as one, continued({"traceparent": 7, "request_id": None}) as other:
        assert one.trace_id != other.trace_id
        assert other.request_id is None
