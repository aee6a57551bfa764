"""The receiver of webhooks takes a sender that is killed in the middle for no request."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.certificates import Certified
from tests.harness.webhook_receiver import webhook_receiver


@pytest.mark.parametrize("sent", [b"", b"POST /in HTTP/1.1\r\n", b"POST /in HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf"])
def test_sender_that_is_killed_leaves_no_request(tls: Certified, sent: bytes) -> None:
    theirs, ours = socket.socketpair()

    def send() -> None:
        with theirs, tls.client.wrap_socket(theirs, server_hostname="localhost") as connection:
            connection.sendall(sent)

    with webhook_receiver(tls) as receiver, ThreadPoolExecutor() as sender:
        sender.submit(send)
        receiver.serve(ours)
        assert receiver.requests == []
