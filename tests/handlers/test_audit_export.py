"""Exporting the audit as CSV: what is in it, who gets it, and what happens when a reader or the database stops."""

import csv
import io
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.edge import streaming
from app.edge.downloads import MAX_DOWNLOADS, MAX_DOWNLOADS_PER_ORGANIZATION
from models.audit import AuditEntry
from models.organizations import Organization
from rules.ids import new_id
from schemas.contract import load_contract
from services.audit import export
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import Tenant, refusal
from tests.harness.concurrency import eventually

PATH = "/v1/audit/export"
ADA = {"type": "user", "id": "usr_06aq1m3k0v5t8c2n7d4e9f1g61", "name": "Ada"}
ROWS = 4_000
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


def entry(session: Session, of: Organization, **columns: Any) -> AuditEntry:
    given = {
        "at": factories.now(),
        "action": "freeze.started",
        "actor": ADA,
        "source": "dashboard",
        "target": {"type": "freeze", "id": "frz_1", "name": "Release"},
        "details": {},
    }
    row = AuditEntry(id=new_id("aud"), organization_id=of.id, **given | columns)
    session.add(row)
    session.flush()
    return row


def rows_of(response: httpx.Response) -> list[dict[str, str]]:
    assert response.status_code == 200, response.text
    return list(csv.DictReader(io.StringIO(response.text, newline="")))


class TestExportAudit:
    def test_export_audit_requires_credentials(self, acme: Tenant) -> None:
        refusal(acme.anybody.get(PATH), 401, "missing_credentials")

    @pytest.mark.parametrize("role", ["viewer", "member", "admin", "owner"])
    def test_export_audit_is_allowed_to_every_member(self, acme: Tenant, role: str) -> None:
        assert acme.person(role).get(PATH).status_code == 200

    def test_export_audit_requires_the_scope_of_a_key(self, acme: Tenant) -> None:
        assert acme.key("audit:read").get(PATH).status_code == 200
        refusal(acme.key("freeze:read").get(PATH), 403, "insufficient_scope")

    def test_export_audit_is_allowed_to_a_support_session(self, acme: Tenant) -> None:
        assert acme.support.get(PATH).status_code == 200

    def test_export_audit_is_refused_when_the_plan_excludes_exports(self, globex: Tenant) -> None:
        error = refusal(globex.person("owner").get(PATH), 403, "feature_not_available")
        assert error["message"] == "The free plan does not include audit_export. Plans that do: team, business."

    def test_export_has_the_documented_columns_and_a_line_per_entry(self, acme: Tenant, session: Session) -> None:
        at = factories.now().replace(microsecond=7000)
        made = entry(session, acme.organization, at=at, request_id="req_1", details={"after": {"endsAt": None}})
        response = acme.person("viewer").get(PATH)
        documented = load_contract().document["paths"][PATH]["get"]["description"]
        columns = re.findall(
            r"`(\w+)`", "".join(line.split("|")[1] for line in documented.splitlines() if "| `" in line)
        )
        assert response.content.split(b"\r\n")[0].decode().split(",") == columns == list(export.COLUMNS)
        assert rows_of(response) == [
            {
                "id": made.id,
                "at": at.strftime("%Y-%m-%dT%H:%M:%S.007Z"),
                "action": "freeze.started",
                "source": "dashboard",
                "actorType": "user",
                "actorId": ADA["id"],
                "actorName": "Ada",
                "targetType": "freeze",
                "targetId": "frz_1",
                "targetName": "Release",
                "requestId": "req_1",
                "details": '{"after": {"endsAt": null}}',
            }
        ]

    def test_export_is_a_csv_attachment_without_caching(self, acme: Tenant) -> None:
        headers = acme.person("viewer").get(PATH).headers
        assert headers["content-type"] == "text/csv; charset=utf-8; header=present"
        assert re.fullmatch(r'attachment; filename="audit-\d{4}-\d\d-\d\d\.csv"', headers["content-disposition"])
        assert headers["cache-control"] == "no-store"
        assert "content-length" not in headers

    def test_export_of_an_empty_log_is_a_header_line(self, acme: Tenant) -> None:
        response = acme.person("viewer").get(PATH)
        assert response.text == ",".join(export.COLUMNS) + "\r\n"

    def test_head_request_of_the_export_returns_only_headers(self, acme: Tenant) -> None:
        response = acme.person("viewer").send("HEAD", PATH)
        assert (response.status_code, response.content) == (200, b"")

    def test_export_lists_the_newest_entry_first(self, acme: Tenant, session: Session) -> None:
        made = [entry(session, acme.organization, at=factories.now() - timedelta(minutes=age)).id for age in (3, 1, 2)]
        assert [row["id"] for row in rows_of(acme.person("viewer").get(PATH))] == [made[1], made[2], made[0]]


