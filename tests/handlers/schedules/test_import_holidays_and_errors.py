"""Importing the holidays of a country, and what is refused of any import."""

from datetime import date, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.import_requests import (
    IMPORT,
    NEXT_YEAR,
    NO_COUNTS,
    SOON,
    actions,
    event,
    imported,
    kept,
    of_country,
    of_file,
)
from tests.handlers.schedules.requests import EVERYTHING
from tests.harness.concurrency import at_once
from tests.integrations.calendars.vectors import calendar


class TestHolidays:
    def test_each_holiday_is_a_schedule_that_later_years_extend(self, member: Caller, session: Session) -> None:
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

    def test_import_of_a_country_names_its_subdivisions(self, member: Caller) -> None:
        whole = imported(member, of_country(dryRun=True))
        assert whole["subdivisions"] == ["ENG", "NIR", "SCT", "WLS"]
        assert imported(member, of_country(subdivision="SCT", dryRun=True))["subdivisions"] == []
        assert imported(member, of_country("MC", dryRun=True))["subdivisions"] == []

    def test_estimated_holidays_say_so(self, member: Caller) -> None:
        for action in ("created", "unchanged"):
            rows = {row["name"]: row for row in imported(member, of_country("GH", years=[2027]))["data"]}
            eid = rows["Eid-ul-Fitr"]
            assert (eid["action"], eid["code"]) == (action, "estimated")
            assert eid["message"].startswith("has estimated days (2027-03-09), which may change")
            assert rows["Good Friday"]["code"] is None

    def test_equal_holidays_of_two_places_are_schedules_of_their_own(self, member: Caller, session: Session) -> None:
        made = [row for country in ("US", "CA") for row in imported(member, of_country(country))["data"]]
        assert {row["action"] for row in made} == {"created"}
        assert len(kept(session)) == len(made)

    def test_observances_and_the_day_before_are_optional(self, member: Caller) -> None:
        public = imported(member, of_country("US", dryRun=True))
        both = imported(member, of_country("US", observances=True, dayBefore=True, dryRun=True))
        assert both["counts"]["created"] > public["counts"]["created"]
        (row,) = [row for row in both["data"] if row["name"] == "Thanksgiving Day"]
        assert row["terms"]["window"] == {"startTime": "00:00", "endTime": "00:00", "days": 2}
        assert date.fromisoformat(row["terms"]["recurrence"]["startDate"]).isoweekday() == 3
        assert row["terms"]["reason"] == "Holiday: Thanksgiving Day"

    def test_combined_holidays_fit_into_small_plans(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("site"))
        caller = globex.person("member")
        refusal(caller.post(IMPORT, of_country()), 403, "feature_not_available")
        body = of_country(together=True, years=[2027])
        shown = imported(caller, body)
        assert [row["name"] for row in shown["data"]] == [
            "Public holidays (GB)",
            "Public holidays (GB) (4 days)",
        ]
        assert imported(caller, body)["counts"]["unchanged"] == len(shown["data"])

    @pytest.mark.parametrize(
        ("place", "path"),
        [({"country": "ZZ"}, "/country"), ({"country": "US", "subdivision": "ENG"}, "/subdivision")],
    )
    def test_holidays_of_an_unknown_place_are_rejected(self, member: Caller, place: dict[str, str], path: str) -> None:
        error = refusal(member.post(IMPORT, of_country(**place)), 422, "invalid_parameter")
        assert [row["path"] for row in error["details"]] == [path]


