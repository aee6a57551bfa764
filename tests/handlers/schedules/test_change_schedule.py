"""Changing and deleting a schedule, and skipping its next window."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from models.repositories import WatchedBranch
from models.schedules import Occurrence
from rules.time.instants import format_instant
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import (
    DAILY,
    EVERYTHING,
    FIELDS,
    FIRST,
    NIGHT,
    NOON,
    SOON,
    created,
    details,
    running,
    starts,
)
from tests.harness.concurrency import at_once


class TestUpdateSchedule:
    def test_update_schedule_changes_the_given_fields_and_replans(self, acme: Tenant) -> None:
        made = created(acme.key())
        shown = acme.key().patch(f"/v1/schedules/{made['id']}", {"name": "Noons", "window": NOON}).json()
        assert shown["nextOccurrence"]["startsAt"] == starts(SOON, 12)
        same = FIELDS - {"name", "window", "nextOccurrence", "updatedAt"}
        assert {name: shown[name] for name in same} == {name: made[name] for name in same}
        assert shown["updatedAt"] > made["updatedAt"]
        reported = details(acme.session, "schedule.updated")
        assert reported["before"] == {"name": "Nights", "window": NIGHT}
        assert reported["after"] == {"name": "Noons", "window": NOON}

    def test_update_schedule_replaces_the_recurrence_as_a_whole(self, acme: Tenant) -> None:
        made = created(acme.key(), recurrence={**DAILY, "count": 3})
        shown = acme.key().patch(f"/v1/schedules/{made['id']}", {"recurrence": DAILY}).json()
        assert shown["recurrence"] == DAILY

    def test_update_schedule_accepts_its_own_representation(self, acme: Tenant) -> None:
        recurrence = {"frequency": "weekly", "byDay": ["FR"], "weekStart": "SU", "interval": 2}
        excepted = (SOON + timedelta(days=7)).isoformat()
        made = created(acme.key(), recurrence={**DAILY, **recurrence, "exceptDates": [excepted]})
        shown = {name: made[name] for name in (*FIRST, "exceptionsAllowed", "enabled", "allowOverlap")}
        assert acme.key().patch(f"/v1/schedules/{made['id']}", shown).json() == made

    def test_excepted_day_has_no_window_and_no_overlap(self, acme: Tenant) -> None:
        made = created(acme.key(), recurrence={**DAILY, "count": 3}, window=NOON)
        overlapping = {**FIRST, "recurrence": {"frequency": "once", "startDate": SOON.isoformat()}, "window": NOON}
        refusal(acme.key().post("/v1/schedules", overlapping), 409, "schedule_overlap")
        excepted = {**DAILY, "count": 3, "exceptDates": [SOON.isoformat()]}
        shown = acme.key().patch(f"/v1/schedules/{made['id']}", {"recurrence": excepted}).json()
        assert shown["recurrence"] == excepted
        assert shown["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=1), 12)
        assert acme.session.query(Occurrence).filter_by(schedule_id=made["id"]).count() == 2
        created(acme.key(), **overlapping)

    def test_update_schedule_disables_and_enables(self, acme: Tenant) -> None:
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
    def test_update_schedule_is_refused_on_overlap_unless_allowed(
        self, acme: Tenant, made: dict[str, Any], changes: dict[str, Any]
    ) -> None:
        factories.branch(acme.session, acme.repository("api"))
        created(acme.key(), scope={"type": "repositories", "repositories": ["acme/web"]})
        path = f"/v1/schedules/{created(acme.key(), **made)['id']}"
        before = acme.key().get(path).json()
        refusal(acme.key().patch(path, changes), 409, "schedule_overlap")
        assert acme.key().get(path).json() == before
        assert acme.key().patch(path, {"allowOverlap": True, **changes}).status_code == (
            409 if "allowOverlap" in changes else 200
        )

    @pytest.mark.parametrize("consenting", [0, 1])
    def test_schedule_is_not_refused_beside_one_where_either_allows_it(self, acme: Tenant, consenting: int) -> None:
        key = acme.key()
        path, beside = (f"/v1/schedules/{created(key, allowOverlap=number == consenting)['id']}" for number in range(2))
        for one in (path, beside):
            for changes in ({"enabled": False}, {"enabled": True}, {"window": NOON}, {"window": NIGHT}):
                assert key.patch(one, changes).status_code == 200

    def test_schedules_that_share_a_branch_since_they_were_saved_are_not_refused(self, acme: Tenant) -> None:
        key, api, both = acme.key(), acme.repository("api"), ["acme/web", "acme/api"]
        factories.branch(acme.session, api, name="other")
        main = {"type": "repositories", "repositories": both, "branches": ["main"]}
        path = f"/v1/schedules/{created(key, scope=main)['id']}"
        created(key, scope={**main, "repositories": ["acme/api"], "branches": ["main", "other"]}, name="Beside")
        factories.branch(acme.session, api)
        for changes in ({"enabled": False}, {"enabled": True}, {"window": {**NIGHT, "endTime": "07:00"}}):
            assert key.patch(path, changes).status_code == 200
        created(key, window=NOON, name="Noon")
        error = refusal(key.patch(path, {"window": {**NIGHT, "startTime": "11:00"}}), 409, "schedule_overlap")
        assert [row["scheduleName"] for row in error["details"]] == ["Noon"]

    def test_schedule_is_refused_beside_what_was_planned_while_it_was_disabled(self, acme: Tenant) -> None:
        key = acme.key()
        path = f"/v1/schedules/{created(key)['id']}"
        key.patch(path, {"enabled": False})
        created(key, name="Instead")
        error = refusal(key.patch(path, {"enabled": True}), 409, "schedule_overlap")
        assert [row["scheduleName"] for row in error["details"]] == ["Instead"]
        assert key.patch(path, {"enabled": True, "allowOverlap": True}).status_code == 200

    def test_update_of_name_and_reason_ignores_existing_overlaps(self, acme: Tenant) -> None:
        made = created(acme.key())
        created(acme.key(), allowOverlap=True)
        answer = acme.key().patch(f"/v1/schedules/{made['id']}", {"name": "Late", "reason": "It is late at night"})
        assert answer.status_code == 200

    def test_equivalent_update_of_a_schedule_changes_nothing(self, acme: Tenant) -> None:
        made = created(acme.key(), window=NOON)
        created(acme.key(), window=NOON, allowOverlap=True)
        same = {"window": {**NOON, "days": 0}, "recurrence": {**DAILY, "interval": 1}}
        assert acme.key().patch(f"/v1/schedules/{made['id']}", same).json() == made

    def test_concurrent_updates_of_a_schedule_are_serialized(self, acme: Tenant) -> None:
        made = created(acme.key())
        key, path = acme.key(), f"/v1/schedules/{made['id']}"
        ends = [{"window": {**NIGHT, "endTime": f"0{hour}:00"}} for hour in range(1, 6)]
        answers = at_once(*[lambda change=change: key.patch(path, change) for change in ends])
        assert {answer.status_code for answer in answers} == {200}
        [ends_at] = {row.ends_at.time() for row in acme.session.scalars(select(Occurrence))}
        assert ends_at.isoformat("minutes") == acme.key().get(path).json()["window"]["endTime"]


class TestActiveFreeze:
    """Of a schedule whose window is in force while it is changed."""

    @pytest.fixture
    def active(self, acme: Tenant, web: WatchedBranch) -> tuple[str, str]:
        """Return the address of the schedule, and the id of its freeze."""
        made = created(acme.key(), recurrence=DAILY, window={"startTime": "00:00", "endTime": "23:59"})
        return f"/v1/schedules/{made['id']}", running(acme.session, acme, web, made["id"])

    def frozen(self, acme: Tenant) -> list[str]:
        found = acme.key().get("/v1/freezes", state="in_force").json()["data"]
        return [freeze["id"] for freeze in found]

    def test_change_answers_with_the_freeze_that_goes_on(self, acme: Tenant, active: tuple[str, str]) -> None:
        path, freeze = active
        for changes in ({"window": NOON}, {"reason": "Another reason"}, {"enabled": False}):
            assert acme.key().patch(path, changes).json()["activeFreeze"]["id"] == freeze
        assert self.frozen(acme) == [freeze]

    def test_freeze_follows_only_on_request(self, acme: Tenant, active: tuple[str, str]) -> None:
        path, freeze = active
        today = factories.now().date().isoformat()
        longer = {
            "recurrence": {**DAILY, "startDate": today},
            "window": {"startTime": "00:00", "endTime": "12:00", "days": 1},
        }
        shown = acme.key().patch(path, {**longer, "applyToActive": True}).json()["activeFreeze"]
        assert self.frozen(acme) == [shown["id"]] != [freeze]
        assert shown["endsAt"] == starts(factories.now().date() + timedelta(days=1), 12)
        assert acme.key().get(f"/v1/freezes/{freeze}").json()["endReason"] == "lifted"
        assert acme.key().patch(path, {"name": "Other", "applyToActive": True}).json()["activeFreeze"] == shown
        scope = {"type": "branch", "repository": "acme/web", "branch": "main"}
        moved = acme.key().patch(path, {"scope": scope, "applyToActive": True}).json()["activeFreeze"]
        assert self.frozen(acme) == [moved["id"]] != [shown["id"]]
        assert acme.key().get(f"/v1/freezes/{moved['id']}").json()["scope"]["branch"] == "main"

    @pytest.mark.parametrize("changes", [{"enabled": False}, {"window": NOON}])
    def test_freeze_ends_where_no_window_is_open_any_more(
        self, acme: Tenant, active: tuple[str, str], changes: dict[str, Any]
    ) -> None:
        path, _freeze = active
        assert acme.key().patch(path, {**changes, "applyToActive": True}).json()["activeFreeze"] is None
        assert self.frozen(acme) == []

    @pytest.mark.parametrize("hours", [None, 30])
    def test_freeze_keeps_its_extension_after_a_change_of_terms(
        self, acme: Tenant, active: tuple[str, str], hours: int | None
    ) -> None:
        path, freeze = active
        end = None if hours is None else format_instant(factories.now() + timedelta(hours=hours))
        assert acme.key().post(f"/v1/freezes/{freeze}/extend", {"endsAt": end}).status_code == 200
        changes = {"reason": "Another reason", "exceptionsAllowed": False, "applyToActive": True}
        shown = acme.key().patch(path, changes).json()["activeFreeze"]
        assert shown["endsAt"] == end
        assert self.frozen(acme) == [shown["id"]] != [freeze]
        followed = acme.key().get(f"/v1/freezes/{shown['id']}").json()
        assert (followed["reason"], followed["exceptionsAllowed"]) == ("Another reason", False)

    def test_freeze_begun_by_hand_keeps_its_end_after_a_change_of_terms(self, acme: Tenant) -> None:
        member, path = acme.person("member"), f"/v1/schedules/{created(acme.key())['id']}"
        end = format_instant(factories.now() + timedelta(hours=3))
        member.post(f"{path}/run-now", {"action": "apply", "endsAt": end})
        shown = acme.key().patch(path, {"reason": "Another reason", "applyToActive": True}).json()["activeFreeze"]
        assert shown["endsAt"] == end
        assert acme.key().get(f"/v1/freezes/{shown['id']}").json()["reason"] == "Another reason"


class TestDeleteSchedule:
    def test_delete_schedule_removes_its_plan_and_keeps_its_freezes(self, acme: Tenant, web: WatchedBranch) -> None:
        made = created(acme.key())["id"]
        freeze = running(acme.session, acme, web, made)
        answer = acme.key().delete(f"/v1/schedules/{made}")
        assert (answer.status_code, answer.content) == (204, b"")
        refusal(acme.key().get(f"/v1/schedules/{made}"), 404, "schedule_not_found")
        [found] = acme.key().get("/v1/freezes", scheduleId=made).json()["data"]
        assert (found["id"], found["state"]) == (freeze, "in_force")
        assert acme.session.scalar(select(func.count()).select_from(Occurrence)) == 1
        assert acme.audit() == ["schedule.created", "schedule.deleted"]

    def test_delete_schedule_ends_active_freezes_on_request(self, acme: Tenant, web: WatchedBranch) -> None:
        made = created(acme.key())["id"]
        freeze = running(acme.session, acme, web, made)
        assert acme.key().delete(f"/v1/schedules/{made}?endActive=true").status_code == 204
        shown = acme.key().get(f"/v1/freezes/{freeze}").json()
        assert (shown["state"], shown["endReason"]) == ("ended", "lifted")
        assert details(acme.session, "schedule.deleted")["endedFreezes"] == [freeze]

    def test_deleted_schedule_does_not_overlap_a_new_schedule(self, acme: Tenant) -> None:
        made = created(acme.key())["id"]
        assert acme.key().delete(f"/v1/schedules/{made}").status_code == 204
        created(acme.key())


class TestSkipNextOccurrence:
    def test_repeated_skip_next_skips_consecutive_windows(self, acme: Tenant) -> None:
        made = created(acme.key())
        path = f"/v1/schedules/{made['id']}"
        first = acme.key().post(f"{path}/skip-next").json()
        assert first == {**made["nextOccurrence"], "state": "skipped", "skipReason": "asked", "skippedBefore": 0}
        second = acme.key().post(f"{path}/skip-next").json()
        assert second["skippedBefore"] == 1
        assert second["startsAt"] == starts(SOON + timedelta(days=1), 22)
        assert acme.key().get(path).json()["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=2), 22)
        assert acme.audit() == ["schedule.created", "occurrence.skipped", "occurrence.skipped"]

    def test_concurrent_skips_skip_different_windows(self, acme: Tenant) -> None:
        key, made = acme.key(), created(acme.key())["id"]
        answers = at_once(*[lambda: key.post(f"/v1/schedules/{made}/skip-next")] * 4)
        assert len({datetime.fromisoformat(answer.json()["startsAt"]) for answer in answers}) == 4

    def test_named_window_is_skipped_once_by_concurrent_requests(self, acme: Tenant) -> None:
        key, made = acme.key(), created(acme.key())
        path, named = f"/v1/schedules/{made['id']}", {"occurrenceId": made["nextOccurrence"]["id"]}
        answers = at_once(*[lambda: key.post(f"{path}/skip-next", named)] * 4)
        assert [answer.status_code for answer in answers] == [200] * 4
        assert {answer.json()["id"] for answer in answers} == {named["occurrenceId"]}
        assert key.get(path).json()["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=1), 22)
        assert acme.audit() == ["schedule.created", "occurrence.skipped"]

    def test_skip_next_rejects_a_window_that_is_not_the_next(self, acme: Tenant) -> None:
        key, made = acme.key(), created(acme.key())
        path = f"/v1/schedules/{made['id']}/skip-next"
        planned = key.get("/v1/schedules/occurrences", scheduleId=made["id"]).json()["data"]
        refusal(key.post(path, {"occurrenceId": planned[1]["id"]}), 409, "invalid_state")
        refusal(key.post(path, {"occurrenceId": "occ_" + "0" * 26}), 404, "occurrence_not_found")
        other = created(key, allowOverlap=True)["id"]
        foreign = {"occurrenceId": planned[0]["id"]}
        refusal(key.post(f"/v1/schedules/{other}/skip-next", foreign), 404, "occurrence_not_found")
        assert acme.audit() == ["schedule.created", "schedule.created"]

    def test_skipped_window_does_not_overlap_another_schedule(self, acme: Tenant) -> None:
        key, made = acme.key(), created(acme.key())["id"]
        on_that_day = {"frequency": "once", "startDate": SOON.isoformat()}
        once = {**FIRST, "recurrence": on_that_day}
        refusal(key.post("/v1/schedules", once), 409, "schedule_overlap")
        key.post(f"/v1/schedules/{made}/skip-next")
        other = created(key, **once)["id"]
        draft = {"scheduleId": made, **FIRST}
        shown = [
            *(key.get(f"/v1/schedules/{schedule}/preview").json() for schedule in (made, other)),
            key.post("/v1/schedules/preview", draft).json(),
        ]
        assert [preview["overlapCount"] for preview in shown] == [0, 0, 0]
        for enabled in (False, True):
            assert key.patch(f"/v1/schedules/{made}", {"enabled": enabled}).status_code == 200
        tomorrow = {**on_that_day, "startDate": (SOON + timedelta(days=1)).isoformat()}
        refusal(key.post("/v1/schedules", {**once, "recurrence": tomorrow}), 409, "schedule_overlap")

    def test_skip_next_is_not_found_without_a_planned_window(self, acme: Tenant) -> None:
        for changes in ({"enabled": False}, {"recurrence": {"frequency": "once", "startDate": "2026-01-01"}}):
            made = created(acme.key(), **changes)["id"]
            refusal(acme.key().post(f"/v1/schedules/{made}/skip-next"), 404, "occurrence_not_found")
