"""Importing calendars as schedules: what becomes of each event, the first time and again, and what is refused."""

from datetime import date, timedelta
from typing import Any

import holidays
import httpx
import pytest
from holidays.ical import ICalExporter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from integrations.calendars import ics
from integrations.calendars.found import Options, Reading
from models.audit import AuditEntry
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from tests import factories
from tests.handlers.callers import Caller, Tenant, at_once, refusal
from tests.handlers.conftest import RecordedWakeups
from tests.handlers.guards import takes_credentials
from tests.integrations.calendars.vectors import calendar

IMPORT = "/v1/schedules/import"
EVERYTHING = {"type": "organization"}
TODAY = factories.now().date()
SOON = TODAY + timedelta(days=20)
NEXT_YEAR = TODAY.year + 1
LINES = "\nDTSTART;VALUE=DATE:{:%Y%m%d}\nSUMMARY:{}"


@pytest.fixture(autouse=True)
def web(acme: Tenant, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, acme.repository("web"))


def event(uid: str, *lines: str, name: str = "Inventory", day: date = SOON) -> str:
    return "\n".join([f"UID:{uid}{LINES.format(day, name)}", *lines])


def of_file(*events: str, **changes: Any) -> dict[str, Any]:
    return {"format": "ics", "content": calendar(*events), "scope": EVERYTHING, "timezone": "UTC", **changes}


def of_country(country: str = "GB", **changes: Any) -> dict[str, Any]:
    given = {"format": "holidays", "country": country, "years": [NEXT_YEAR], "scope": EVERYTHING, "timezone": "UTC"}
    return {**given, **changes}


