"""What programs that subscribe to a calendar feed read at its address."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import icalendar
import pytest
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from app.edge.rate_limits import RateLimits
from app.edge.request_context import Budget
from models.audit import AuditEntry, AuditRemoval
from models.freezes import Freeze
from models.repositories import WatchedBranch
from models.schedules import CancelledWindow, Occurrence
from rules.ids import new_id
from rules.time.calendar_events import MAX_EVENTS
from services.schedules import calendar_feed
from tests import factories
from tests.handlers.calendar_feeds.requests import events, new_feed, only, read
from tests.handlers.callers import EVERYTHING, Tenant, refusal
from tests.handlers.schedules.requests import created
from tests.harness.clock import MovableClock

HOSTILE = 'Büro;geschlossen, "heute"\\nEND:VEVENT\r\nBEGIN:VEVENT\x0b <a href="https://evil.example">go</a> ' + "ß" * 90


def windows(session: Session) -> list[Occurrence]:
    session.expire_all()
    return list(session.scalars(select(Occurrence).order_by(Occurrence.starts_at)))


class TestGetCalendar:
    @pytest.mark.parametrize("file", ["svc_feed_Example0Example0Exampl.ics", "x.ics", ".ics", "calendar"])
    def test_unknown_address_is_not_found(self, acme: Tenant, file: str) -> None:
        refusal(acme.http.get(f"/calendars/{file}"), 404, "calendar_feed_not_found")

    def test_address_without_its_suffix_is_not_found(self, acme: Tenant) -> None:
        path = new_feed(acme.person("member"))["path"]
        refusal(acme.http.get(path.removesuffix(".ics")), 404, "calendar_feed_not_found")

    def test_calendar_without_events_is_valid_and_kept_from_referrers(self, acme: Tenant) -> None:
        answer = read(acme, new_feed(acme.person("member")))
        assert events(answer) == {}
        assert answer.headers["Content-Type"] == "text/calendar; charset=utf-8"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "private, no-cache"
        calendar = icalendar.Calendar.from_ical(answer.content)
        assert calendar["X-WR-CALNAME"] == "Freezes of Acme"
        assert "REFRESH-INTERVAL;VALUE=DURATION:PT1H\r\n" in answer.text
        assert "X-PUBLISHED-TTL:PT1H\r\n" in answer.text

    def test_unchanged_calendar_is_not_sent_again(self, acme: Tenant, web: WatchedBranch, clock: MovableClock) -> None:
        clock.at = factories.now()
        created(acme.person("member"))
        feed = new_feed(acme.person("member"))
        first = read(acme, feed)
        clock.at += timedelta(minutes=5)
        same = read(acme, feed, **{"If-None-Match": first.headers["ETag"]})
        assert (same.status_code, same.content) == (304, b"")
        acme.key().post("/v1/freezes", EVERYTHING)
        changed = read(acme, feed, **{"If-None-Match": first.headers["ETag"]})
        assert len(events(changed)) == len(events(first)) + 1

    def test_reads_of_one_address_are_limited(self, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
        feed, counted = new_feed(acme.person("member")), []

        async def count(_: RateLimits, *given: Any) -> Budget:
            counted.append(given)
            return Budget(-1, 17)

        monkeypatch.setattr(RateLimits, "count_value", count)
        answer = read(acme, feed)
        refusal(answer, 429, "rate_limited")
        assert answer.headers["Retry-After"] == "17"
        assert counted == [("get_calendar", feed["path"].removeprefix("/calendars/"), 30)]

    def test_each_address_has_a_limit_of_its_own(self) -> None:
        limits = RateLimits(None, organization=1, writes=1)

        async def remaining(*values: str) -> list[int]:
            return [(await limits.count_value("get_calendar", value, 2)).remaining for value in values]

        assert asyncio.run(remaining("a", "a", "b", "a")) == [1, 0, 1, -1]

    def test_planned_windows_are_shown_for_the_next_90_days(
        self, acme: Tenant, web: WatchedBranch, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        created(acme.person("member"))
        shown = events(read(acme, new_feed(acme.person("member"))))
        rows = windows(acme.session)
        assert list(shown) == [row.id for row in rows if row.starts_at < clock.at + timedelta(days=90)]
        event = shown[rows[0].id]
        assert (event.start, event.end) == (rows[0].starts_at, rows[0].ends_at)
        assert event["SUMMARY"] == "Frozen: Nights"
        assert str(event["DESCRIPTION"]).split("\n") == [
            "No release team at night",
            "Covers: The whole organisation",
            "Planned by Member",
            str(event["URL"]),
        ]
        assert (event["STATUS"], event["TRANSP"]) == ("CONFIRMED", "TRANSPARENT")
        assert event["UID"] == rows[0].id

    def test_freeze_names_the_schedule_that_started_it(self, acme: Tenant) -> None:
        by = {"type": "user", "id": "usr_ada", "name": "Ada"}
        schedule = factories.schedule(acme.session, acme.organization, name="Nights", created_by=by)
        window = factories.occurrence(acme.session, schedule)
        actor = {"type": "schedule", "id": schedule.id, "name": schedule.name}
        of: dict[str, Any] = {
            "schedule_id": schedule.id,
            "created_by": actor,
            "source": "schedule",
            "reason": "No release team",
        }
        freeze = factories.freeze(acme.session, acme.organization, occurrence_id=window.id, **of)
        window.freeze_id = freeze.id
        alone = factories.freeze(acme.session, acme.organization, **of)
        acme.session.flush()
        shown = events(read(acme, new_feed(acme.person("member"))))
        lines = {event_id: str(event["DESCRIPTION"]).split("\n") for event_id, event in shown.items()}
        assert lines[window.id][1:3] == [
            "Covers: The whole organisation", "Started by Nights (schedule), planned by Ada"
        ]  # fmt: skip
        assert lines[alone.id][2] == "Started by Nights (schedule)"
        assert [lines[each][-1] for each in (window.id, alone.id)] == [
            str(shown[window.id]["URL"]), str(shown[alone.id]["URL"])
        ]  # fmt: skip

    def test_key_does_not_pass_for_the_member_it_is_named_like(self, acme: Tenant) -> None:
        names = {"user": "Ada", "api_key": "A" * 200}
        for kind, name in names.items():
            factories.freeze(
                acme.session, acme.organization, created_by={"type": kind, "id": f"{kind}_1", "name": name}
            )
        shown = events(read(acme, new_feed(acme.person("member")))).values()
        by = sorted(str(event["DESCRIPTION"]).split("\n")[2] for event in shown)
        assert by[1] == "Started by Ada"
        assert re.fullmatch(r"Started by A{100,}… \(API key\)", by[0])

    def test_replanned_windows_keep_their_events_and_raise_the_sequence(self, acme: Tenant, web: WatchedBranch) -> None:
        schedule, feed = created(acme.person("member")), new_feed(acme.person("member"))
        before = events(read(acme, feed))
        later = {"window": {"startTime": "22:00", "endTime": "07:00", "days": 1}, "name": "Longer nights"}
        assert acme.person("member").patch(f"/v1/schedules/{schedule['id']}", later).status_code == 200
        after = events(read(acme, feed))
        assert after.keys() == before.keys()
        for event_id, event in after.items():
            assert event["SUMMARY"] == "Frozen: Longer nights"
            assert event.end == before[event_id].end + timedelta(hours=1)
            assert event["SEQUENCE"] == before[event_id]["SEQUENCE"] + 1
            assert event["LAST-MODIFIED"].dt >= before[event_id]["LAST-MODIFIED"].dt

    def test_windows_planned_again_after_a_pause_keep_rising_sequences(self, acme: Tenant, web: WatchedBranch) -> None:
        schedule, feed = created(acme.person("member")), new_feed(acme.person("member"))
        before, path = events(read(acme, feed)), f"/v1/schedules/{schedule['id']}"
        acme.person("member").patch(path, {"enabled": False})
        paused = events(read(acme, feed))
        acme.person("member").patch(path, {"enabled": True})
        after = events(read(acme, feed))
        assert before.keys() == paused.keys() == after.keys()
        for event_id, event in after.items():
            assert (paused[event_id]["STATUS"], event["STATUS"]) == ("CANCELLED", "CONFIRMED")
            assert before[event_id]["SEQUENCE"] < paused[event_id]["SEQUENCE"] < event["SEQUENCE"]

    @pytest.mark.parametrize("of", ["schedule", "repository"])
    def test_moved_windows_are_cancelled_where_they_were(self, acme: Tenant, web: WatchedBranch, of: str) -> None:
        schedule = created(acme.person("member"))
        narrowed = {"schedule": {"scheduleId": schedule["id"]}, "repository": {"repo": web.repository_id}}
        feed = new_feed(acme.person("member"), **narrowed[of])
        before, path = events(read(acme, feed)), f"/v1/schedules/{schedule['id']}"
        window = {"startTime": "21:30", "endTime": "06:00", "days": 1}
        assert acme.person("member").patch(path, {"window": window}).status_code == 200
        after = events(read(acme, feed))
        for event_id, event in before.items():
            assert (after[event_id]["STATUS"], after[event_id].start) == ("CANCELLED", event.start)
            assert after[event_id]["SEQUENCE"] > event["SEQUENCE"]
        new = [event for event_id, event in after.items() if event_id not in before]
        assert {event["STATUS"] for event in new} == {"CONFIRMED"}
        assert abs(len(new) - len(before)) <= 1
        assert acme.person("member").delete(path).status_code == 204
        deleted = events(read(acme, feed))
        assert deleted.keys() == after.keys()
        assert {event["STATUS"] for event in deleted.values()} == {"CANCELLED"}
        assert {urlsplit(event["URL"]).path for event in deleted.values()} == {"/calendar"}
        assert all(deleted[event_id]["SEQUENCE"] > event["SEQUENCE"] for event_id, event in after.items())

    def test_calendar_has_the_nearest_events_and_no_cancelled_one_instead(
        self, acme: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert MAX_EVENTS == 1000
        monkeypatch.setattr(calendar_feed, "MAX_EVENTS", 5)
        schedule, now = factories.schedule(acme.session, acme.organization), factories.now()
        of = {"organization_id": acme.id, "schedule_id": schedule.id}
        hour = timedelta(hours=1)
        starts = {new_id("occ"): now + hour * number for number in range(1, 8)}
        rows = [{**of, "id": one, "starts_at": at, "ends_at": at + hour} for one, at in starts.items()]
        acme.session.execute(insert(CancelledWindow), [{**rows[0], "cancelled_at": now + hour}])
        acme.session.execute(insert(Occurrence), rows[1:])

        def shown() -> list[str]:
            content = read(acme, new_feed(acme.person("member"))).content
            return [found.decode() for found in re.findall(rb"UID:(occ_\w+)", content)]

        cancelled, *planned = starts
        assert shown() == planned[:5]
        acme.session.execute(delete(Occurrence).where(Occurrence.id.in_(planned[:2])))
        assert shown() == [*planned[2:], cancelled]

    def test_skipped_window_is_cancelled_until_it_is_planned_again(self, acme: Tenant, web: WatchedBranch) -> None:
        schedule, feed = created(acme.person("member")), new_feed(acme.person("member"))
        first, second = windows(acme.session)[:2]
        window = f"/v1/schedules/{schedule['id']}/occurrences/{first.id}"
        planned = events(read(acme, feed))
        assert acme.person("member").post(f"{window}/skip").status_code == 200
        skipped = events(read(acme, feed))
        assert (skipped[first.id]["STATUS"], skipped[first.id]["SUMMARY"]) == ("CANCELLED", "Skipped: Nights")
        assert skipped[first.id]["SEQUENCE"] == planned[first.id]["SEQUENCE"] + 1
        assert skipped[second.id] == planned[second.id]
        assert acme.person("member").post(f"{window}/unskip").status_code == 200
        again = events(read(acme, feed))
        assert again[first.id]["STATUS"] == "CONFIRMED"
        assert again[first.id]["SEQUENCE"] == planned[first.id]["SEQUENCE"] + 2

    def test_window_keeps_its_event_while_it_freezes_and_after(
        self, acme: Tenant, web: WatchedBranch, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        schedule, feed = created(acme.person("member")), new_feed(acme.person("member"))
        first = windows(acme.session)[0].id
        planned = events(read(acme, feed))
        run_now = f"/v1/schedules/{schedule['id']}/run-now"
        body = {"action": "apply", "endsAt": (clock.at + timedelta(days=3)).isoformat()}
        applied = acme.person("member").post(run_now, body)
        assert applied.json()["id"] == first
        active = events(read(acme, feed))
        assert active.keys() == planned.keys()
        assert abs(active[first].start - clock.at) < timedelta(seconds=2)
        clock.at += timedelta(minutes=5)
        assert acme.person("member").post(run_now, {"action": "lift"}).status_code == 200
        ended = events(read(acme, feed))
        assert ended.keys() == planned.keys()
        assert abs(ended[first].end - clock.at) < timedelta(seconds=2)
        assert planned[first]["SEQUENCE"] < active[first]["SEQUENCE"] < ended[first]["SEQUENCE"]
        freeze_id = acme.session.scalars(select(Freeze.id)).one()
        assert [urlsplit(each[first]["URL"]).path for each in (planned, active, ended)] == [
            f"/schedules/{schedule['id']}", f"/freezes/{freeze_id}", f"/freezes/{freeze_id}"
        ]  # fmt: skip

    def test_sequence_never_falls_when_old_audit_entries_leave_the_database(
        self, acme: Tenant, web: WatchedBranch
    ) -> None:
        created(acme.person("member"))
        feed = new_feed(acme.person("member"))
        before = events(read(acme, feed))
        removed = acme.session.execute(delete(AuditEntry).where(AuditEntry.organization_id == acme.id)).rowcount  # type: ignore[attr-defined]
        of_range = {"sequence": removed, "hash": b"", "file_sha256": b"", "removed_by": "grace"}
        now = factories.now()
        acme.session.execute(
            insert(AuditRemoval).values(organization_id=acme.id, sealed_at=now, recorded_at=now, **of_range)
        )
        after = events(read(acme, feed))
        assert after.keys() == before.keys() != set()
        for name in ("SEQUENCE", "LAST-MODIFIED"):
            assert all(after[one].decoded(name) >= event.decoded(name) for one, event in before.items()), name

    def test_missed_window_is_cancelled(self, acme: Tenant) -> None:
        feed, now = new_feed(acme.person("member")), factories.now()
        schedule = factories.schedule(acme.session, acme.organization)
        past = {"starts_at": now - timedelta(hours=3), "ends_at": now - timedelta(hours=2), "missed_at": now}
        factories.occurrence(acme.session, schedule, **past)
        event = only(read(acme, feed))
        assert (event["STATUS"], event["SUMMARY"]) == ("CANCELLED", "Missed: Weekends")

    def test_freeze_without_an_end_moves_on_each_day(
        self, acme: Tenant, web: WatchedBranch, clock: MovableClock
    ) -> None:
        feed = new_feed(acme.person("member"))
        changed = acme.person("owner").patch("/v1/orgs/current", {"settings": {"timezone": "Asia/Tokyo"}})
        assert changed.status_code == 200
        clock.at = factories.now().replace(hour=12, minute=0, second=0, microsecond=0)
        freeze = acme.key().post("/v1/freezes", EVERYTHING).json()
        first = only(read(acme, feed))
        midnight_in_tokyo = clock.at.replace(hour=15)
        assert (str(first["UID"]), first.end) == (freeze["id"], midnight_in_tokyo)
        assert first["SUMMARY"] == "Frozen: Release under way (no end yet)"
        assert "It has no end yet" in first["DESCRIPTION"]
        clock.at += timedelta(days=1)
        second = only(read(acme, feed))
        assert second.end == first.end + timedelta(days=1)
        assert second["SEQUENCE"] > first["SEQUENCE"]
        acme.key().post(f"/v1/freezes/{freeze['id']}/extend", {"endsAt": (clock.at + timedelta(hours=2)).isoformat()})
        third = only(read(acme, feed))
        assert third.end == clock.at + timedelta(hours=2)
        assert third["SEQUENCE"] > second["SEQUENCE"]
        acme.key().post(f"/v1/freezes/{freeze['id']}/lift")
        assert only(read(acme, feed))["SEQUENCE"] > third["SEQUENCE"]

    def test_ended_freezes_are_shown_for_30_days(self, acme: Tenant) -> None:
        now = factories.now()
        ids = [
            factories.freeze(
                acme.session,
                acme.organization,
                started_at=now - timedelta(days=40),
                ended_at=now - timedelta(days=days),
                end_reason="lifted",
            ).id
            for days in (29, 31)
        ]
        assert list(events(read(acme, new_feed(acme.person("member"))))) == ids[:1]

    def test_calendar_of_a_repository_shows_only_what_freezes_it(self, acme: Tenant, web: WatchedBranch) -> None:
        api = factories.branch(acme.session, acme.repository("api"))
        feed = new_feed(acme.person("member"), repo="acme/web")
        mine = factories.freeze(acme.session, acme.organization, [web])
        factories.freeze(acme.session, acme.organization, [api])
        scopes = ({"type": "repositories", "repositories": [one]} for one in ("acme/web", "acme/api"))
        schedules = [factories.schedule(acme.session, acme.organization, scope=scope) for scope in scopes]
        planned, _ = (factories.occurrence(acme.session, schedule) for schedule in schedules)
        answer = read(acme, feed)
        assert set(events(answer)) == {mine.id, planned.id}
        assert icalendar.Calendar.from_ical(answer.content)["X-WR-CALNAME"] == "Freezes of acme/web"

    def test_calendar_of_a_schedule_shows_only_its_windows(self, acme: Tenant, web: WatchedBranch) -> None:
        mine, other = (
            factories.schedule(acme.session, acme.organization, name=name) for name in ("Nights", "Weekends")
        )
        planned, _ = factories.occurrence(acme.session, mine), factories.occurrence(acme.session, other)
        factories.freeze(acme.session, acme.organization, [web])
        answer = read(acme, new_feed(acme.person("member"), scheduleId=mine.id))
        assert list(events(answer)) == [planned.id]
        assert icalendar.Calendar.from_ical(answer.content)["X-WR-CALNAME"] == "Freezes: Nights"

    def test_calendar_shows_nothing_of_another_organization(self, acme: Tenant, globex: Tenant) -> None:
        factories.freeze(acme.session, globex.organization)
        factories.occurrence(acme.session, factories.schedule(acme.session, globex.organization))
        assert events(read(acme, new_feed(acme.person("member")))) == {}

    def test_hostile_texts_stay_inside_their_properties(self, acme: Tenant) -> None:
        schedule = factories.schedule(acme.session, acme.organization, name=HOSTILE, reason=HOSTILE)
        factories.occurrence(acme.session, schedule)
        factories.freeze(acme.session, acme.organization, reason=HOSTILE)
        acme.organization.name = HOSTILE
        acme.session.flush()
        answer = read(acme, new_feed(acme.person("member")))
        assert len(events(answer)) == 2
        for event in events(answer).values():
            assert 'Büro;geschlossen, "heute"\\nEND:VEVENT BEGIN:VEVENT' in str(event["SUMMARY"])
            assert "<a" not in event["DESCRIPTION"]
            assert "https://evil" not in event["DESCRIPTION"]
        assert all(len(line.encode()) <= 75 for line in answer.text.split("\r\n"))
        assert answer.text.count("\n") == answer.text.count("\r\n")
