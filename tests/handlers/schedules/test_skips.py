"""Skipping any planned window, and planning skipped ones again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import new_id
from services.schedules.later_occurrences import occurrence_id
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.preview_requests import DAY, month
from tests.handlers.schedules.requests import DAILY, FIRST, NIGHT, NOON, SOON, created, running, starts
from tests.harness.concurrency import at_once

LATER = SOON + timedelta(days=200)
"""A day after the planned 90 days."""


def path(made: dict[str, Any], occurrence: str, action: str) -> str:
    return f"/v1/schedules/{made['id']}/occurrences/{occurrence}/{action}"


def on(caller: Caller, made: dict[str, Any], day: Any, state: str | None = None) -> list[dict[str, Any]]:
    """Return the occurrences of a schedule that start on a day."""
    span = {"from": starts(day, 0), "to": starts(day + DAY, 0), "scheduleId": made["id"]}
    answer = caller.get("/v1/schedules/occurrences", **span, **({"state": state} if state else {}))
    rows: list[dict[str, Any]] = answer.json()["data"]
    return [row for row in rows if row["startsAt"].startswith(day.isoformat())]


@pytest.fixture
def nights(key: Caller) -> dict[str, Any]:
    return created(key)


class TestWindowsFarAhead:
    """Of a schedule whose next window is more than 90 days away."""

    @pytest.fixture
    def yearly(self, key: Caller) -> dict[str, Any]:
        return created(key, recurrence={"frequency": "yearly", "startDate": LATER.isoformat()})

    def test_next_windows_are_shown_and_skipped_one_after_the_other(self, key: Caller, yearly: dict[str, Any]) -> None:
        years = [starts(LATER.replace(year=LATER.year + number), 22) for number in range(4)]
        assert yearly["nextOccurrence"]["startsAt"] == years[0]
        one = f"/v1/schedules/{yearly['id']}"
        for year in years[:3]:
            assert key.post(f"{one}/skip-next").json()["startsAt"] == year
        assert key.get(one).json()["nextOccurrence"]["startsAt"] == years[3]
        [skipped] = on(key, yearly, LATER)
        assert key.post(path(yearly, skipped["id"], "unskip")).json()["state"] == "planned"
        assert key.get(one).json()["nextOccurrence"]["startsAt"] == years[0]

    def test_next_window_is_run_now(self, acme: Tenant, yearly: dict[str, Any], web: WatchedBranch) -> None:
        ends_at = (factories.now() + timedelta(hours=1)).isoformat()
        one = f"/v1/schedules/{yearly['id']}"
        answer = acme.person("member").post(f"{one}/run-now", {"action": "apply", "endsAt": ends_at})
        assert (answer.status_code, answer.json()["state"]) == (200, "active")
        assert acme.key().get(one).json()["nextOccurrence"] == yearly["nextOccurrence"]

    def test_schedules_are_listed_by_their_next_window(self, key: Caller, yearly: dict[str, Any]) -> None:
        over = created(key, recurrence={"frequency": "once", "startDate": "2026-01-01"}, name="Over")
        soon = created(key, name="Soon", allowOverlap=True)
        listed = [row["id"] for row in key.get("/v1/schedules").json()["data"]]
        assert listed == [soon["id"], yearly["id"], over["id"]]

    def test_last_window_has_no_next_one(self, key: Caller, yearly: dict[str, Any]) -> None:
        key.patch(
            f"/v1/schedules/{yearly['id']}", {"recurrence": {"frequency": "once", "startDate": LATER.isoformat()}}
        )
        assert key.get(f"/v1/schedules/{yearly['id']}").json()["nextOccurrence"] == yearly["nextOccurrence"]
        assert key.post(f"/v1/schedules/{yearly['id']}/skip-next").status_code == 200
        refusal(key.post(f"/v1/schedules/{yearly['id']}/skip-next"), 404, "occurrence_not_found")


class TestSkipOccurrence:
    @pytest.mark.parametrize("day", [SOON + 3 * DAY, LATER], ids=["stored", "later"])
    def test_skip_and_unskip_change_one_window_and_keep_its_id(
        self, acme: Tenant, key: Caller, nights: dict[str, Any], day: Any
    ) -> None:
        [planned] = on(key, nights, day)
        answer = key.post(path(nights, planned["id"], "skip"))
        assert (answer.status_code, answer.json()) == (200, {**planned, "state": "skipped", "skipReason": "asked"})
        assert on(key, nights, day) == on(key, nights, day, "skipped") == [answer.json()]
        assert on(key, nights, day, "planned") == []
        assert {row["state"] for row in (*on(key, nights, day - DAY), *on(key, nights, day + DAY))} == {"planned"}
        [shown] = [ids for date, ids in month(key, f"{day:%Y-%m}").items() if date == day.isoformat()]
        assert planned["id"] in shown
        answer = key.post(path(nights, planned["id"], "unskip"))
        assert (answer.status_code, answer.json()) == (200, planned)
        assert on(key, nights, day) == [planned]
        assert acme.audit() == ["schedule.created", "occurrence.skipped", "occurrence.unskipped"]

    def test_skip_of_a_later_window_stores_its_row_only(
        self, key: Caller, nights: dict[str, Any], session: Session
    ) -> None:
        before = set(session.scalars(select(Occurrence.id)))
        [planned] = on(key, nights, LATER)
        key.post(path(nights, planned["id"], "skip"))
        assert set(session.scalars(select(Occurrence.id))) - before == {planned["id"]}
        key.post(path(nights, planned["id"], "unskip"))
        assert set(session.scalars(select(Occurrence.id))) == before

    @pytest.mark.parametrize(("action", "day"), [("skip", LATER), ("unskip", LATER), ("skip", SOON + DAY)])
    def test_repeated_skip_or_unskip_changes_nothing(
        self, acme: Tenant, key: Caller, nights: dict[str, Any], action: str, day: Any
    ) -> None:
        [planned] = on(key, nights, day)
        if action == "unskip":
            key.post(path(nights, planned["id"], "skip"))
        answers = at_once(*[lambda: key.post(path(nights, planned["id"], action))] * 4)
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len({answer.text for answer in answers}) == 1
        assert acme.audit().count(f"occurrence.{action}ped") == 1

    def test_skip_and_unskip_are_audited_with_the_window(
        self, key: Caller, nights: dict[str, Any], session: Session
    ) -> None:
        [planned] = on(key, nights, LATER)
        for action in ("skip", "unskip"):
            key.post(path(nights, planned["id"], action))
        query = select(AuditEntry).where(AuditEntry.action.like("occurrence.%")).order_by(AuditEntry.action)
        skipped, unskipped = session.scalars(query)
        window = {"occurrenceId": planned["id"], "startsAt": planned["startsAt"], "endsAt": planned["endsAt"]}
        states = {"state": "planned", "skipReason": None}, {"state": "skipped", "skipReason": "asked"}
        assert skipped.details == {"before": states[0], "after": states[1], **window}
        assert unskipped.details == {"before": states[1], "after": states[0], **window}
        assert {entry.target["id"] for entry in (skipped, unskipped)} == {nights["id"]}

    def test_unknown_occurrences_are_not_found(self, key: Caller, nights: dict[str, Any]) -> None:
        other = created(key, allowOverlap=True)
        [foreign] = on(key, other, LATER)
        unknown = [
            foreign["id"],
            other["nextOccurrence"]["id"],
            new_id("occ"),
            occurrence_id(nights["id"], factories.now() + timedelta(days=200)),
            occurrence_id(nights["id"], factories.now().replace(hour=22, minute=0) + timedelta(days=900)),
            "nonsense",
        ]
        for one in unknown:
            for action in ("skip", "unskip"):
                refusal(key.post(path(nights, one, action)), 404, "occurrence_not_found")

    def test_later_window_of_a_disabled_schedule_is_not_found(self, key: Caller, nights: dict[str, Any]) -> None:
        [planned] = on(key, nights, LATER)
        key.patch(f"/v1/schedules/{nights['id']}", {"enabled": False})
        refusal(key.post(path(nights, planned["id"], "skip")), 404, "occurrence_not_found")

    @pytest.mark.parametrize("day", [SOON + DAY, LATER], ids=["stored", "later"])
    def test_skipped_window_stays_so_over_edits_that_keep_its_start(
        self, key: Caller, nights: dict[str, Any], day: Any
    ) -> None:
        [planned] = on(key, nights, day)
        key.post(path(nights, planned["id"], "skip"))
        one = f"/v1/schedules/{nights['id']}"
        for changes in ({"enabled": False}, {"enabled": True}, {"window": {**NIGHT, "endTime": "05:00"}}):
            assert key.patch(one, changes).status_code == 200
        [shown] = on(key, nights, day)
        assert (shown["id"], shown["state"]) == (planned["id"], "skipped")
        assert shown["endsAt"] == starts(day + DAY, 5)
        assert key.patch(one, {"recurrence": {**DAILY, "exceptDates": [day.isoformat()]}}).status_code == 200
        refusal(key.post(path(nights, planned["id"], "unskip")), 404, "occurrence_not_found")

    @pytest.mark.parametrize(
        ("day", "changes", "at"),
        [
            (SOON + DAY, {"window": {**NIGHT, "startTime": "21:00"}}, 21),
            (LATER, {"timezone": "Pacific/Honolulu"}, 32),
            (LATER, {"timezone": "Asia/Tokyo", "window": {**NIGHT, "startTime": "08:00"}}, -1),
        ],
    )
    def test_skipped_window_stays_so_when_it_is_moved_within_its_day(
        self, key: Caller, nights: dict[str, Any], day: Any, changes: dict[str, Any], at: int
    ) -> None:
        [planned] = on(key, nights, day)
        key.post(path(nights, planned["id"], "skip"))
        one = f"/v1/schedules/{nights['id']}"
        assert key.patch(one, changes).status_code == 200
        near = [each for offset in (-DAY, 0 * DAY, DAY) for each in on(key, nights, day + offset)]
        moved = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=at)
        [shown] = [each for each in near if each["state"] == "skipped"]
        assert shown["startsAt"] == moved.isoformat().replace("+00:00", "Z")
        assert shown["skipReason"] == "asked"
        assert key.post(path(nights, shown["id"], "unskip")).json()["state"] == "planned"

    @pytest.mark.parametrize("day", [SOON + DAY, LATER], ids=["stored", "later"])
    def test_change_that_leaves_no_window_on_a_skipped_day_says_so(
        self, key: Caller, nights: dict[str, Any], day: Any
    ) -> None:
        planned = [each for one in (day, day + DAY) for each in on(key, nights, one)]
        for each in planned:
            key.post(path(nights, each["id"], "skip"))
        changes = {"recurrence": {**DAILY, "exceptDates": [day.isoformat()]}, "window": {**NIGHT, "startTime": "21:00"}}
        changed = key.patch(f"/v1/schedules/{nights['id']}", changes).json()
        assert changed["lostSkips"] == [{name: planned[0][name] for name in ("startsAt", "endsAt")}]
        assert "lostSkips" not in key.patch(f"/v1/schedules/{nights['id']}", {"name": "Evenings"}).json()

    @pytest.mark.parametrize("days", [1, 200, 500], ids=["stored", "later", "after 400 days"])
    def test_skipped_window_may_be_overlapped_and_is_then_not_unskipped(
        self, key: Caller, nights: dict[str, Any], days: int
    ) -> None:
        day = SOON + timedelta(days=days)
        [planned] = on(key, nights, day)
        other = {**FIRST, "recurrence": {"frequency": "once", "startDate": day.isoformat()}}
        if days < 400:
            refusal(key.post("/v1/schedules", other), 409, "schedule_overlap")
        key.post(path(nights, planned["id"], "skip"))
        made = created(key, **other)
        answer = key.post(path(nights, planned["id"], "unskip"))
        if days > 400:
            assert answer.status_code == 200
            return
        error = refusal(answer, 409, "schedule_overlap")
        assert error["details"][0]["scheduleId"] == made["id"]
        key.patch(f"/v1/schedules/{nights['id']}", {"allowOverlap": True})
        assert key.post(path(nights, planned["id"], "unskip")).status_code == 200

    @pytest.mark.parametrize(("changes", "status"), [({"name": "Beside"}, 200), ({"window": NIGHT}, 409)])
    def test_window_planned_beside_another_schedule_may_be_unskipped(
        self, key: Caller, acme: Tenant, changes: dict[str, Any], status: int
    ) -> None:
        factories.branch(acme.session, acme.repository("api"))
        once = {"frequency": "once", "startDate": (SOON + DAY).isoformat()}
        scopes = [{"type": "glob", "patterns": [f"acme/{name}", "acme/new"]} for name in ("web", "api")]
        window = NIGHT if status == 200 else NOON
        mine, other = (
            created(key, recurrence=rule, scope=scope, window=each)
            for rule, scope, each in zip((DAILY, once), scopes, (NIGHT, window), strict=True)
        )
        factories.branch(acme.session, acme.repository("new"))
        [planned] = on(key, mine, SOON + DAY)
        key.post(path(mine, planned["id"], "skip"))
        assert key.patch(f"/v1/schedules/{other['id']}", changes).status_code == 200
        assert key.post(path(mine, planned["id"], "unskip")).status_code == status

    def test_other_overlaps_do_not_prevent_an_unskip(self, key: Caller, nights: dict[str, Any], acme: Tenant) -> None:
        once = {"frequency": "once", "startDate": (SOON + 5 * DAY).isoformat()}
        created(key, recurrence=once, allowOverlap=True)
        created(key, name="Every night", allowOverlap=True)
        [planned] = on(key, nights, SOON + DAY)
        key.post(path(nights, planned["id"], "skip"))
        assert key.post(path(nights, planned["id"], "unskip")).status_code == 200

    def test_unskip_needs_an_enabled_schedule(self, key: Caller, nights: dict[str, Any]) -> None:
        [planned] = on(key, nights, SOON + DAY)
        key.post(path(nights, planned["id"], "skip"))
        key.patch(f"/v1/schedules/{nights['id']}", {"enabled": False})
        error = refusal(key.post(path(nights, planned["id"], "unskip")), 409, "invalid_state")
        assert "disabled" in error["message"]

    def test_settled_window_is_not_changed_and_the_error_says_what_it_is(
        self, key: Caller, nights: dict[str, Any], session: Session
    ) -> None:
        now, schedule = factories.now(), session.get_one(Schedule, nights["id"])
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("skip", {"started_at": now - 2 * DAY}, "is over"),
            ("skip", {}, "passed without a freeze"),
            ("skip", {"skip_reason": "no_such_time"}, "no_such_time"),
            ("skip", {"skip_reason": "no_targets"}, "no_targets"),
            ("unskip", {"started_at": now - 2 * DAY}, "is over"),
            ("unskip", {"skip_reason": "asked"}, "began at"),
            ("unskip", {"skip_reason": "no_such_time"}, "no_such_time"),
            ("unskip", {"skip_reason": "no_targets"}, "no_targets"),
        ]
        for number, (action, columns, message) in enumerate(cases):
            starts_at = now - 2 * DAY - timedelta(minutes=number)
            row = factories.occurrence(session, schedule, starts_at=starts_at, **columns)
            error = refusal(key.post(path(nights, row.id, action)), 409, "invalid_state")
            assert message in error["message"]

    @pytest.mark.parametrize("action", ["skip", "unskip"])
    def test_active_window_is_not_changed_and_the_error_names_its_freeze(
        self, acme: Tenant, key: Caller, nights: dict[str, Any], web: WatchedBranch, action: str
    ) -> None:
        freeze = running(acme.session, acme, web, nights["id"])
        row = acme.session.scalars(select(Occurrence).where(Occurrence.freeze_id == freeze)).one()
        error = refusal(key.post(path(nights, row.id, action)), 409, "invalid_state")
        assert freeze in error["message"]

    def test_open_window_that_has_not_started_is_skipped(
        self, key: Caller, nights: dict[str, Any], session: Session
    ) -> None:
        now, schedule = factories.now(), session.get_one(Schedule, nights["id"])
        row = factories.occurrence(session, schedule, starts_at=now - timedelta(seconds=1), ends_at=now + DAY)
        assert key.post(path(nights, row.id, "skip")).json()["state"] == "skipped"
        refusal(key.post(path(nights, row.id, "unskip")), 409, "invalid_state")
