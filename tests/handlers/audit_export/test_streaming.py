"""Exports as streams: readers that stall, leave or lose their credential, and databases that stop."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.edge import streaming
from app.edge.downloads import MAX_DOWNLOADS_PER_ORGANIZATION, DatabaseDownload
from tests.factories.plans import change_plan
from tests.handlers.audit_export.requests import PATH, rows_of
from tests.handlers.callers import Tenant, refusal
from tests.harness.concurrency import eventually

ROWS = 2_000
MANY = text("""
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, request_id, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), :organization, now() - n * interval '1 second', 'freeze.started',
           '{"type": "user", "id": "usr_1", "name": "Ada"}', 'dashboard',
           jsonb_build_object('type', 'freeze', 'id', 'frz_' || n, 'name', repeat('long ', 1000)), NULL, '{}'
    FROM generate_series(1, :count) n
""")


REVOCATIONS = {
    "key revoked": "UPDATE api_keys SET revoked_at = now() WHERE organization_id = :organization",
    "session ended": "UPDATE sessions SET revoked_at = now() WHERE organization_id = :organization",
    "member removed": "DELETE FROM memberships WHERE organization_id = :organization",
    "organisation deleted": "UPDATE organizations SET deleted_at = now() WHERE id = :organization",
}


Later = Callable[..., None]


class Reader:
    """A person who requests an export and reads it by hand."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(20)
        self.socket.connect((str(place.hostname), int(place.port or 80)))
        headers = f"Host: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        self.socket.sendall(f"GET {PATH} HTTP/1.1\r\n{headers}\r\n".encode())

    def read(self, size: int = 4096) -> bytes:
        return self.socket.recv(size)

    def rest(self) -> bytes:
        """Read until the connection ends, in order or not."""
        found = bytearray()
        while True:
            try:
                block = self.read(1 << 20)
            except ConnectionResetError:
                return bytes(found)
            if not block:
                return bytes(found)
            found += block


class TestExportStreaming:
    @pytest.fixture
    def long(self, acme: Tenant) -> str:
        """Give the organisation an audit of 10 MB, more than buffers take, and return a token for it."""
        acme.session.execute(MANY, {"organization": acme.id, "count": ROWS})
        return str(acme.person("viewer").token)

    @pytest.fixture
    def readers(self, served: str) -> Iterator[Callable[[str], Reader]]:
        made: list[Reader] = []

        def read(token: str) -> Reader:
            made.append(Reader(served, token))
            return made[-1]

        yield read
        for reader in made:
            reader.socket.close()

    @pytest.fixture
    def impatient(self) -> Iterator[streaming.StreamTimeouts]:
        yield streaming.TIMEOUTS
        streaming.TIMEOUTS.stall, streaming.TIMEOUTS.total, streaming.TIMEOUTS.authorization = 30.0, 900.0, 2.0

    def test_long_export_is_streamed_completely(self, long: str, acme: Tenant) -> None:
        assert len({row["id"] for row in rows_of(acme.person("viewer").get(PATH))}) == ROWS

    def test_stalled_reader_is_disconnected_and_its_connection_released(
        self, long: str, readers: Callable[[str], Reader], impatient: streaming.StreamTimeouts, session: Session
    ) -> None:
        impatient.stall = 0.5
        reader = readers(long)
        assert reader.read().startswith(b"HTTP/1.1 200")
        eventually(lambda: downloads(session) == 1)
        eventually(lambda: downloads(session) == 0)
        assert not reader.rest().endswith(b"0\r\n\r\n")

    def test_slow_reader_is_disconnected_after_the_total_timeout(
        self, long: str, readers: Callable[[str], Reader], impatient: streaming.StreamTimeouts, session: Session
    ) -> None:
        impatient.total = 0.5
        reader = readers(long)
        assert reader.read()
        eventually(lambda: downloads(session) == 1)
        eventually(lambda: bool(reader.read(64)) and downloads(session) == 0)
        assert not reader.rest().endswith(b"0\r\n\r\n")

    @pytest.mark.parametrize("how", REVOCATIONS)
    def test_export_ends_soon_after_its_credential_is_revoked(
        self, how: str, long: str, readers: Callable[[str], Reader], impatient: streaming.StreamTimeouts, acme: Tenant
    ) -> None:
        impatient.authorization = 0.2
        reader = readers(str(acme.key("audit:read").token) if how == "key revoked" else long)
        assert reader.read().startswith(b"HTTP/1.1 200")
        eventually(lambda: downloads(acme.session) == 1)
        acme.session.execute(text(REVOCATIONS[how]), {"organization": acme.id})
        eventually(lambda: downloads(acme.session) == 0)
        assert not reader.rest().endswith(b"0\r\n\r\n")

    def test_export_is_authorized_again_every_two_seconds(self) -> None:
        assert streaming.TIMEOUTS.authorization == 2

    def test_export_continues_after_its_token_has_expired(
        self, long: str, readers: Callable[[str], Reader], impatient: streaming.StreamTimeouts, later: Later
    ) -> None:
        impatient.authorization = 0.05
        reader = readers(long)
        assert reader.read().startswith(b"HTTP/1.1 200")
        later(hours=1)
        time.sleep(0.2)
        assert reader.rest().endswith(b"0\r\n\r\n")

    def test_export_stops_when_the_reader_disconnects(
        self, long: str, readers: Callable[[str], Reader], session: Session
    ) -> None:
        reader = readers(long)
        assert reader.read()
        eventually(lambda: downloads(session) == 1)
        reader.socket.close()
        eventually(lambda: downloads(session) == 0)

    def test_export_is_cut_off_when_the_database_connection_dies(
        self, long: str, readers: Callable[[str], Reader], acme: Tenant
    ) -> None:
        reader = readers(long)
        assert reader.read()
        eventually(lambda: downloads(acme.session) == 1)
        acme.session.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {DOWNLOAD}"))
        assert not reader.rest().endswith(b"0\r\n\r\n")
        assert acme.person("viewer").get(PATH).status_code == 200

    def test_exports_are_limited_to_two_per_organization(
        self, long: str, readers: Callable[[str], Reader], acme: Tenant, globex: Tenant
    ) -> None:
        change_plan(globex.session, globex.organization, "business")
        acme.session.flush()
        running = [readers(long) for _ in range(MAX_DOWNLOADS_PER_ORGANIZATION)]
        assert all(reader.read() for reader in running)
        refused = acme.person("viewer").get(PATH)
        refusal(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        assert globex.person("viewer").get(PATH).status_code == 200
        assert acme.person("viewer").get("/v1/freezes").status_code == 200
        for reader in running:
            reader.socket.close()
        eventually(lambda: downloads(acme.session) == 0)
        assert acme.person("viewer").get(PATH).status_code == 200

    def test_export_that_was_read_does_not_count_any_more(self, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
        close, closed, times = DatabaseDownload.close, [], MAX_DOWNLOADS_PER_ORGANIZATION + 1

        async def close_late(download: DatabaseDownload) -> None:
            await asyncio.sleep(0.2)
            await close(download)
            closed.append(download)

        monkeypatch.setattr(DatabaseDownload, "close", close_late)
        viewer = acme.person("viewer")
        assert [viewer.get(PATH).status_code for _ in range(times)] == [200] * times
        eventually(lambda: len(closed) == times)


DOWNLOAD = "query LIKE 'COPY (SELECT id%' AND state = 'active' AND datname = current_database()"


def downloads(session: Session) -> int:
    return int(session.scalar(text(f"SELECT count(*) FROM pg_stat_activity WHERE {DOWNLOAD}")) or 0)
