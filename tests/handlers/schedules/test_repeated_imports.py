"""Importing a calendar again: its scope, edits by people, what has left the calendar, and what people deleted."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from models.schedules import Schedule
from tests import factories
from tests.handlers.callers import Caller, Tenant
from tests.handlers.schedules.import_requests import (
    NEXT_YEAR,
    SOON,
    actions,
    event,
    imported,
    kept,
    of_country,
    of_file,
    only,
)
from tests.handlers.schedules.requests import EVERYTHING

pytestmark = pytest.mark.usefixtures("calendars_read_in_process")
LATER = SOON + timedelta(days=1)
REPOSITORIES = {"type": "repositories", "repositories": ["acme/web"]}


def results(shown: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(row["uid"], row["action"], row["code"]) for row in shown["data"]]


def titled(title: str, *events: str, **changes: Any) -> dict[str, Any]:
    """Return the import of a calendar that has a title."""
    body = of_file(*events, **changes)
    return {**body, "content": body["content"].replace("VERSION:2.0", f"VERSION:2.0\r\nX-WR-CALNAME:{title}")}


class TestScopes:
    def test_calendar_has_schedules_of_its_own_in_each_scope(self, member: Caller, session: Session) -> None:
        first = only(imported(member, of_file(event("1"))))
        second = only(imported(member, of_file(event("1"), scope=REPOSITORIES)))
        assert (first["action"], second["action"]) == ("created", "created")
        for scope, made in ((EVERYTHING, first), (REPOSITORIES, second)):
            row = only(imported(member, of_file(event("1", day=LATER), scope=scope)))
            assert (row["action"], row["scheduleId"]) == ("updated", made["scheduleId"])
        cancelled = imported(member, of_file(event("1", "STATUS:CANCELLED"), scope=REPOSITORIES))
        assert results(cancelled) == [("1", "removed", "cancelled")]
        assert [row.scope for row in kept(session)] == [EVERYTHING]

    def test_scope_edited_by_people_stays(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.patch(f"/v1/schedules/{made}", {"scope": REPOSITORIES})
        assert only(imported(member, of_file(event("1", day=LATER))))["changed"] == ["recurrence"]
        assert [row.scope for row in kept(session)] == [REPOSITORIES]

    def test_scope_in_other_words_is_the_same(self, member: Caller, web: WatchedBranch) -> None:
        spellings: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (
                {"type": "repositories", "repositories": ["ACME/Web", web.repository_id]},
                {"type": "repositories", "repositories": ["acme/web"]},
            ),
            ({"type": "glob", "patterns": ["ACME/*"]}, {"type": "glob", "patterns": ["acme/*"]}),
            (
                {"type": "branch", "repository": "acme/Web", "branch": "main"},
                {"type": "branch", "branchId": web.id},
            ),
        ]
        for one, other in spellings:
            assert only(imported(member, of_file(event("1"), scope=one)))["action"] == "created"
            assert only(imported(member, of_file(event("1"), scope=other)))["action"] == "unchanged"


class TestEdits:
    def test_edits_stay_when_the_calendar_changes_other_properties(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        window = {"startTime": "09:00", "endTime": "17:00", "days": 0}
        by_hand = {"name": "Ours", "window": window, "reason": "Ours as well", "allowOverlap": False}
        member.patch(f"/v1/schedules/{made}", by_hand)
        row = only(imported(member, of_file(event("1", day=LATER))))
        assert (row["action"], row["changed"]) == ("updated", ["recurrence"])
        assert row["edited"] == ["name", "window", "reason", "allowOverlap"]
        assert row["terms"] == {**row["before"], "recurrence": {"frequency": "once", "startDate": LATER.isoformat()}}
        shown = member.get(f"/v1/schedules/{made}").json()
        assert {name: shown[name] for name in by_hand} == by_hand

    def test_property_that_the_calendar_changes_loses_its_edit(self, member: Caller) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.patch(f"/v1/schedules/{made}", {"name": "Ours", "exceptionsAllowed": False})
        row = only(imported(member, of_file(event("1", name="Stocktaking"))))
        assert (row["changed"], row["edited"]) == (["name", "reason"], ["exceptionsAllowed"])
        assert (row["before"]["name"], row["terms"]["name"]) == ("Ours", "Stocktaking")
        again = only(imported(member, of_file(event("1", name="Stocktaking"))))
        assert (again["action"], again["edited"]) == ("unchanged", ["exceptionsAllowed"])

    def test_reason_of_the_import_replaces_an_edited_one_if_written(self, member: Caller) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.patch(f"/v1/schedules/{made}", {"reason": "Written by hand"})
        derived = only(imported(member, of_file(event("1", name="Stocktaking"))))
        assert (derived["changed"], derived["terms"]["reason"]) == (["name"], "Written by hand")
        written = only(imported(member, of_file(event("1", name="Stocktaking"), reason="Stock is taken")))
        assert (written["changed"], written["terms"]["reason"]) == (["reason"], "Stock is taken")

    def test_days_edited_by_people_stay_when_a_year_is_added(self, member: Caller, session: Session) -> None:
        imported(member, of_country())
        (friday,) = [row for row in kept(session) if row.name == "Good Friday"]
        edited = f"{NEXT_YEAR}-06-01"
        member.patch(f"/v1/schedules/{friday.id}", {"recurrence": {"frequency": "once", "startDate": edited}})
        shown = imported(member, of_country(years=[NEXT_YEAR, NEXT_YEAR + 1]))
        (row,) = [row for row in shown["data"] if row["name"] == "Good Friday"]
        assert (row["changed"], row["edited"]) == (["recurrence"], ["recurrence"])
        first, second = row["terms"]["recurrence"]["dates"]
        assert (first, second[:4]) == (edited, str(NEXT_YEAR + 1))

    def test_rule_in_place_of_days_stays_until_the_calendar_changes(self, member: Caller, session: Session) -> None:
        imported(member, of_country())
        (day,) = [row for row in kept(session) if row.name == "Christmas Day"]
        rule = {"frequency": "yearly", "startDate": f"{NEXT_YEAR}-12-25"}
        member.patch(f"/v1/schedules/{day.id}", {"recurrence": rule})
        for years, action in (([NEXT_YEAR], "unchanged"), ([NEXT_YEAR + 1], "updated")):
            shown = imported(member, of_country(years=years))
            assert {row["action"] for row in shown["data"] if row["name"] == "Christmas Day"} == {action}

    def test_schedule_without_known_terms_keeps_what_it_has(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.patch(f"/v1/schedules/{made}", {"name": "Ours"})
        _forget_terms(session)
        row = only(imported(member, of_file(event("1", day=LATER))))
        assert (row["action"], row["edited"]) == ("unchanged", ["name", "recurrence"])
        row = only(imported(member, of_file(event("1", day=LATER + timedelta(days=1)))))
        assert (row["changed"], row["edited"]) == (["recurrence"], ["name"])

    def test_holiday_without_known_terms_gets_further_years(self, member: Caller, session: Session) -> None:
        imported(member, of_country())
        _forget_terms(session)
        shown = imported(member, of_country(years=[NEXT_YEAR, NEXT_YEAR + 1]))
        (row,) = [row for row in shown["data"] if row["name"] == "Good Friday"]
        assert [day[:4] for day in row["terms"]["recurrence"]["dates"]] == [str(NEXT_YEAR), str(NEXT_YEAR + 1)]


class TestMissingEvents:
    def test_schedules_of_events_that_left_the_file_are_reported(self, member: Caller, session: Session) -> None:
        first = imported(member, of_file(event("1"), event("2", day=LATER)))
        for dry_run in (True, False):
            shown = imported(member, of_file(event("1"), dryRun=dry_run))
            assert results(shown) == [("2", "missing", "missing"), ("1", "unchanged", None)]
            assert shown["counts"]["missing"] == 1
            row, made = shown["data"][0], first["data"][1]
            assert (row["scheduleId"], row["terms"]) == (made["scheduleId"], made["terms"])
        assert len(kept(session)) == 2

    def test_schedules_of_missing_events_are_removed_on_request(self, acme: Tenant, member: Caller) -> None:
        made = imported(member, of_file(event("1"), event("2", day=LATER)))["data"][1]
        dry = imported(member, of_file(event("1"), removeMissing=True, dryRun=True))
        assert len(kept(acme.session)) == 2
        real = imported(member, of_file(event("1"), removeMissing=True))
        assert dry["data"] == real["data"]
        assert results(real) == [("2", "removed", "missing"), ("1", "unchanged", None)]
        assert real["data"][0]["before"] == made["terms"]
        assert [row.name for row in kept(acme.session)] == ["Inventory"]
        assert acme.audit()[-2:] == ["schedule.deleted", "schedule.imported"]
        assert actions(imported(member, of_file(event("1"), event("2", day=LATER))))["2"] == "created"

    def test_events_that_are_over_or_left_out_of_the_import_are_not_missing(
        self, member: Caller, session: Session
    ) -> None:
        imported(member, of_file(event("1"), event("2", day=LATER), event("3", name="Other"), event("4", name="Stays")))
        over = kept(session)[0]
        over.recurrence = {"frequency": "once", "start_date": "2020-01-01"}
        session.flush()
        events = (event("3", "RRULE:FREQ=SECONDLY"), event("4", name="Stays"))
        assert results(imported(member, of_file(*events, removeMissing=True))) == [
            ("2", "removed", "missing"),
            ("4", "unchanged", None),
            ("3", "skipped", "unsupported_recurrence"),
        ]

    def test_schedules_of_another_scope_or_calendar_are_not_missing(self, member: Caller, session: Session) -> None:
        imported(member, of_file(event("1"), scope=REPOSITORIES))
        imported(member, titled("Releases", event("2", name="Release")))
        imported(member, titled("Stock", event("3"), event("4", day=LATER)))
        imported(member, of_country())
        before = len(kept(session))
        shown = imported(member, titled("Stock", event("3"), removeMissing=True))
        assert results(shown) == [("4", "removed", "missing"), ("3", "unchanged", None)]
        assert len(kept(session)) == before - 1

    def test_calendars_of_other_names_lose_nothing(self, member: Caller, session: Session) -> None:
        team = titled("Team", event("1"), event("2", day=LATER))
        unnamed = of_file(event("3", name="Other"), removeMissing=True)
        imported(member, team)
        assert results(imported(member, unnamed)) == [("3", "created", None)]
        assert results(imported(member, {**team, "removeMissing": True})) == [
            ("1", "unchanged", None),
            ("2", "unchanged", None),
        ]
        assert len(kept(session)) == 3

    def test_equal_event_of_a_calendar_of_another_name_has_a_schedule_of_its_own(
        self, member: Caller, session: Session
    ) -> None:
        imported(member, titled("Team", event("1")))
        assert results(imported(member, titled("Company", event("2")))) == [("2", "created", None)]
        assert results(imported(member, titled("Company", event("3")))) == [("3", "unchanged", None)]
        assert len(kept(session)) == 2

    def test_file_with_new_uids_has_nothing_missing(self, member: Caller) -> None:
        imported(member, of_file(event("1"), event("2")))
        shown = imported(member, of_file(event("3"), event("4"), removeMissing=True))
        assert results(shown) == [("3", "unchanged", None), ("4", "unchanged", None)]

    def test_holidays_that_were_not_requested_are_not_missing(self, member: Caller, session: Session) -> None:
        imported(member, of_country("US", observances=True, years=[NEXT_YEAR, NEXT_YEAR + 1]))
        imported(member, of_country(subdivision="SCT"))
        before = [(row.id, row.recurrence) for row in kept(session)]
        shown = imported(member, of_country("US", years=[NEXT_YEAR], removeMissing=True))
        assert {row["action"] for row in shown["data"]} == {"unchanged"}
        assert [(row.id, row.recurrence) for row in kept(session)] == before

    def test_missing_holiday_is_removed_from_requested_years(self, member: Caller, session: Session) -> None:
        imported(member, of_country("MC", years=[NEXT_YEAR, NEXT_YEAR + 1]))
        _rename(session, "Immaculate Conception", "MC//public/Former Day")
        one_year = of_country("MC", removeMissing=True)
        (row, *_others) = imported(member, one_year)["data"]
        assert (row["uid"], row["action"], row["code"]) == ("MC//public/Former Day", "updated", "missing")
        assert row["changed"] == ["recurrence"]
        assert row["terms"]["recurrence"]["startDate"].startswith(str(NEXT_YEAR + 1))
        assert imported(member, one_year)["counts"]["updated"] == 0
        shown = imported(member, of_country("MC", years=[NEXT_YEAR + 1], removeMissing=True))
        assert results(shown)[0] == ("MC//public/Former Day", "removed", "missing")

    def test_moved_times_are_removed_from_requested_years(self, member: Caller, session: Session) -> None:
        imported(member, of_country("MC", years=[NEXT_YEAR, NEXT_YEAR + 1]))
        _rename(session, "Immaculate Conception", "MC//public/Christmas Day\t9 days")
        (row, *_others) = imported(member, of_country("MC"))["data"]
        assert (row["action"], row["code"], row["changed"]) == ("updated", "moved", ["recurrence"])

    def test_missing_holiday_with_a_rule_of_people_keeps_other_years(self, member: Caller, session: Session) -> None:
        imported(member, of_country("MC", years=[NEXT_YEAR, NEXT_YEAR + 1]))
        row = _rename(session, "Immaculate Conception", "MC//public/Former Day")
        rule = {"frequency": "yearly", "startDate": f"{NEXT_YEAR}-12-08"}
        member.patch(f"/v1/schedules/{row.id}", {"recurrence": rule})
        one_year, both = of_country("MC"), of_country("MC", years=[NEXT_YEAR, NEXT_YEAR + 1])
        assert imported(member, one_year)["counts"]["missing"] == 0
        assert imported(member, both)["counts"]["missing"] == 1


class TestDeletedSchedules:
    @pytest.mark.parametrize("uid", ["1", "2"], ids=["same UID", "new UID"])
    def test_schedule_that_people_deleted_is_not_created_again(
        self, member: Caller, session: Session, uid: str
    ) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.delete(f"/v1/schedules/{made}")
        for _ in range(2):
            assert results(imported(member, of_file(event(uid)))) == [(uid, "skipped", "deleted")]
        assert results(imported(member, of_file(event(uid, day=LATER)))) == [(uid, "skipped", "deleted")]
        over = event(uid, day=SOON - timedelta(days=60))
        assert results(imported(member, of_file(over, restoreDeleted=True))) == [(uid, "skipped", "past")]
        assert kept(session) == []

    def test_deleted_schedule_is_restored_on_request(self, member: Caller, session: Session) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.delete(f"/v1/schedules/{made}")
        assert only(imported(member, of_file(event("1"), restoreDeleted=True, dryRun=True)))["action"] == "created"
        assert only(imported(member, of_file(event("1"))))["code"] == "deleted"
        restored = only(imported(member, of_file(event("1"), restoreDeleted=True)))
        assert restored["action"] == "created"
        assert restored["scheduleId"] != made
        assert only(imported(member, of_file(event("1"))))["action"] == "unchanged"
        imported(member, of_file(event("1", "STATUS:CANCELLED")))
        assert only(imported(member, of_file(event("1"))))["action"] == "created"
        assert len(kept(session)) == 1

    def test_schedule_that_an_import_deleted_is_created_again(self, member: Caller) -> None:
        imported(member, of_file(event("1")))
        imported(member, of_file(event("1", "STATUS:CANCELLED")))
        assert only(imported(member, of_file(event("1"))))["action"] == "created"

    def test_deleted_schedule_in_one_scope_exists_in_another(self, member: Caller) -> None:
        made = only(imported(member, of_file(event("1"))))["scheduleId"]
        member.delete(f"/v1/schedules/{made}")
        assert only(imported(member, of_file(event("1"), scope=REPOSITORIES)))["action"] == "created"

    def test_deleted_schedule_is_neither_missing_nor_over_quota(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("site"))
        caller = globex.person("member")
        events = [event(str(number), day=SOON + timedelta(days=number)) for number in range(4)]
        first = imported(caller, of_file(events[0]))
        caller.delete(f"/v1/schedules/{only(first)['scheduleId']}")
        assert imported(caller, of_file(*events))["counts"]["created"] == 3
        assert results(imported(caller, of_file(*events[1:], removeMissing=True))) == [
            (str(number), "unchanged", None) for number in (1, 2, 3)
        ]


def _forget_terms(session: Session) -> None:
    """Make schedules like those from before the terms of imports were stored."""
    for row in kept(session):
        row.imported = None
    session.flush()


def _rename(session: Session, name: str, uid: str) -> Schedule:
    """Make a schedule that of a holiday with another UID."""
    (row,) = [row for row in kept(session) if row.name == name]
    prefix = ":".join(str(row.import_key).split(":")[:2])
    row.import_key = f"{prefix}:{uid}"
    session.flush()
    return row