class TestImportErrors:
    def test_import_reports_every_error_of_its_terms_at_once(self, member: Caller) -> None:
        body = of_file(
            event("1"),
            scope={"type": "glob", "patterns": ["nothing/*"]},
            timezone="Mars/Base",
            window={"startTime": "09:00", "endTime": "08:00"},
        )
        error = refusal(member.post(IMPORT, body), 422, "no_targets_in_scope")
        assert [row["path"] for row in error["details"]] == ["/scope", "/timezone", "/window/endTime"]

    def test_import_error_names_the_invalid_field(self, member: Caller) -> None:
        cases: list[tuple[dict[str, Any], int, str, str]] = [
            ({"format": "ics", "scope": EVERYTHING}, 400, "missing_parameter", "/content"),
            ({"format": "holidays", "scope": EVERYTHING}, 400, "missing_parameter", "/country"),
            ({"scope": EVERYTHING}, 400, "missing_parameter", "/format"),
            ({"format": "xls", "scope": EVERYTHING}, 422, "validation_failed", "/format"),
            (of_country(years=[]), 422, "validation_failed", "/years"),
            (of_country(years=[2027, 2028, 2029, 2030, 2031, 2032]), 422, "validation_failed", "/years"),
            (of_country(content="x"), 422, "validation_failed", "/content"),
            (of_country(reason="short"), 422, "validation_failed", "/reason"),
            (of_file(country="GB"), 422, "validation_failed", "/country"),
            (of_file(event("1"), content="a\0b"), 422, "validation_failed", "/content"),
            (of_file(event("1"), content="x" * 1_048_577), 422, "validation_failed", "/content"),
        ]
        for body, status, code, path in cases:
            assert path in [row["path"] for row in refusal(member.post(IMPORT, body), status, code)["details"]]

    def test_unusable_calendar_is_rejected_with_the_reason(self, member: Caller, session: Session) -> None:
        cases: list[tuple[str, str]] = [
            ("Dear all, we are closed on Friday.", "invalid_parameter"),
            (calendar(), "invalid_parameter"),
            (calendar("UID:1\nDTSTART:whenever"), "invalid_parameter"),
            (calendar(event("1", "DURATION:P999999999D")), "invalid_parameter"),
            (calendar(event("1", "RRULE:FREQ=SECONDLY")), "invalid_recurrence"),
            (calendar(event("1", "RRULE:FREQ=DAILY;COUNT=999999999")), "invalid_recurrence"),
            ("BEGIN:VEVENT\n" * 50_000, "invalid_parameter"),
            (calendar(*(event(str(number)) for number in range(501))), "invalid_parameter"),
        ]
        for content, code in cases:
            error = refusal(member.post(IMPORT, {**of_file(), "content": content}), 422, code)
            assert {row["path"] for row in error["details"]} == {"/content"}
            assert kept(session) == []

    def test_import_beyond_the_plan_creates_no_schedule(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("site"))
        caller = globex.person("member")
        events = [event(str(number), day=SOON + timedelta(days=number)) for number in range(4)]
        for dry_run in (True, False):
            error = refusal(caller.post(IMPORT, of_file(*events, dryRun=dry_run)), 403, "feature_not_available")
            assert "includes 3 schedules. You have 0, and this would add 4" in error["message"]
        assert kept(session) == []
        imported(caller, of_file(*events[:3]))
        shown = imported(caller, of_file(event("0", "STATUS:CANCELLED"), *events[1:]))
        assert shown["counts"] == {**NO_COUNTS, "created": 1, "unchanged": 2, "removed": 1}

    def test_import_refuses_overlaps_only_on_request(self, member: Caller, session: Session) -> None:
        imported(member, of_file(event("1"), allowOverlap=False))
        body = of_file(event("2", name="Other"), allowOverlap=False)
        error = refusal(member.post(IMPORT, body), 409, "schedule_overlap")
        assert error["details"][0]["scheduleId"] == kept(session)[0].id
        tried = imported(member, {**body, "dryRun": True})
        [row] = [each for each in tried["data"] if each["uid"] == "2"]
        assert (row["action"], row["code"], row["scheduleId"]) == ("refused", "schedule_overlap", None)
        assert row["message"].startswith("overlaps with 'Inventory' from ")
        assert tried["counts"]["refused"] == 1
        assert actions(imported(member, of_file(event("2", name="Other"))))["2"] == "created"


@pytest.mark.check
@pytest.mark.slow(14)
def test_costly_calendar_does_not_block_other_requests(member: Caller) -> None:
    never = "RRULE:FREQ=DAILY;BYMONTH=1;BYYEARDAY=200"
    content = calendar(*(event(str(number), never) for number in range(1500)))

    def bomb() -> httpx.Response:
        return member.post(IMPORT, {**of_file(), "content": content})

    bombed, listed = at_once(bomb, lambda: member.get("/v1/schedules"))
    assert listed.status_code == 200
    assert "too" in refusal(bombed, 422, "invalid_parameter")["message"]
