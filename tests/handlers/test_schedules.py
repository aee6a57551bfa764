"""Operations of the tag Schedules: making, reading, changing and deleting them, and skipping the next window.

What looks ahead, imports and begins is in the files beside this one; which windows are planned is asked in
`tests/services/schedules`.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import new_id
from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Caller, Tenant, at_once, refusal
from tests.handlers.guards import takes_credentials

EVERYTHING = {"type": "organization"}
REASON = "Nobody is here at night"
SOON = (factories.now() + timedelta(days=2)).date()
DAILY = {"frequency": "daily", "startDate": SOON.isoformat()}
NOON = {"startTime": "12:00", "endTime": "13:00"}
NIGHT = {"startTime": "22:00", "endTime": "06:00", "days": 1}
FIRST = {
    "name": "Nights",
    "scope": EVERYTHING,
    "timezone": "UTC",
    "recurrence": DAILY,
    "window": NIGHT,
    "reason": REASON,
}
UNKNOWN = "sch_00000000000000000000000000"
FIELDS = set(load_contract().document["components"]["schemas"]["Schedule"]["properties"])

Call = Callable[[Caller, str], httpx.Response]


@pytest.fixture(autouse=True)
def web(acme: Tenant, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, acme.repository("web"))


def starts(day: date, hour: int) -> str:
    return f"{day.isoformat()}T{hour:02}:00:00Z"


def created(caller: Caller, **changes: Any) -> dict[str, Any]:
    answer = caller.post("/v1/schedules", {**FIRST, **changes})
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def rows(error: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["path"], row["code"]) for row in error["details"]]


def details(session: Session, action: str) -> dict[str, Any]:
    """Return the details of the only entry of an action."""
    return session.scalars(select(AuditEntry).where(AuditEntry.action == action)).one().details


def running(session: Session, acme: Tenant, web: WatchedBranch, schedule_id: str) -> str:
    """Have a window of a schedule open, and return its freeze."""
    now = factories.now()
    ends_at = now + timedelta(hours=1)
    freeze = factories.freeze(
        session, acme.organization, [web], source="schedule", schedule_id=schedule_id, ends_at=ends_at
    )
    schedule = session.get_one(Schedule, schedule_id)
    begun = {"begun_at": freeze.started_at, "freeze_id": freeze.id}
    factories.occurrence(session, schedule, starts_at=freeze.started_at, ends_at=ends_at, **begun)
    return freeze.id


CALLS: dict[str, tuple[str, str, Call]] = {
    "list_schedules": ("schedule:read", "viewer", lambda caller, _: caller.get("/v1/schedules")),
    "create_schedule": ("schedule:write", "member", lambda caller, _: caller.post("/v1/schedules", FIRST)),
    "get_schedule": ("schedule:read", "viewer", lambda caller, one: caller.get(f"/v1/schedules/{one}")),
    "update_schedule": (
        "schedule:write",
        "member",
        lambda caller, one: caller.patch(f"/v1/schedules/{one}", {"name": "Late"}),
    ),
    "delete_schedule": ("schedule:write", "member", lambda caller, one: caller.delete(f"/v1/schedules/{one}")),
    "skip_next_occurrence": (
        "schedule:write",
        "member",
        lambda caller, one: caller.post(f"/v1/schedules/{one}/skip-next"),
    ),
}
WRITES = [name for name, (scope, _, _) in CALLS.items() if scope == "schedule:write"]
OF_ONE = ["get_schedule", "update_schedule", "delete_schedule", "skip_next_occurrence"]


class TestEveryOperation:
    @pytest.mark.parametrize("operation", CALLS)
    def test_takes_its_scope_or_its_role(self, acme: Tenant, operation: str) -> None:
        scope, least_role, call = CALLS[operation]
        made = created(acme.key())["id"]
        writes = operation in WRITES
        takes_credentials(acme, lambda caller: call(caller, made), scope=scope, least_role=least_role, writes=writes)

    @pytest.mark.parametrize("operation", OF_ONE)
    def test_of_an_unknown_a_foreign_or_a_deleted_schedule_finds_none(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        foreign = factories.schedule(session, globex.organization)
        gone = factories.schedule(session, acme.organization, deleted_at=factories.now())
        for schedule_id in (UNKNOWN, foreign.id, gone.id, "nonsense", new_id("frz")):
            refusal(CALLS[operation][2](acme.key(), schedule_id), 404, "schedule_not_found")

    @pytest.mark.parametrize("operation", CALLS)
    def test_outlives_the_installation(self, acme: Tenant, session: Session, operation: str) -> None:
        made = created(acme.key())["id"]
        acme.installation.state = "removed"
        session.flush()
        assert CALLS[operation][2](acme.key(), made).status_code < 300 or operation == "create_schedule"


class TestCreateSchedule:
    def test_plans_its_windows_and_shows_the_next_one(self, acme: Tenant, session: Session) -> None:
        shown = created(acme.person("member"))
        assert set(shown) == FIELDS
        assert {name: shown[name] for name in FIRST} == FIRST
        assert (shown["source"], shown["enabled"], shown["exceptionsAllowed"], shown["allowOverlap"]) == (
            "manual",
            True,
            True,
            False,
        )
        assert shown["createdBy"]["type"] == "user"
        coming = shown["nextOccurrence"]
        assert (coming["startsAt"], coming["endsAt"], coming["state"]) == (
            starts(SOON, 22),
            starts(SOON + timedelta(days=1), 6),
            "planned",
        )
        assert (coming["late"], coming["missed"], coming["freezeId"], coming["skipReason"]) == (
            False,
            False,
            None,
            None,
        )
        assert session.scalar(select(func.count()).select_from(Occurrence)) in {88, 89}

    def test_answers_where_it_can_be_read(self, acme: Tenant) -> None:
        answer = acme.key().post("/v1/schedules", FIRST)
        assert acme.key().get(answer.headers["location"]).json() == answer.json()

    def test_without_a_zone_is_read_in_that_of_the_organisation(self, acme: Tenant, session: Session) -> None:
        acme.organization.settings = {"timezone": "Asia/Kolkata"}
        session.flush()
        zoneless = {name: value for name, value in FIRST.items() if name != "timezone"}
        shown = acme.key().post("/v1/schedules", zoneless).json()
        assert shown["timezone"] == "Asia/Kolkata"
        assert shown["nextOccurrence"]["startsAt"] == f"{SOON.isoformat()}T16:30:00Z"

    def test_trims_its_reason(self, acme: Tenant) -> None:
        assert created(acme.key(), reason=f"  {REASON} ")["reason"] == REASON

    def test_that_is_not_enabled_has_no_next_occurrence(self, acme: Tenant) -> None:
        assert created(acme.key(), enabled=False)["nextOccurrence"] is None

    def test_is_audited_with_what_it_says(self, acme: Tenant, session: Session) -> None:
        shown = created(acme.key())
        assert acme.audit() == ["schedule.created"]
        after = details(session, "schedule.created")["after"]
        assert {name: after[name] for name in FIRST} == {name: shown[name] for name in FIRST}

    def test_with_a_key_happens_once_and_is_told_again(self, acme: Tenant, session: Session) -> None:
        caller, keyed = acme.key(), {"headers": {"Idempotency-Key": "nights"}}
        first, again = (caller.post("/v1/schedules", FIRST, **keyed) for _ in range(2))
        assert (again.status_code, again.json()) == (201, first.json())
        assert again.headers["idempotency-replayed"] == "true"
        assert session.scalar(select(func.count()).select_from(Schedule)) == 1
        refusal(caller.post("/v1/schedules", {**FIRST, "name": "Days"}, **keyed), 409, "idempotency_key_reuse")

    def test_that_collides_is_refused_and_told_with_which(self, acme: Tenant, session: Session) -> None:
        other = created(acme.key(), name="Evenings", window={"startTime": "20:00", "endTime": "23:00"})
        error = refusal(acme.key().post("/v1/schedules", FIRST), 409, "schedule_overlap")
        [row] = error["details"]
        assert (row["path"], row["scheduleId"], row["scheduleName"]) == ("/window", other["id"], "Evenings")
        assert row["firstOverlapAt"] == starts(SOON, 22)
        assert session.scalar(select(func.count()).select_from(Schedule)) == 1
        assert created(acme.key(), allowOverlap=True)["allowOverlap"] is True

    def test_that_collides_while_it_is_not_enabled_is_made(self, acme: Tenant) -> None:
        created(acme.key())
        created(acme.key(), enabled=False)

    def test_of_two_at_once_that_collide_makes_one(self, acme: Tenant) -> None:
        key = acme.key()
        answers = at_once(*[lambda: key.post("/v1/schedules", FIRST)] * 4)
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]

    @pytest.mark.parametrize("scope", [EVERYTHING, {"type": "glob", "patterns": ["acme/*"]}])
    def test_that_reaches_nothing_is_refused(
        self, acme: Tenant, session: Session, web: WatchedBranch, scope: Any
    ) -> None:
        web.unwatched_at = factories.now()
        session.flush()
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, "scope": scope}), 422, "no_targets_in_scope")
        assert rows(error) == [("/scope", "no_targets_in_scope")]


FAULTS: list[tuple[str, Any, int, str, str]] = [
    ("name", None, 422, "validation_failed", "/name"),
    ("name", " ", 422, "validation_failed", "/name"),
    ("name", "x" * 101, 422, "validation_failed", "/name"),
    ("scope", {"type": "glob", "patterns": ["a b"]}, 422, "invalid_glob", "/scope/patterns/0"),
    ("scope", {"type": "repositories", "repositories": ["acme/no"]}, 422, "invalid_parameter", "/scope/repositories/0"),
    ("scope", {"type": "branch", "repository": "acme/web", "branch": "x"}, 422, "no_targets_in_scope", "/scope"),
    ("timezone", "Mars/Olympus", 422, "invalid_timezone", "/timezone"),
    ("timezone", "europe/london", 422, "invalid_timezone", "/timezone"),
    ("timezone", "../../etc/passwd", 422, "invalid_timezone", "/timezone"),
    ("timezone", "", 422, "invalid_timezone", "/timezone"),
    ("timezone", 7, 422, "invalid_timezone", "/timezone"),
    (
        "recurrence",
        {"frequency": "hourly", "startDate": "2026-11-06"},
        422,
        "invalid_recurrence",
        "/recurrence/frequency",
    ),
    ("recurrence", {"frequency": "daily"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "startDate": "2026-02-30"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "startDate": "20261106"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "startDate": "1999-12-31"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "until": "2001-01-01"}, 422, "invalid_recurrence", "/recurrence/until"),
    ("recurrence", {**DAILY, "interval": 0}, 422, "invalid_recurrence", "/recurrence/interval"),
    ("recurrence", {**DAILY, "byDay": ["-1FR"]}, 422, "invalid_recurrence", "/recurrence/byDay"),
    ("recurrence", {**DAILY, "byDay": ["FRI"]}, 422, "invalid_recurrence", "/recurrence/byDay/0"),
    ("recurrence", {**DAILY, "byMonth": [2], "byMonthDay": [30]}, 422, "invalid_recurrence", "/recurrence/byMonthDay"),
    ("recurrence", {**DAILY, "frequency": "dates"}, 422, "invalid_recurrence", "/recurrence/dates"),
    ("recurrence", {**DAILY, "frequency": "dates", "dates": ["x"]}, 422, "invalid_recurrence", "/recurrence/dates/0"),
    ("recurrence", {**DAILY, "byHour": [3]}, 422, "validation_failed", "/recurrence/byHour"),
    ("window", {"startTime": "12:00"}, 422, "invalid_recurrence", "/window/endTime"),
    ("window", {"startTime": "12:00", "endTime": "12:00"}, 422, "invalid_recurrence", "/window/endTime"),
    ("window", {"startTime": "12:00", "endTime": "11:59", "days": 0}, 422, "invalid_recurrence", "/window/endTime"),
    ("window", {"startTime": "24:00", "endTime": "12:00"}, 422, "invalid_recurrence", "/window/startTime"),
    ("window", {**NOON, "days": 367}, 422, "invalid_recurrence", "/window/days"),
    ("window", None, 422, "invalid_recurrence", "/window"),
    ("reason", "short", 422, "reason_required", "/reason"),
    ("reason", "        a        ", 422, "reason_required", "/reason"),
    ("reason", None, 422, "reason_required", "/reason"),
    ("enabled", "yes", 422, "validation_failed", "/enabled"),
    ("createdBy", {}, 422, "validation_failed", "/createdBy"),
    ("source", "import", 422, "validation_failed", "/source"),
]


class TestFaults:
    @pytest.mark.parametrize(("name", "value", "status", "code", "where"), FAULTS)
    def test_are_told_by_code_and_place(
        self, acme: Tenant, name: str, value: Any, status: int, code: str, where: str
    ) -> None:
        made = created(acme.key(), recurrence={**DAILY, "startDate": "2026-11-06"}, window=NOON)["id"]
        for error in (
            refusal(acme.key().post("/v1/schedules", {**FIRST, name: value}), status, code),
            refusal(acme.key().patch(f"/v1/schedules/{made}", {name: value}), status, code),
        ):
            assert rows(error) == [(where, code)]

    @pytest.mark.parametrize(
        ("name", "status", "code"),
        [
            ("name", 400, "missing_parameter"),
            ("scope", 400, "missing_parameter"),
            ("recurrence", 422, "invalid_recurrence"),
            ("window", 422, "invalid_recurrence"),
            ("reason", 422, "reason_required"),
        ],
    )
    def test_that_something_is_missing_is_told(self, acme: Tenant, name: str, status: int, code: str) -> None:
        body = {key: value for key, value in FIRST.items() if key != name}
        error = refusal(acme.key().post("/v1/schedules", body), status, code)
        assert rows(error) == [(f"/{name}", code)]

    def test_of_the_form_are_told_together_and_the_first_decides(self, acme: Tenant) -> None:
        wrong = {"scope": EVERYTHING, "timezone": "", "recurrence": {}, "window": {"startTime": 1}, "reason": "x"}
        error = refusal(acme.key().post("/v1/schedules", wrong), 400, "missing_parameter")
        assert rows(error) == [
            ("/name", "missing_parameter"),
            ("/timezone", "invalid_timezone"),
            ("/recurrence/frequency", "invalid_recurrence"),
            ("/recurrence/startDate", "invalid_recurrence"),
            ("/window/startTime", "invalid_recurrence"),
            ("/window/endTime", "invalid_recurrence"),
            ("/reason", "reason_required"),
        ]

    def test_of_the_meaning_are_told_together_and_the_first_decides(self, acme: Tenant) -> None:
        wrong = {
            "timezone": "Mars/Olympus",
            "recurrence": {**DAILY, "count": 3, "until": "2001-01-01"},
            "window": {"startTime": "12:00", "endTime": "12:00"},
        }
        expected = [
            ("/timezone", "invalid_timezone"),
            ("/recurrence/until", "invalid_recurrence"),
            ("/recurrence/count", "invalid_recurrence"),
            ("/window/endTime", "invalid_recurrence"),
        ]
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, **wrong}), 422, "invalid_timezone")
        assert rows(error) == expected
        nowhere = {"scope": {"type": "repositories", "repositories": ["acme/no"]}}
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, **wrong, **nowhere}), 422, "invalid_parameter")
        assert rows(error) == [("/scope/repositories/0", "invalid_parameter"), *expected]

    def test_a_rule_that_names_no_day_is_none(self, acme: Tenant) -> None:
        weekend = {"frequency": "weekly", "byDay": ["SA"], "startDate": "2026-11-02", "until": "2026-11-06"}
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, "recurrence": weekend}), 422, "invalid_recurrence")
        assert rows(error) == [("/recurrence", "invalid_recurrence")]


class TestQuota:
    def full(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("app"))
        for _ in range(3):
            factories.schedule(session, globex.organization)

    def test_names_the_limit_and_what_there_is(self, globex: Tenant, session: Session) -> None:
        self.full(globex, session)
        error = refusal(globex.key().post("/v1/schedules", FIRST), 403, "feature_not_available")
        assert "free plan includes 3 schedules; there are 3" in error["message"]
        assert session.scalar(select(func.count()).select_from(Schedule)) == 3

    def test_counts_disabled_schedules_and_not_deleted_ones(self, globex: Tenant, session: Session) -> None:
        self.full(globex, session)
        one, two, _ = session.scalars(select(Schedule))
        one.enabled = False
        session.flush()
        refusal(globex.key().post("/v1/schedules", FIRST), 403, "feature_not_available")
        two.deleted_at = factories.now()
        session.flush()
        assert globex.key().post("/v1/schedules", FIRST).status_code == 201

    def test_holds_for_several_at_once(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("app"))
        key, body = globex.key(), {**FIRST, "allowOverlap": True}
        answers = at_once(*[lambda: key.post("/v1/schedules", body)] * 5)
        assert sorted(answer.status_code for answer in answers) == [201, 201, 201, 403, 403]

    def test_lets_what_is_beyond_it_be_changed_and_deleted(self, globex: Tenant, session: Session) -> None:
        self.full(globex, session)
        one = factories.schedule(session, globex.organization)
        assert globex.key().patch(f"/v1/schedules/{one.id}", {"name": "More"}).status_code == 200
        assert globex.key().delete(f"/v1/schedules/{one.id}").status_code == 204


class TestListSchedules:
    def test_shows_the_one_that_begins_next_first_and_those_without_a_window_last(self, acme: Tenant) -> None:
        made = [
            created(acme.key(), name=name, allowOverlap=True, **changes)["id"]
            for name, changes in (
                ("off", {"enabled": False}),
                ("evening", {"window": {"startTime": "20:00", "endTime": "21:00"}}),
                ("noon", {"window": NOON}),
                ("over", {"recurrence": {"frequency": "once", "startDate": "2026-01-01"}}),
            )
        ]
        page = acme.key().get("/v1/schedules").json()
        assert [row["name"] for row in page["data"]] == ["noon", "evening", "off", "over"]
        assert page["nextCursor"] is None
        assert set(page["data"][0]) == FIELDS
        assert {row["id"] for row in page["data"]} == set(made)

    def test_pages_lead_through_all_of_them_once(self, acme: Tenant, session: Session) -> None:
        same = factories.now() + timedelta(days=1)
        made = [factories.schedule(session, acme.organization).id for _ in range(7)]
        for schedule_id in made[:5]:
            factories.occurrence(session, session.get_one(Schedule, schedule_id), starts_at=same)
        found: list[str] = []
        page: dict[str, Any] = {"nextCursor": ""}
        while page["nextCursor"] is not None:
            asked = {"cursor": page["nextCursor"]} if page["nextCursor"] else {}
            page = acme.key().get("/v1/schedules", limit=2, **asked).json()
            found += [row["id"] for row in page["data"]]
        assert found == sorted(made[:5]) + sorted(made[5:])

    def test_refuses_a_cursor_of_another_organisation(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        for _ in range(2):
            factories.schedule(session, globex.organization)
        cursor = globex.key().get("/v1/schedules", limit=1).json()["nextCursor"]
        refusal(acme.key().get("/v1/schedules", cursor=cursor), 400, "invalid_cursor")

    def test_leaves_out_deleted_and_foreign_ones(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        factories.schedule(session, globex.organization)
        factories.schedule(session, acme.organization, deleted_at=factories.now())
        assert acme.key().get("/v1/schedules").json() == {"data": [], "nextCursor": None}


class TestGetSchedule:
    def test_shows_the_next_planned_window_not_the_active_or_a_skipped_one(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        made = created(acme.key())
        running(session, acme, web, made["id"])
        assert acme.key().post(f"/v1/schedules/{made['id']}/skip-next").status_code == 200
        shown = acme.key("schedule:read").get(f"/v1/schedules/{made['id']}").json()
        assert shown["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=1), 22)

    def test_moves_on_with_the_clock(self, acme: Tenant, session: Session, later: Any) -> None:
        schedule = factories.schedule(session, acme.organization)
        first, second = (
            factories.occurrence(session, schedule, starts_at=factories.now() + timedelta(hours=hours))
            for hours in (1, 3)
        )
        path = f"/v1/schedules/{schedule.id}"
        assert acme.key().get(path).json()["nextOccurrence"]["id"] == first.id
        later(hours=2, seconds=1)
        assert acme.key().get(path).json()["nextOccurrence"]["id"] == second.id
        later(hours=3)
        assert acme.key().get(path).json()["nextOccurrence"] is None


class TestUpdateSchedule:
    def test_changes_what_is_named_and_plans_anew(self, acme: Tenant, session: Session) -> None:
        made = created(acme.key())
        shown = acme.key().patch(f"/v1/schedules/{made['id']}", {"name": "Noons", "window": NOON}).json()
        assert shown["nextOccurrence"]["startsAt"] == starts(SOON, 12)
        same = FIELDS - {"name", "window", "nextOccurrence", "updatedAt"}
        assert {name: shown[name] for name in same} == {name: made[name] for name in same}
        assert shown["updatedAt"] > made["updatedAt"]
        told = details(session, "schedule.updated")
        assert told["before"] == {"name": "Nights", "window": NIGHT}
        assert told["after"] == {"name": "Noons", "window": NOON}

    def test_that_names_nothing_changes_nothing(self, acme: Tenant) -> None:
        made = created(acme.key())
        assert acme.key().patch(f"/v1/schedules/{made['id']}", {}).json() == made

    def test_replaces_the_recurrence_as_a_whole(self, acme: Tenant) -> None:
        made = created(acme.key(), recurrence={**DAILY, "count": 3})
        shown = acme.key().patch(f"/v1/schedules/{made['id']}", {"recurrence": DAILY}).json()
        assert shown["recurrence"] == DAILY

    def test_takes_back_what_it_shows(self, acme: Tenant) -> None:
        made = created(acme.key(), recurrence={**DAILY, "byMonth": [1, 12], "interval": 2})
        shown = {name: made[name] for name in (*FIRST, "exceptionsAllowed", "enabled", "allowOverlap")}
        assert acme.key().patch(f"/v1/schedules/{made['id']}", shown).json() == made

    def test_disables_and_enables(self, acme: Tenant) -> None:
        made = created(acme.key())
        path = f"/v1/schedules/{made['id']}"
        assert acme.key().patch(path, {"enabled": False}).json()["nextOccurrence"] is None
        again = acme.key().patch(path, {"enabled": True}).json()
        assert again["nextOccurrence"]["startsAt"] == made["nextOccurrence"]["startsAt"]

    @pytest.mark.parametrize(
        ("made", "changes"),
        [
            ({"window": NOON}, {"window": NIGHT}),
            ({"recurrence": {"frequency": "once", "startDate": "2026-01-01"}}, {"recurrence": DAILY}),
            ({"timezone": "Asia/Tokyo"}, {"timezone": "UTC"}),
            ({"enabled": False}, {"enabled": True}),
            ({"scope": {"type": "repositories", "repositories": ["acme/api"]}}, {"scope": EVERYTHING}),
            ({"allowOverlap": True}, {"allowOverlap": False}),
        ],
        ids=lambda value: next(iter(value)),
    )
    def test_that_makes_it_collide_is_refused_unless_it_says_that_it_may(
        self, acme: Tenant, session: Session, made: dict[str, Any], changes: dict[str, Any]
    ) -> None:
        factories.branch(session, acme.repository("api"))
        created(acme.key(), scope={"type": "repositories", "repositories": ["acme/web"]})
        path = f"/v1/schedules/{created(acme.key(), **made)['id']}"
        before = acme.key().get(path).json()
        refusal(acme.key().patch(path, changes), 409, "schedule_overlap")
        assert acme.key().get(path).json() == before
        assert acme.key().patch(path, {"allowOverlap": True, **changes}).status_code == (
            409 if "allowOverlap" in changes else 200
        )

    def test_of_its_words_is_not_refused_for_an_overlap_that_has_arisen(self, acme: Tenant) -> None:
        made = created(acme.key())
        created(acme.key(), allowOverlap=True)
        answer = acme.key().patch(f"/v1/schedules/{made['id']}", {"name": "Late", "reason": "It is late at night"})
        assert answer.status_code == 200

    def test_of_several_at_once_all_count(self, acme: Tenant, session: Session) -> None:
        made = created(acme.key())
        key, path = acme.key(), f"/v1/schedules/{made['id']}"
        ends = [{"window": {**NIGHT, "endTime": f"0{hour}:00"}} for hour in range(1, 6)]
        answers = at_once(*[lambda change=change: key.patch(path, change) for change in ends])
        assert {answer.status_code for answer in answers} == {200}
        [ends_at] = {row.ends_at.time() for row in session.scalars(select(Occurrence))}
        assert ends_at.isoformat("minutes") == acme.key().get(path).json()["window"]["endTime"]


class TestDeleteSchedule:
    def test_takes_what_is_planned_and_leaves_its_freezes(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        made = created(acme.key())["id"]
        freeze = running(session, acme, web, made)
        answer = acme.key().delete(f"/v1/schedules/{made}")
        assert (answer.status_code, answer.content) == (204, b"")
        refusal(acme.key().get(f"/v1/schedules/{made}"), 404, "schedule_not_found")
        [found] = acme.key().get("/v1/freezes", scheduleId=made).json()["data"]
        assert (found["id"], found["state"]) == (freeze, "in_force")
        assert session.scalar(select(func.count()).select_from(Occurrence)) == 1
        assert acme.audit() == ["schedule.created", "schedule.deleted"]

    def test_ends_what_is_in_force_when_asked(self, acme: Tenant, session: Session, web: WatchedBranch) -> None:
        made = created(acme.key())["id"]
        freeze = running(session, acme, web, made)
        assert acme.key().delete(f"/v1/schedules/{made}?endActive=true").status_code == 204
        shown = acme.key().get(f"/v1/freezes/{freeze}").json()
        assert (shown["state"], shown["endReason"]) == ("ended", "lifted")
        assert details(session, "schedule.deleted")["endedFreezes"] == [freeze]

    def test_makes_room_for_a_like_one(self, acme: Tenant) -> None:
        made = created(acme.key())["id"]
        assert acme.key().delete(f"/v1/schedules/{made}").status_code == 204
        created(acme.key())

    def test_twice_finds_none_the_second_time(self, acme: Tenant) -> None:
        made = created(acme.key())["id"]
        assert acme.key().delete(f"/v1/schedules/{made}").status_code == 204
        refusal(acme.key().delete(f"/v1/schedules/{made}"), 404, "schedule_not_found")


class TestSkipNextOccurrence:
    def test_leaves_out_one_window_after_the_other(self, acme: Tenant, session: Session) -> None:
        made = created(acme.key())
        path = f"/v1/schedules/{made['id']}"
        first = acme.key().post(f"{path}/skip-next").json()
        assert first == {**made["nextOccurrence"], "state": "skipped", "skipReason": "asked"}
        second = acme.key().post(f"{path}/skip-next").json()
        assert second["startsAt"] == starts(SOON + timedelta(days=1), 22)
        assert acme.key().get(path).json()["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=2), 22)
        assert acme.audit() == ["schedule.created", "occurrence.skipped", "occurrence.skipped"]

    def test_at_once_skips_one_each(self, acme: Tenant) -> None:
        key, made = acme.key(), created(acme.key())["id"]
        answers = at_once(*[lambda: key.post(f"/v1/schedules/{made}/skip-next")] * 4)
        assert len({datetime.fromisoformat(answer.json()["startsAt"]) for answer in answers}) == 4

    def test_again_with_its_key_skips_no_second_one(self, acme: Tenant, session: Session) -> None:
        made = created(acme.key())["id"]
        keyed = {"headers": {"Idempotency-Key": "skip"}}
        caller = acme.key()
        first, again = (caller.post(f"/v1/schedules/{made}/skip-next", **keyed) for _ in range(2))
        assert first.json() == again.json()
        skipped = select(func.count()).select_from(Occurrence).where(Occurrence.skip_reason.is_not(None))
        assert session.scalar(skipped) == 1

    def test_where_none_is_planned_finds_none(self, acme: Tenant) -> None:
        for changes in ({"enabled": False}, {"recurrence": {"frequency": "once", "startDate": "2026-01-01"}}):
            made = created(acme.key(), **changes)["id"]
            refusal(acme.key().post(f"/v1/schedules/{made}/skip-next"), 404, "occurrence_not_found")
