"""Spans of calls to other servers: what they hold, that it is no secret, and that no server is sent the trace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.logs import redact
from app.tracing import reported_traces
from integrations.github.settings import GitHubSettings
from integrations.github.transport import Bearer, Request, Transport
from integrations.guarded_https import GuardedHttps, Limits, UnreachableError
from integrations.mail.smtp import Envelope, MailServer, RefusedError, ServerError
from integrations.mail.templates import RenderedMail
from integrations.slack import Slack, SlackError, SlackSettings
from integrations.spans import root_span
from integrations.stripe import Stripe, StripeError, StripeSettings, StripeUnavailableError
from integrations.traces import continued
from tests.harness.certificates import certified
from tests.harness.collectors import Collector, SentSpan, collector
from tests.harness.mail import SENDER, mailbox

CANARY = "canary-name-of-a-person"
HOST, MAIL_HOST = {"server.address": "127.0.0.1"}, {"server.address": "localhost"}
MAIL = RenderedMail(CANARY, CANARY, CANARY)
ENVELOPE = Envelope(f"{CANARY}@example.com", "mal_1", datetime(2026, 11, 21, 17, 0, tzinfo=UTC))


@dataclass
class Traced:
    """What a collector has of a job that made one call."""

    collected: Collector

    @contextmanager
    def job(self, **given: str) -> Iterator[None]:
        """Run the block as a job that was given these ids, and send its spans."""
        reporting = reported_traces(f"{self.collected.url}/v1/traces", "worker")
        with reporting, continued(given), root_span("job of a test", "consumer"):
            yield

    @property
    def call(self) -> SentSpan:
        """The span of the call: there is one, below the job, and nothing that was sent is a secret."""
        [call, job] = sorted(self.collected.spans(), key=lambda span: span.name == "job of a test")
        assert (call.trace_id, call.parent_id) == (job.trace_id, job.span_id)
        sent = self.collected.content
        assert CANARY.encode() not in sent
        assert redact(sent.decode("latin-1")) == sent.decode("latin-1")
        return call


@pytest.fixture
def traced() -> Iterator[Traced]:
    with collector() as collected:
        yield Traced(collected)


def check_no_trace_was_passed_on(server: Collector) -> None:
    assert server.requests
    for received in server.requests:
        assert received.headers.keys() & {"traceparent", "tracestate", "baggage", "x-request-id"} == set()


def slack_at(url: str) -> Slack:
    return Slack(SlackSettings(f"id-{CANARY}", f"secret-{CANARY}", (CANARY,), url=url))


def test_call_to_github_has_the_id_of_the_request_that_caused_it(traced: Traced) -> None:
    with collector() as github, traced.job(request_id="the-clients-own-id"):
        settings = GitHubSettings(github.url, f"{github.url}/graphql", 1, "app", "key", "secret")
        Transport(settings).send(Request("GET", f"{github.url}/rate_limit", safe=True), Bearer(CANARY))
    assert traced.call.attributes["change_freeze.request_id"] == "the-clients-own-id"
    check_no_trace_was_passed_on(github)


def test_call_to_github_is_a_span_without_its_query(traced: Traced) -> None:
    with collector() as github, traced.job():
        settings = GitHubSettings(github.url, f"{github.url}/graphql", 1, "app", "key", "secret")
        request = Request("GET", f"{github.url}/rate_limit?code={CANARY}", safe=True)
        assert Transport(settings).send(request, Bearer(CANARY)).status == 200
    assert traced.call.name == "GitHub GET"
    assert traced.call.attributes == {**HOST, "http.request.method": "GET", "http.response.status_code": 200}
    check_no_trace_was_passed_on(github)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Slack chat.postMessage", lambda slack: slack.post_message(f"xoxb-{CANARY}", f"C-{CANARY}", CANARY)),
        ("Slack oauth.v2.access", lambda slack: slack.exchange_code(CANARY, f"https://freezes.test/?state={CANARY}")),
        (
            "Slack response_url",
            lambda slack: slack.respond(f"{slack.settings.url}/{CANARY}", {"text": CANARY}),
        ),
    ],
)
def test_call_to_slack_is_a_span_without_token_and_content(
    traced: Traced, name: str, call: Callable[[Slack], object]
) -> None:
    with collector('{"ok": true, "ts": "1.1", "access_token": "a"}') as server, traced.job():
        call(slack_at(server.url))
    assert (traced.call.name, traced.call.attributes, traced.call.failed) == (name, HOST, False)
    check_no_trace_was_passed_on(server)


def test_call_that_slack_refuses_is_a_failed_span_without_its_answer(traced: Traced) -> None:
    with (
        collector(f'{{"ok": false, "error": "channel_not_found", "needed": "{CANARY}"}}') as server,
        traced.job(),
        pytest.raises(SlackError),
    ):
        slack_at(server.url).post_message("xoxb-token", "C1", CANARY)
    assert traced.call.failed
    assert traced.call.attributes == {**HOST, "error.type": "SlackApiError"}


def test_call_to_stripe_is_a_span_without_key_and_customer(traced: Traced) -> None:
    with collector('{"id": "cus_1", "object": "customer"}') as server, traced.job():
        stripe = Stripe(StripeSettings(f"sk_test_{CANARY}", api_url=server.url))
        assert stripe.create_customer(f"org_{CANARY}") == "cus_1"
    assert (traced.call.name, traced.call.attributes, traced.call.failed) == ("Stripe", HOST, False)
    check_no_trace_was_passed_on(server)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [(400, StripeError, "InvalidRequestError"), (401, StripeUnavailableError, "AuthenticationError")],
)
def test_call_that_stripe_refuses_is_a_failed_span_without_its_message(
    traced: Traced, status: int, error: type[Exception], kind: str
) -> None:
    answer = f'{{"error": {{"type": "invalid_request_error", "message": "No such thing: sk_test_{CANARY}"}}}}'
    with collector(answer, status) as server, traced.job(), pytest.raises(error):
        Stripe(StripeSettings(f"sk_test_{CANARY}", api_url=server.url)).list_subscriptions(f"cus_{CANARY}")
    assert (traced.call.failed, traced.call.attributes) == (True, {**HOST, "error.type": kind})


def test_mail_is_a_span_without_login_recipient_and_content(traced: Traced, tmp_path: Path) -> None:
    tls = certified(tmp_path)
    with mailbox(tls) as box, traced.job():
        box.mailbox.password = (CANARY, CANARY)
        url = box.smtp_url.replace("://", f"://{CANARY}:{CANARY}@")
        MailServer(url, SENDER, trust=tls.client).send(MAIL, ENVELOPE)
        assert len(box.mailbox.mails) == 1
    assert (traced.call.name, traced.call.attributes, traced.call.failed) == ("mail", MAIL_HOST, False)
    [mail] = box.mailbox.mails
    assert mail.headers.keys() & {"traceparent", "X-Request-Id"} == set()


@pytest.mark.parametrize(("command", "error"), [("RCPT", RefusedError), ("CONNECT", ServerError)])
def test_mail_that_is_refused_is_a_failed_span_without_the_reason(
    traced: Traced, command: str, error: type[Exception]
) -> None:
    with mailbox() as box, traced.job():
        box.mailbox.replies[command].append(f"550 {CANARY} is unknown here")
        with pytest.raises(error):
            MailServer(box.smtp_url, SENDER).send(MAIL, ENVELOPE)
    assert (traced.call.failed, traced.call.attributes) == (True, {**MAIL_HOST, "error.type": error.__name__})


def test_message_to_a_webhook_is_a_span_without_its_address(traced: Traced) -> None:
    client = GuardedHttps(Limits(5, 1000), loopback=True)
    with collector() as server, traced.job():
        url = server.url.replace("http://", f"https://{CANARY}@") + f"/{CANARY}?{CANARY}"
        with pytest.raises(UnreachableError):  # it speaks no TLS
            client.send("POST", url, {"webhook-signature": CANARY}, CANARY.encode())
    assert traced.call.name == "HTTPS POST"
    assert traced.call.attributes == {**HOST, "http.request.method": "POST", "error.type": "UnreachableError"}