def imported(caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    answer = caller.post(IMPORT, body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def actions(told: dict[str, Any]) -> dict[str, str]:
    return {row["uid"]: row["action"] for row in told["data"]}


def only(told: dict[str, Any]) -> dict[str, Any]:
    (row,) = told["data"]
    found: dict[str, Any] = row
    return found


def kept(session: Session) -> list[Schedule]:
    """Return the schedules that are not deleted, the oldest first."""
    session.expire_all()
    return list(session.scalars(select(Schedule).where(Schedule.deleted_at.is_(None)).order_by(Schedule.id)))


@pytest.fixture
def member(acme: Tenant) -> Caller:
    return acme.person("member")


class TestImportSchedules:
    def test_is_for_people_who_may_make_schedules(self, acme: Tenant) -> None:
        takes_credentials(
            acme, lambda caller: caller.post(IMPORT, of_country()), scope=None, least_role="member", writes=True
        )

    def test_makes_a_planned_schedule_of_an_event(self, member: Caller, session: Session) -> None:
        told = imported(member, of_file(event("1"), window={"startTime": "17:00", "endTime": "08:00", "days": 1}))
        assert told["counts"] == {"created": 1, "updated": 0, "unchanged": 0, "removed": 0, "skipped": 0}
        row = only(told)
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

    def test_is_read_in_the_zone_of_the_organisation_unless_one_is_given(
        self, acme: Tenant, member: Caller, session: Session
    ) -> None:
        acme.organization.settings = {**acme.organization.settings, "timezone": "Asia/Tokyo"}
        session.flush()
        body = {name: value for name, value in of_file(event("1")).items() if name != "timezone"}
        assert only(imported(member, body))["terms"]["timezone"] == "Asia/Tokyo"

    def test_again_changes_nothing(self, member: Caller, session: Session) -> None:
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

    def test_again_updates_what_the_calendar_has_changed(self, member: Caller, session: Session) -> None:
        first = only(imported(member, of_file(event("1"))))
        later = SOON + timedelta(days=1)
        row = only(imported(member, of_file(event("1", name="Stocktaking", day=later))))
        assert (row["action"], row["scheduleId"]) == ("updated", first["scheduleId"])
        assert row["changed"] == ["name", "recurrence", "reason"]
        assert (row["before"], row["terms"]["name"]) == (first["terms"], "Stocktaking")
        assert [one.starts_at.date() for one in session.scalars(select(Occurrence))] == [later]

    def test_again_updates_what_the_request_has_changed(self, acme: Tenant, member: Caller) -> None:
        imported(member, of_file(event("1")))
        scope = {"type": "repositories", "repositories": ["acme/web"]}
        changed = {"scope": scope, "exceptionsAllowed": False, "reason": "Stock is taken"}
        assert only(imported(member, of_file(event("1"), **changed)))["changed"] == [
            "reason",
            "scope",
            "exceptionsAllowed",
        ]

    def test_again_keeps_what_people_have_changed_by_hand(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.patch(f"/v1/schedules/{made}", {"name": "Ours", "enabled": False})
        assert only(imported(member, of_file(event("1"))))["action"] == "unchanged"
        assert [(row.name, row.enabled) for row in kept(session)] == [("Ours", False)]

    def test_makes_a_deleted_one_anew(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.delete(f"/v1/schedules/{made}")
        assert only(imported(member, of_file(event("1"))))["action"] == "created"
        assert len(kept(session)) == 1

    def test_knows_an_event_that_has_another_uid_and_says_the_same(self, member: Caller, session: Session) -> None:
        imported(member, of_file(event("1")))
        assert actions(imported(member, of_file(event("2")))) == {"2": "unchanged"}
        assert actions(imported(member, of_file(event("2"), event("3")))) == {"2": "unchanged", "3": "created"}
        assert len(kept(session)) == 2

    def test_leaves_alone_what_a_file_does_not_have_any_more(self, member: Caller, session: Session) -> None:
        imported(member, of_file(event("1"), event("2", day=SOON + timedelta(days=1))))
        imported(member, of_file(event("1")))
        assert len(kept(session)) == 2

    def test_removes_what_is_cancelled_and_leaves_out_what_never_was(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))
        told = imported(member, of_file(event("1", "STATUS:CANCELLED"), event("2", "STATUS:CANCELLED")))
        assert [(row["action"], row["uid"], row["code"]) for row in told["data"]] == [
            ("removed", "1", "cancelled"),
            ("skipped", "2", "cancelled"),
        ]
        assert told["data"][0]["before"] == made["terms"]
        assert kept(session) == []
        refusal(member.get(f"/v1/schedules/{made['scheduleId']}"), 404, "schedule_not_found")

    def test_a_moved_instance_is_a_schedule_until_it_is_moved_back(self, member: Caller, session: Session) -> None:
        day = f"{SOON:%Y%m%d}"
        weekly = f"UID:1\nSUMMARY:Deploys\nDTSTART:{day}T170000\nDTEND:{day}T180000\nRRULE:FREQ=WEEKLY;COUNT=3"
        moved = f"UID:1\nRECURRENCE-ID:{day}T170000\nSUMMARY:Deploys\nDTSTART:{day}T090000\nDTEND:{day}T100000"
        told = imported(member, of_file(weekly, moved))
        assert [row["terms"]["name"] for row in told["data"]] == ["Deploys", "Deploys (09:00-10:00)"]
        back = imported(member, of_file(weekly))
        assert [(row["action"], row["code"]) for row in back["data"]] == [("removed", "moved"), ("updated", None)]
        assert [row.recurrence["frequency"] for row in kept(session)] == ["weekly"]

    def test_what_is_over_is_left_out(self, member: Caller) -> None:
        row = only(imported(member, of_file(event("1", day=TODAY - timedelta(days=3)))))
        assert (row["action"], row["code"], row["scheduleId"]) == ("skipped", "past", None)

    def test_what_was_moved_into_the_past_does_not_happen_again(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))
        row = only(imported(member, of_file(event("1", day=TODAY - timedelta(days=3)))))
        assert (row["action"], row["scheduleId"]) == ("updated", made["scheduleId"])
        assert session.scalar(select(func.count()).select_from(Occurrence)) == 0

    def test_what_was_ended_long_ago_does_not_happen_again(self, member: Caller, session: Session) -> None:
        rule = "RRULE:FREQ=YEARLY;BYYEARDAY=1{}"
        day = date(TODAY.year - 3, 1, 1)
        imported(member, of_file(event("1", rule.format(""), day=day)))
        told = imported(member, of_file(event("1", rule.format(f";UNTIL={TODAY.year - 2}0601"), day=day)))
        assert [(row["action"], row["code"]) for row in told["data"]] == [("removed", "moved"), ("skipped", "past")]
        assert kept(session) == []

    def test_tells_what_was_left_out_beside_what_was_taken(self, member: Caller) -> None:
        told = imported(member, of_file(event("1"), event("2", "RRULE:FREQ=SECONDLY")))
        assert actions(told) == {"1": "created", "2": "skipped"}
        assert (told["data"][1]["code"], told["data"][1]["scheduleId"]) == ("unsupported_recurrence", None)

    def test_a_dry_run_tells_the_same_and_changes_nothing(
        self, member: Caller, session: Session, wakeups: RecordedWakeups, acme: Tenant
    ) -> None:
        imported(member, of_file(event("1"), event("2", name="Other"), event("4", name="Gone")))
        before = [(row.id, row.name, row.updated_at) for row in kept(session)]
        entries, occurrences = len(acme.audit()), session.scalar(select(func.count()).select_from(Occurrence))
        events = (event("1", name="New name"), event("2", name="Other"), event("3"), event("4", "STATUS:CANCELLED"))
        dry = imported(member, of_file(*events, dryRun=True))
        assert dry["dryRun"] is True
        assert [(row.id, row.name, row.updated_at) for row in kept(session)] == before
        assert len(acme.audit()) == entries
        assert session.scalar(select(func.count()).select_from(Occurrence)) == occurrences
        real = imported(member, of_file(*events))
        assert actions(real) == {"1": "updated", "2": "unchanged", "3": "created", "4": "removed"}
        assert dry["counts"] == real["counts"]
        assert [{**row, "scheduleId": None} if row["action"] == "created" else row for row in real["data"]] == dry[
            "data"
        ]

    def test_two_at_once_make_one_schedule_of_an_event(self, acme: Tenant, session: Session) -> None:
        callers = [acme.person("member"), acme.person("admin")]
        answers = at_once(*(lambda caller=caller: caller.post(IMPORT, of_file(event("1"))) for caller in callers))
        assert sorted(only(answer.json())["action"] for answer in answers) == ["created", "unchanged"]
        assert len(kept(session)) == 1

    def test_a_retry_with_its_key_is_the_first_answer(self, member: Caller) -> None:
        first, second = (
            member.post(IMPORT, of_file(event("1")), headers={"Idempotency-Key": "import-1"}) for _ in range(2)
        )
        assert (first.json(), second.headers["Idempotency-Replayed"]) == (second.json(), "true")

    def test_is_told_to_the_audit_as_a_whole_and_schedule_by_schedule(
        self, member: Caller, acme: Tenant, session: Session
    ) -> None:
        imported(member, of_file(event("1"), event("2", "STATUS:CANCELLED")))
        assert acme.audit() == ["schedule.created", "schedule.imported"]
        details = session.scalars(select(AuditEntry).where(AuditEntry.action == "schedule.imported")).one().details
        assert details["counts"] == {"created": 1, "updated": 0, "unchanged": 0, "removed": 0, "skipped": 1}
        assert details["schedules"] == [kept(session)[0].id]

    def test_of_an_organisation_that_was_deleted_while_its_calendar_was_read_makes_nothing(
        self, acme: Tenant, member: Caller, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = ics.read

        def delete_and_read(text: str, options: Options) -> Reading:
            acme.organization.deleted_at = factories.now()
            session.flush()
            return read(text, options)

        monkeypatch.setattr(ics, "read", delete_and_read)
        refusal(member.post(IMPORT, of_file(event("1"))), 410, "organization_deleted")
        assert kept(session) == []

    def test_another_organisation_has_its_own(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("site"))
        for tenant in (acme, globex):
            assert only(imported(tenant.person("member"), of_file(event("1"))))["action"] == "created"

    def test_a_real_calendar_of_a_country_is_a_schedule_for_each_day_to_come(self, member: Caller) -> None:
        computed = holidays.country_holidays("US", years=[TODAY.year, NEXT_YEAR])
        body = {**of_file(), "content": ICalExporter(computed).generate()}
        told = imported(member, body)
        assert told["counts"]["created"] == sum(day >= TODAY for day in computed)
        assert told["counts"]["skipped"] == sum(day < TODAY for day in computed)
        assert imported(member, body)["counts"]["unchanged"] == told["counts"]["created"]


class TestHolidays:
    def test_each_is_a_schedule_that_later_years_add_to(self, member: Caller, session: Session) -> None:
        first = imported(member, of_country())
        by_name = {row["name"]: row for row in first["data"]}
        assert by_name["Christmas Day"]["uid"] == "GB//public/Christmas Day"
        second = imported(member, of_country(years=[NEXT_YEAR + 1]))
        (row,) = [row for row in second["data"] if row["uid"] == "GB//public/Good Friday"]
        assert (row["action"], row["changed"]) == ("updated", ["recurrence"])
        years = [day[:4] for day in row["terms"]["recurrence"]["dates"]]
        assert years == [str(NEXT_YEAR), str(NEXT_YEAR + 1)]
        assert imported(member, of_country())["counts"]["updated"] == 0
        assert len(kept(session)) == len(first["data"])

    def test_observances_and_the_day_before_come_when_they_are_asked_for(self, member: Caller) -> None:
        public = imported(member, of_country("US", dryRun=True))
        both = imported(member, of_country("US", observances=True, dayBefore=True, dryRun=True))
        assert both["counts"]["created"] > public["counts"]["created"]
        (row,) = [row for row in both["data"] if row["name"] == "Thanksgiving Day"]
        assert row["terms"]["window"] == {"startTime": "00:00", "endTime": "00:00", "days": 2}
        assert date.fromisoformat(row["terms"]["recurrence"]["startDate"]).isoweekday() == 3
        assert row["terms"]["reason"] == "Holiday: Thanksgiving Day"

    def test_together_they_fit_into_small_plans(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("site"))
        caller = globex.person("member")
        refusal(caller.post(IMPORT, of_country()), 403, "feature_not_available")
        body = of_country(together=True, years=[2027])
        told = imported(caller, body)
        assert [row["name"] for row in told["data"]] == [
            "Public holidays (GB)",
            "Public holidays (GB) (4 days)",
        ]
        assert imported(caller, body)["counts"]["unchanged"] == len(told["data"])

    @pytest.mark.parametrize(
        ("place", "path"),
        [({"country": "ZZ"}, "/country"), ({"country": "US", "subdivision": "ENG"}, "/subdivision")],
    )
    def test_an_unknown_place_is_refused(self, member: Caller, place: dict[str, str], path: str) -> None:
        error = refusal(member.post(IMPORT, of_country(**place)), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == [path]


class TestRefusals:
    def test_tells_every_fault_of_the_terms_at_once(self, member: Caller) -> None:
        body = of_file(
            event("1"),
            scope={"type": "glob", "patterns": ["nothing/*"]},
            timezone="Mars/Base",
            window={"startTime": "09:00", "endTime": "08:00"},
        )
        error = refusal(member.post(IMPORT, body), 422, "no_targets_in_scope")
        assert [row["path"] for row in error["details"]] == ["/scope", "/timezone", "/window/endTime"]

    @pytest.mark.parametrize(
        ("body", "status", "code", "path"),
        [
            ({"format": "ics", "scope": EVERYTHING}, 400, "missing_parameter", "/content"),
            ({"format": "holidays", "scope": EVERYTHING}, 400, "missing_parameter", "/country"),
            ({"scope": EVERYTHING}, 400, "missing_parameter", "/format"),
            ({"format": "xls", "scope": EVERYTHING}, 422, "validation_failed", "/format"),
            (of_country(years=[]), 422, "validation_failed", "/years"),
            (of_country(years=[2027, 2028, 2029, 2030, 2031, 2032]), 422, "validation_failed", "/years"),
            (of_country(content="x"), 422, "validation_failed", "/content"),
            (of_country(reason="short"), 422, "reason_required", "/reason"),
            (of_file(country="GB"), 422, "validation_failed", "/country"),
            (of_file(event("1"), content="a\0b"), 422, "validation_failed", "/content"),
            (of_file(event("1"), content="x" * 1_048_577), 422, "validation_failed", "/content"),
        ],
    )
    def test_names_the_field_that_is_wrong(
        self, member: Caller, body: dict[str, Any], status: int, code: str, path: str
    ) -> None:
        assert path in [row["path"] for row in refusal(member.post(IMPORT, body), status, code)["details"]]

    @pytest.mark.parametrize(
        ("content", "code"),
        [
            pytest.param("Dear all, we are closed on Friday.", "invalid_parameter", id="a letter"),
            pytest.param(calendar(), "invalid_parameter", id="no event"),
            pytest.param(calendar("UID:1\nDTSTART:whenever"), "invalid_parameter", id="no day"),
            pytest.param(calendar(event("1", "DURATION:P999999999D")), "invalid_parameter", id="a huge duration"),
            pytest.param(calendar(event("1", "RRULE:FREQ=SECONDLY")), "invalid_recurrence", id="every second"),
            pytest.param(
                calendar(event("1", "RRULE:FREQ=DAILY;COUNT=999999999")), "invalid_recurrence", id="a billion"
            ),
            pytest.param("BEGIN:VEVENT\n" * 50_000, "invalid_parameter", id="a bomb"),
            pytest.param(calendar(*(event(str(number)) for number in range(501))), "invalid_parameter", id="too many"),
        ],
    )
    def test_of_which_nothing_can_be_used_says_why(
        self, member: Caller, session: Session, content: str, code: str
    ) -> None:
        error = refusal(member.post(IMPORT, {**of_file(), "content": content}), 422, code)
        assert {row["path"] for row in error["details"]} == {"/content"}
        assert kept(session) == []

    def test_of_ten_megabytes_is_not_read(self, member: Caller) -> None:
        body = {**of_file(), "content": "x" * 10_000_000}
        refusal(member.post(IMPORT, body), 413, "payload_too_large")

    def test_in_bytes_that_are_no_utf_8_is_malformed(self, member: Caller) -> None:
        for encoding in ("utf-16", "latin-1"):
            raw = '{"format": "ics", "content": "é"}'.encode(encoding)
            answer = member.post(IMPORT, content=raw, headers={"Content-Type": "application/json"})
            refusal(answer, 400, "malformed_json")

    def test_beyond_the_plans_number_of_schedules_makes_none(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("site"))
        caller = globex.person("member")
        events = [event(str(number), day=SOON + timedelta(days=number)) for number in range(4)]
        for dry_run in (True, False):
            error = refusal(caller.post(IMPORT, of_file(*events, dryRun=dry_run)), 403, "feature_not_available")
            assert "includes 3 schedules; there are 0 and this would add 4" in error["message"]
        assert kept(session) == []
        imported(caller, of_file(*events[:3]))
        told = imported(caller, of_file(event("0", "STATUS:CANCELLED"), *events[1:]))
        assert told["counts"] == {"created": 1, "updated": 0, "unchanged": 2, "removed": 1, "skipped": 0}

    def test_overlaps_are_refused_only_where_that_is_asked_for(self, member: Caller, session: Session) -> None:
        imported(member, of_file(event("1")))
        body = of_file(event("2", name="Other"), allowOverlap=False)
        error = refusal(member.post(IMPORT, body), 409, "schedule_overlap")
        assert error["details"][0]["scheduleId"] == kept(session)[0].id
        refusal(member.post(IMPORT, {**body, "dryRun": True}), 409, "schedule_overlap")
        assert only(imported(member, of_file(event("2", name="Other"))))["action"] == "created"


def test_a_bad_calendar_leaves_the_service_answering(member: Caller) -> None:
    never = "RRULE:FREQ=DAILY;BYMONTH=1;BYMONTHDAY=1;BYSETPOS=2"
    content = calendar(*(event(str(number), never) for number in range(1500)))

    def bomb() -> httpx.Response:
        return member.post(IMPORT, {**of_file(), "content": content})

    bombed, listed = at_once(bomb, lambda: member.get("/v1/schedules"))
    assert listed.status_code == 200
    assert "too" in refusal(bombed, 422, "invalid_parameter")["message"]
