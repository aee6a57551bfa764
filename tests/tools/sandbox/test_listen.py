"""The listener to webhooks of the sandbox: what it takes, prints and passes on."""

import json
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from rules.outgoing_webhooks.signatures import new_secret
from tools.sandbox.certificates import TRUSTED, write_certificates
from tools.sandbox.listen import Listener
from tools.simulation.webhook_receiver import WebhookReceiver

SECRET = new_secret()
STARTED = {
    "type": "freeze.started",
    "timestamp": "2026-11-21T09:30:00Z",
    "data": {"entry": {"target": {"type": "freeze", "id": "frz_1", "name": "Quarter-end \u202eclose"}}},
}


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    write_certificates(tmp_path)
    found = Listener(tmp_path)
    found.secret = SECRET
    yield found
    found.stop()


def deliver(listener: Listener, directory: Path, message: Mapping[str, object], secret: str = SECRET) -> int:
    """Send a message as the service does; return the status of the answer."""
    body, now = json.dumps(message), datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, body),
        "content-type": "application/json",
    }
    trust = ssl.create_default_context(cafile=directory / TRUSTED)
    return httpx.post(listener.url, content=body, headers=headers, verify=trust, trust_env=False).status_code


def test_listener_prints_a_message_that_is_verified(
    listener: Listener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deliver(listener, tmp_path, STARTED) == 202
    shown = '2026-11-21T09:30:00Z  freeze.started           "Quarter-end \\u202eclose"  msg_1 verified\n'
    assert capsys.readouterr().out == shown


def test_listener_prints_windows_that_are_about_to_begin(
    listener: Listener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upcoming = {"type": "window.upcoming", "timestamp": "2026-11-21T09:30:00Z", "data": {"minutes": 60, "windows": []}}
    assert deliver(listener, tmp_path, upcoming) == 202
    assert "window.upcoming" in capsys.readouterr().out


def test_listener_refuses_a_message_with_a_foreign_signature(
    listener: Listener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deliver(listener, tmp_path, STARTED, new_secret()) == 400
    assert "freeze.started" not in capsys.readouterr().out


def test_listener_has_messages_sent_again_until_it_knows_its_secret(listener: Listener, tmp_path: Path) -> None:
    listener.secret = None
    assert deliver(listener, tmp_path, STARTED) == 503


def test_listener_passes_messages_on_and_answers_as_their_receiver(listener: Listener, tmp_path: Path) -> None:
    receiver = WebhookReceiver("/hook")
    receiver.status = 429
    listener.forward_to = receiver.url
    assert deliver(listener, tmp_path, STARTED) == 429
    receiver.stop()
    [(headers, body)] = receiver.deliveries
    assert Webhook(SECRET).verify(body, {name.lower(): value for name, value in headers.items()}) == STARTED
    assert deliver(listener, tmp_path, STARTED) == 502
