"""Importing calendars as schedules: what becomes of each event, the first time and again."""

from datetime import date, timedelta

import holidays
import pytest
from holidays.ical import ICalExporter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from integrations.calendars import ics
from integrations.calendars.content import Options, ParsedCalendar
from models.organizations import Organization
from models.schedules import Occurrence
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.import_requests import (
    IMPORT,
    NEXT_YEAR,
    NO_COUNTS,
    SOON,
    TODAY,
    actions,
    event,
    imported,
    kept,
    of_file,
    only,
)
from tests.handlers.schedules.requests import EVERYTHING
from tests.harness.concurrency import at_once
from tests.harness.sessions import committing
from tests.harness.wakeups import RecordedWakeups

pytestmark = pytest.mark.usefixtures("calendars_read_in_process")


class TestImportSchedules:
    def test_import_creates_a_planned_schedule_of_an_event(self, member: Caller, session: Session) -> None:
        reported = imported(member, of_file(event("1"), window={"startTime": "17:00", "endTime": "08:00", "days": 1}))
        assert reported["counts"] == {**NO_COUNTS, "created": 1}
        row = only(reported)
        assert row["terms"] == {
            "name": "Inventory",
            "timezone": "UTC",
            "recurrence": {"frequency": "once", "startDate": SOON.isoformat()},
            "window": {"startTime": "17:00", "endTime": "08:00", "days": 1},
            "reason": "Calendar: Inventory",
        }
        shown = member.get(f"/v1/schedules/{row['scheduleId']}").json()
        assert {name: shown[name] for name in row["terms"]} == row["terms"]
        assert (shown["source"], shown["allowOverlap"], shown["scope"]) == ("import", True, EVERYTHING)
        assert shown["nextOccurrence"]["startsAt"] == f"{SOON.isoformat()}T17:00:00Z"
        assert session.scalar(select(func.count()).select_from(Occurrence)) == 1

    def test_import_without_timezone_uses_that_of_the_organization(self, acme: Tenant, member: Caller) -> None:
        acme.organization.settings = {**acme.organization.settings, "timezone": "Asia/Tokyo"}
        acme.session.flush()
        body = {name: value for name, value in of_file(event("1")).items() if name != "timezone"}
        assert only(imported(member, body))["terms"]["timezone"] == "Asia/Tokyo"

    def test_repeated_import_changes_nothing(self, member: Caller, session: Session) -> None:
        body = of_file(event("1"), event("2", "RRULE:FREQ=WEEKLY"), event("3", "RRULE:FREQ=YEARLY;BYYEARDAY=1"))
        first = imported(member, body)
        before = [(row.id, row.updated_at) for row in kept(session)]
        again = imported(member, body)
        assert set(actions(first).values()) == {"created"}
        assert set(actions(again).values()) == {"unchanged"}
        assert {row["uid"]: row["scheduleId"] for row in again["data"]} == {
            row["uid"]: row["scheduleId"] for row in first["data"]
        }
        assert [(row.id, row.updated_at) for row in kept(session)] == before

    def test_repeated_import_applies_changes_of_the_calendar(self, member: Caller, session: Session) -> None:
        first = only(imported(member, of_file(event("1"))))
        later = SOON + timedelta(days=1)
        row = only(imported(member, of_file(event("1", name="Stocktaking", day=later))))
        assert (row["action"], row["scheduleId"]) == ("updated", first["scheduleId"])
        assert row["changed"] == ["name", "recurrence", "reason"]
        assert (row["before"], row["terms"]["name"]) == (first["terms"], "Stocktaking")
        assert [one.starts_at.date() for one in session.scalars(select(Occurrence))] == [later]

    def test_repeated_import_applies_changes_of_the_request(self, member: Caller) -> None:
        imported(member, of_file(event("1")))
        row = only(imported(member, of_file(event("1"), exceptionsAllowed=False, reason="Stock is taken")))
        assert row["changed"] == ["reason", "exceptionsAllowed"]

    def test_import_recognizes_an_equal_event_with_another_uid(self, member: Caller, session: Session) -> None:
        imported(member, of_file(event("1")))
        assert actions(imported(member, of_file(event("2")))) == {"2": "unchanged"}
        assert actions(imported(member, of_file(event("2"), event("3")))) == {"2": "unchanged", "3": "created"}
        assert len(kept(session)) == 2

    def test_import_removes_cancelled_events_and_skips_unknown_cancellations(
        self, member: Caller, session: Session
    ) -> None:
        made = only(imported(member, of_file(event("1"))))
        reported = imported(member, of_file(event("1", "STATUS:CANCELLED"), event("2", "STATUS:CANCELLED")))
        assert [(row["action"], row["uid"], row["code"]) for row in reported["data"]] == [
            ("removed", "1", "cancelled"),
            ("skipped", "2", "cancelled"),
        ]
        assert reported["data"][0]["before"] == made["terms"]
        assert kept(session) == []
        refusal(member.get(f"/v1/schedules/{made['scheduleId']}"), 404, "schedule_not_found")

    def test_moved_instance_is_a_schedule_until_moved_back(self, member: Caller, session: Session) -> None:
        day = f"{SOON:%Y%m%d}"
        weekly = f"UID:1\nSUMMARY:Deploys\nDTSTART:{day}T170000\nDTEND:{day}T180000\nRRULE:FREQ=WEEKLY;COUNT=3"
        moved = f"UID:1\nRECURRENCE-ID:{day}T170000\nSUMMARY:Deploys\nDTSTART:{day}T090000\nDTEND:{day}T100000"
        reported = imported(member, of_file(weekly, moved))
        assert [row["terms"]["name"] for row in reported["data"]] == ["Deploys", "Deploys (09:00-10:00)"]
        back = imported(member, of_file(weekly))
        assert [(row["action"], row["code"]) for row in back["data"]] == [("removed", "moved"), ("updated", None)]
        assert [row.recurrence["frequency"] for row in kept(session)] == ["weekly"]

    def test_import_skips_past_events(self, member: Caller) -> None:
        row = only(imported(member, of_file(event("1", day=TODAY - timedelta(days=3)))))
        assert (row["action"], row["code"], row["scheduleId"]) == ("skipped", "past", None)

    def test_event_moved_into_the_past_has_no_occurrence(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))
        row = only(imported(member, of_file(event("1", day=TODAY - timedelta(days=3)))))
        assert (row["action"], row["scheduleId"]) == ("updated", made["scheduleId"])
        assert session.scalar(select(func.count()).select_from(Occurrence)) == 0

    def test_event_ended_in_the_past_is_removed_and_skipped(self, member: Caller, session: Session) -> None:
        rule = "RRULE:FREQ=YEARLY;BYYEARDAY=1{}"
        day = date(TODAY.year - 3, 1, 1)
        imported(member, of_file(event("1", rule.format(""), day=day)))
        reported = imported(member, of_file(event("1", rule.format(f";UNTIL={TODAY.year - 2}0601"), day=day)))
        assert [(row["action"], row["code"]) for row in reported["data"]] == [("removed", "moved"), ("skipped", "past")]
        assert kept(session) == []

    def test_import_reports_skipped_and_created_events_together(self, member: Caller) -> None:
        reported = imported(member, of_file(event("1"), event("2", "RRULE:FREQ=SECONDLY")))
        assert actions(reported) == {"1": "created", "2": "skipped"}
        assert (reported["data"][1]["code"], reported["data"][1]["scheduleId"]) == ("unsupported_recurrence", None)

    def test_dry_run_reports_the_same_result_and_changes_nothing(
        self, member: Caller, wakeups: RecordedWakeups, acme: Tenant
    ) -> None:
        imported(member, of_file(event("1"), event("2", name="Other"), event("4", name="Gone")))
        before = [(row.id, row.name, row.updated_at) for row in kept(acme.session)]
        entries, occurrences = len(acme.audit()), acme.session.scalar(select(func.count()).select_from(Occurrence))
        events = (event("1", name="New name"), event("2", name="Other"), event("3"), event("4", "STATUS:CANCELLED"))
        dry = imported(member, of_file(*events, dryRun=True))
        assert dry["dryRun"] is True
        assert [(row.id, row.name, row.updated_at) for row in kept(acme.session)] == before
        assert len(acme.audit()) == entries
        assert acme.session.scalar(select(func.count()).select_from(Occurrence)) == occurrences
        real = imported(member, of_file(*events))
        assert actions(real) == {"1": "updated", "2": "unchanged", "3": "created", "4": "removed"}
        assert dry["counts"] == real["counts"]
        assert [{**row, "scheduleId": None} if row["action"] == "created" else row for row in real["data"]] == dry[
            "data"
        ]

    def test_concurrent_imports_create_one_schedule_per_event(self, acme: Tenant) -> None:
        callers = [acme.person("member"), acme.person("admin")]
        answers = at_once(*(lambda caller=caller: caller.post(IMPORT, of_file(event("1"))) for caller in callers))
        assert sorted(only(answer.json())["action"] for answer in answers) == ["created", "unchanged"]
        assert len(kept(acme.session)) == 1

    def test_import_is_audited_as_a_whole_and_per_schedule(self, member: Caller, acme: Tenant) -> None:
        imported(member, of_file(event("1"), event("2", "STATUS:CANCELLED")))
        assert acme.audit() == ["schedule.created", "schedule.imported"]
        details = factories.audit_entries(acme.session, "schedule.imported")[0].details
        assert details["counts"] == {**NO_COUNTS, "created": 1, "skipped": 1}
        assert details["schedules"] == [kept(acme.session)[0].id]

    def test_import_is_refused_when_the_organization_is_deleted_meanwhile(
        self, acme: Tenant, member: Caller, database: str, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read, organization_id = ics.read, acme.id

        def delete_and_read(text: str, options: Options) -> ParsedCalendar:
            with committing(database) as session_of_thread:
                session_of_thread.get_one(Organization, organization_id).deleted_at = factories.now()
                session_of_thread.flush()
            return read(text, options)

        monkeypatch.setattr(ics, "read", delete_and_read)
        refusal(member.post(IMPORT, of_file(event("1"))), 410, "organization_deleted")
        assert kept(session) == []

    def test_imports_of_two_organizations_are_independent(self, acme: Tenant, globex: Tenant) -> None:
        factories.branch(acme.session, globex.repository("site"))
        for tenant in (acme, globex):
            assert only(imported(tenant.person("member"), of_file(event("1"))))["action"] == "created"

    def test_import_of_a_national_calendar_creates_a_schedule_per_future_day(self, member: Caller) -> None:
        computed = holidays.country_holidays("US", years=[TODAY.year, NEXT_YEAR])
        body = {**of_file(), "content": ICalExporter(computed).generate()}
        reported = imported(member, body)
        assert reported["counts"]["created"] == sum(day >= TODAY for day in computed)
        assert reported["counts"]["skipped"] == sum(day < TODAY for day in computed)
        assert imported(member, body)["counts"]["unchanged"] == reported["counts"]["created"]
