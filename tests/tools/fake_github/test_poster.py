"""Webhooks are posted over kept connections that may have been closed meanwhile."""

import socket

from tools.fake_github.webhook_receiver import GitHubWebhookReceiver
from tools.simulation.poster import Poster


def test_closed_connection_is_replaced() -> None:
    poster, first = Poster(), GitHubWebhookReceiver()
    assert poster.post(first.url, b"{}", {"X-GitHub-Event": "ping"}).status_code == 202
    assert poster._connection is not None
    assert poster._connection.sock is not None
    poster._connection.sock.shutdown(socket.SHUT_RDWR)
    assert poster.post(first.url, b"{}", {"X-GitHub-Event": "ping"}).status == "OK"
    assert len(first.received) == 2
    poster.close()
    first.stop()


def test_each_address_has_its_connection() -> None:
    poster, first, second = Poster(), GitHubWebhookReceiver(), GitHubWebhookReceiver()
    for receiver in (first, second, first):
        assert poster.post(receiver.url, b"{}", {"X-GitHub-Event": "ping"}).status_code == 202
    assert (len(first.received), len(second.received)) == (2, 1)
    poster.close()
    first.stop()
    second.stop()


def test_refused_connection_is_recorded_as_github_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    posted = Poster().post(f"http://127.0.0.1:{port}/", b"{}", {})
    assert (posted.status_code, posted.status) == (502, "failed to connect to host")
