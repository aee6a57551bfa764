"""Fetching client documents: what strangers can make us connect to, and how much of it we take."""

import socket
from collections.abc import Callable, Iterator, Sequence

import pytest

from integrations.client_documents import MAX_BYTES, ClientDocuments
from rules.access.client_documents import ClientRefusedError
from tests.harness.certificates import Certified
from tests.harness.document_server import DOCUMENT, DocumentServer, document_server, response


@pytest.fixture
def server(tls: Certified) -> Iterator[DocumentServer]:
    with document_server(tls) as server:
        yield server


@pytest.fixture
def documents(tls: Certified) -> ClientDocuments:
    """Return what fetches documents for a service on this machine."""
    return ClientDocuments(loopback=True, context=tls.client)


def resolving(*addresses: str) -> Callable[[str, int], Sequence[str]]:
    return lambda _host, _port: addresses


class TestFetch:
    def test_document_is_fetched_by_name_with_its_cache_control(
        self, server: DocumentServer, documents: ClientDocuments
    ) -> None:
        server.answer = response(Cache_Control="max-age=600")
        found = documents.fetch(server.address)
        assert (found.body, found.cache_control) == (DOCUMENT, "max-age=600")
        [request] = server.requests
        assert request.startswith(b"GET /oauth/client.json?v=1 HTTP/1.1\r\n")
        assert f"Host: localhost:{server.port}\r\n".encode() in request
        assert not any(name in request.lower() for name in (b"cookie", b"authorization", b"referer"))
        assert server.names == ["localhost"]

    def test_document_is_fetched_when_sent_in_chunks(self, server: DocumentServer, documents: ClientDocuments) -> None:
        chunked = b"".join(b"1\r\n%c\r\n" % byte for byte in DOCUMENT) + b"0\r\n\r\n"
        head = response(b"", Content_Length="", Transfer_Encoding="chunked")
        server.answer = head + chunked
        assert documents.fetch(server.address).body == DOCUMENT

    @pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
    def test_redirect_is_not_followed(self, server: DocumentServer, documents: ClientDocuments, status: str) -> None:
        server.answer = response(b"", status, Location=f"https://localhost:{server.port}/other")
        with pytest.raises(ClientRefusedError, match="answered 30"):
            documents.fetch(server.address)
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        "answer",
        [
            response(status="404 Not Found"),
            response(status="201 Created"),
            response(Content_Type="text/html"),
            response(Content_Type=""),
            response(b"x" * (MAX_BYTES + 1)),
            response(b"x" * (MAX_BYTES + 1), Content_Length=""),
            response(X="y" * 40_000),
            b"SSH-2.0-OpenSSH_9.9\r\n",
            b"",
        ],
        ids=[
            "not found", "created", "html", "no type", "too large", "too large without a length", "headers too large",
            "not HTTP", "nothing",
        ],
    )  # fmt: skip
    def test_response_is_refused_when_it_is_no_small_json_document(
        self, server: DocumentServer, documents: ClientDocuments, answer: bytes
    ) -> None:
        server.answer = answer
        with pytest.raises(ClientRefusedError):
            documents.fetch(server.address)

    def test_document_of_the_largest_size_is_fetched(self, server: DocumentServer, documents: ClientDocuments) -> None:
        server.answer = response(b"x" * MAX_BYTES)
        assert len(documents.fetch(server.address).body) == MAX_BYTES

    def test_slow_document_is_refused_after_the_time_for_everything(
        self, server: DocumentServer, tls: Certified
    ) -> None:
        server.answer, server.silent = response()[:-5], True
        with pytest.raises(ClientRefusedError, match="too slowly"):
            ClientDocuments(loopback=True, context=tls.client, timeout=0.3).fetch(server.address)

    def test_slow_name_server_is_not_awaited(self, server: DocumentServer) -> None:
        def never(_host: str, _port: int) -> Sequence[str]:
            server.done.wait(10)
            return ()

        with pytest.raises(ClientRefusedError, match="too slowly"):
            ClientDocuments(resolve=never, timeout=0.05).fetch(server.address)
        server.done.set()

    def test_certificate_is_checked(self, server: DocumentServer, tls: Certified) -> None:
        with pytest.raises(ClientRefusedError):
            ClientDocuments(loopback=True).fetch(server.address)
        elsewhere = f"https://client.example:{server.port}/m"
        with pytest.raises(ClientRefusedError):
            ClientDocuments(loopback=True, context=tls.client, resolve=resolving("127.0.0.1")).fetch(elsewhere)
        assert server.requests == []


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:0:7f00:1::",
            "fe80::1",
            "fe80::1%eth0",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
        ],
    )
    def test_host_is_refused_when_its_address_is_not_public(self, address: str) -> None:
        for found in ((address,), ("8.8.8.8", address), (address, "2606:4700::1")):
            with pytest.raises(ClientRefusedError, match="public internet"):
                ClientDocuments(resolve=resolving(*found)).fetch("https://client.example/m")

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:7f00:1]", "localhost"],
    )
    def test_written_forms_of_the_loopback_are_refused(self, server: DocumentServer, tls: Certified, host: str) -> None:
        with pytest.raises(ClientRefusedError):
            ClientDocuments(context=tls.client).fetch(f"https://{host}:{server.port}/m")
        assert server.requests == []

    def test_loopback_of_a_local_service_does_not_open_other_private_addresses(self) -> None:
        for address in ("10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"):
            with pytest.raises(ClientRefusedError, match="public internet"):
                ClientDocuments(loopback=True, resolve=resolving(address)).fetch("https://client.example/m")

    def test_name_is_resolved_once_and_its_address_used(
        self, server: DocumentServer, tls: Certified, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = iter([["127.0.0.1"], ["10.0.0.1"]])
        documents = ClientDocuments(loopback=True, context=tls.client, resolve=lambda *_: next(answers))
        connected = []
        connect = socket.create_connection

        def record(address: tuple[str, int], timeout: float) -> socket.socket:
            connected.append(address)
            return connect(address, timeout)

        monkeypatch.setattr("integrations.guarded_https.socket.create_connection", record)
        assert documents.fetch(server.address).body == DOCUMENT
        assert connected == [("127.0.0.1", server.port)]
        assert next(answers) == ["10.0.0.1"], "the name was resolved a second time"

    def test_host_without_an_address_is_refused(self) -> None:
        def unknown(_host: str, _port: int) -> Sequence[str]:
            raise OSError("no such host")

        for resolve in (unknown, resolving()):
            with pytest.raises(ClientRefusedError, match="public internet"):
                ClientDocuments(resolve=resolve).fetch("https://client.example/m")