class TestExportContent:
    def test_export_applies_the_filters_of_the_list(self, acme: Tenant, session: Session) -> None:
        now = factories.now()
        wanted = {
            "action": "member.removed",
            "actor": {**ADA, "id": "usr_2"},
            "source": "api",
            "target": {"type": "user", "id": "usr_3", "name": "Bob"},
            "at": now - timedelta(hours=2),
        }
        only = entry(session, acme.organization, **wanted)
        entry(session, acme.organization, at=now)
        viewer = acme.person("viewer")
        for asked in (
            {"action": "member.removed"},
            {"actorId": "usr_2"},
            {"targetId": "usr_3"},
            {"source": "api"},
            {"to": text_of(now - timedelta(hours=1))},
            {"from": text_of(now - timedelta(hours=3)), "to": text_of(now), "source": "api"},
        ):
            assert [row["id"] for row in rows_of(viewer.get(PATH, **asked))] == [only.id], asked
        assert not rows_of(viewer.get(PATH, **{"from": text_of(now + timedelta(seconds=1))}))
        refusal(viewer.get(PATH, action="no.action"), 400, "invalid_parameter")

    def test_export_reaches_as_far_back_as_the_plan(self, acme: Tenant, session: Session) -> None:
        change_plan(acme.session, acme.organization, "team")
        session.flush()
        now = factories.now()
        for age in (89, 91):
            entry(session, acme.organization, at=now - timedelta(days=age), request_id=f"req_{age}")
        viewer = acme.person("viewer")
        assert [row["requestId"] for row in rows_of(viewer.get(PATH))] == ["req_89"]
        assert len(rows_of(viewer.get(PATH, **{"from": text_of(now - timedelta(days=300))}))) == 1

    def test_export_contains_nothing_of_another_organization(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        entry(session, globex.organization)
        mine = entry(session, acme.organization)
        assert [row["id"] for row in rows_of(acme.key("audit:read").get(PATH))] == [mine.id]

    @pytest.mark.parametrize(
        "name", ['He said "no", twice', "two\nlines", "two\r\nlines", "ünïcödé 冻结 🥶", " spaces ", "\\.", ""]
    )
    def test_names_with_special_characters_survive_the_export(self, acme: Tenant, session: Session, name: str) -> None:
        entry(session, acme.organization, actor={**ADA, "name": name}, details={"name": name})
        (row,) = rows_of(acme.person("viewer").get(PATH))
        assert row["actorName"] == name
        assert json.loads(row["details"]) == {"name": name}

    @pytest.mark.parametrize(
        ("name", "cell"),
        [
            ('=HYPERLINK("https://evil")', '\'=HYPERLINK("https://evil")'),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "\t'=1"),
            ("  =1", "'  =1"),
            ("\uff1d1", "'\uff1d1"),
            ("a;=1", "a;'=1"),
            ("a\n=1", "a\n'=1"),
            ('a;"=1', "a;'\"=1"),
            ('a; ""=1', 'a;\' ""=1'),
            ("\xa0=1", "'\xa0=1"),
            ("\u3000=1", "'\u3000=1"),
            ("\ufeff=1", "'\ufeff=1"),
            ("\u200b=1", "'\u200b=1"),
            ("\x01=1", "'\x01=1"),
            ("\ufe66\x31", "'\ufe66\x31"),
            ("\ufe621", "'\ufe621"),
            ("\u22121", "'\u22121"),
            ("a = b-c", "a = b-c"),
        ],
        ids=repr,
    )
    def test_export_contains_no_formula_cells(self, acme: Tenant, session: Session, name: str, cell: str) -> None:
        entry(session, acme.organization, actor={**ADA, "name": name}, target={"type": "x", "id": name, "name": name})
        (row,) = rows_of(acme.person("viewer").get(PATH))
        assert {row["actorName"], row["targetName"], row["targetId"]} == {cell}

    def test_exported_details_escape_semicolons_and_keep_the_value(self, acme: Tenant, session: Session) -> None:
        details = {"reason": "a;=cmd|' /C calc'!A0;\\;b"}
        entry(session, acme.organization, details=details)
        (row,) = rows_of(acme.person("viewer").get(PATH))
        assert ";" not in row["details"]
        assert json.loads(row["details"]) == details

    def test_export_with_too_many_rows_is_refused_with_the_count(
        self, acme: Tenant, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(export, "MAX_ROWS", 2)
        made = [entry(session, acme.organization, at=factories.now() - timedelta(hours=age)) for age in range(3)]
        viewer = acme.person("viewer")
        error = refusal(viewer.get(PATH), 413, "export_too_large")
        assert {"3", "2"} <= set(re.findall(r"\d+", error["message"]))
        assert len(rows_of(viewer.get(PATH, **{"from": text_of(made[1].at)}))) == 2

    def test_export_may_have_half_a_million_rows(self) -> None:
        assert export.MAX_ROWS == 500_000


def text_of(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


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
    def long(self, acme: Tenant, session: Session) -> str:
        """Give the organisation an audit of 20 MB, more than buffers take, and return a token for it."""
        session.execute(MANY, {"organization": acme.id, "count": ROWS})
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
        self,
        how: str,
        long: str,
        readers: Callable[[str], Reader],
        impatient: streaming.StreamTimeouts,
        acme: Tenant,
        session: Session,
    ) -> None:
        impatient.authorization = 0.2
        reader = readers(str(acme.key("audit:read").token) if how == "key revoked" else long)
        assert reader.read().startswith(b"HTTP/1.1 200")
        eventually(lambda: downloads(session) == 1)
        session.execute(text(REVOCATIONS[how]), {"organization": acme.id})
        eventually(lambda: downloads(session) == 0)
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
        self, long: str, readers: Callable[[str], Reader], acme: Tenant, session: Session
    ) -> None:
        reader = readers(long)
        assert reader.read()
        eventually(lambda: downloads(session) == 1)
        session.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {DOWNLOAD}"))
        assert not reader.rest().endswith(b"0\r\n\r\n")
        assert acme.person("viewer").get(PATH).status_code == 200

    def test_exports_are_limited_to_two_per_organization(
        self, long: str, readers: Callable[[str], Reader], acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        change_plan(globex.session, globex.organization, "business")
        session.flush()
        running = [readers(long) for _ in range(MAX_DOWNLOADS_PER_ORGANIZATION)]
        assert all(reader.read() for reader in running)
        refused = acme.person("viewer").get(PATH)
        refusal(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        assert globex.person("viewer").get(PATH).status_code == 200
        assert acme.person("viewer").get("/v1/freezes").status_code == 200
        for reader in running:
            reader.socket.close()
        eventually(lambda: downloads(session) == 0)
        assert acme.person("viewer").get(PATH).status_code == 200

    def test_exports_are_limited_per_process(
        self, readers: Callable[[str], Reader], session: Session, acme: Tenant
    ) -> None:
        many = [factories.organization(session, f"Org{number}") for number in range(MAX_DOWNLOADS // 2)]
        running = []
        for organization in many:
            session.execute(
                text(str(MANY).replace("'aud_' ||", f"'aud_{organization.id[-4:]}' ||")),
                {"organization": organization.id, "count": ROWS},
            )
            token = factories.member_token(session, organization, "viewer")
            running += [readers(token) for _ in range(2)]
        assert all(reader.read() for reader in running)
        refused = acme.person("viewer").get(PATH)
        refusal(refused, 503, "database_unavailable")
        assert acme.person("viewer").get("/v1/freezes").status_code == 200


DOWNLOAD = "query LIKE 'COPY (SELECT id%' AND state = 'active' AND datname = current_database()"


def downloads(session: Session) -> int:
    return int(session.scalar(text(f"SELECT count(*) FROM pg_stat_activity WHERE {DOWNLOAD}")) or 0)
