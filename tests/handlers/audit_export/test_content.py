"""Exporting the audit as CSV: what is in it, and who gets it."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.organizations import Organization
from schemas.contract import load_contract
from services.audit import export
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.audit_export.requests import PATH, rows_of
from tests.handlers.callers import Tenant, refusal

ADA = {"type": "user", "id": "usr_06aq1m3k0v5t8c2n7d4e9f1g61", "name": "Ada"}


def entry(session: Session, of: Organization, **columns: Any) -> AuditEntry:
    return factories.audit_entry(session, of, **{"actor": ADA, "source": "dashboard"} | columns)


class TestExportAudit:
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
                "targetName": "Quarter-end close",
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

    def test_names_with_special_characters_survive_the_export(self, acme: Tenant, session: Session) -> None:
        names = ['He said "no", twice', "two\nlines", "two\r\nlines", "ünïcödé 冻结 🥶", " spaces ", "\\.", ""]
        for name in names:
            entry(session, acme.organization, actor={**ADA, "name": name}, details={"name": name})
        rows = rows_of(acme.person("viewer").get(PATH))
        assert sorted(row["actorName"] for row in rows) == sorted(names)
        assert all(json.loads(row["details"]) == {"name": row["actorName"]} for row in rows)

    def test_export_contains_no_formula_cells(self, acme: Tenant, session: Session) -> None:
        cells = [
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
        ]
        for name, _ in cells:
            target = {"type": "x", "id": name, "name": name}
            entry(session, acme.organization, actor={**ADA, "name": name}, target=target)
        rows = rows_of(acme.person("viewer").get(PATH))
        shown = {(row["actorName"], row["targetName"], row["targetId"]) for row in rows}
        assert shown == {(cell, cell, cell) for _, cell in cells}

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
