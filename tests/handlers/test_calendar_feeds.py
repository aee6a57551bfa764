"""Calendar feeds: who may create, list and revoke them, and what programs that subscribe read at their addresses."""

import asyncio
import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import icalendar
import pytest
import recurring_ical_events
from ical.calendar_stream import IcsCalendarStream
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from app.edge.rate_limits import RateLimits
from app.edge.request_context import Budget
from models.audit import AuditEntry, AuditRemoval
from models.calendar_feeds import CalendarFeed
from models.freezes import Freeze
from models.repositories import WatchedBranch
from models.schedules import CancelledWindow, Occurrence
from rules.ids import new_id
from rules.time.calendar_events import MAX_EVENTS
from services.calendars import calendar
from services.identity.calendar_feeds import MAX_FEEDS
from tests import factories
from tests.handlers.access_checks import takes_credentials
from tests.handlers.callers import EVERYTHING, Caller, Tenant, refusal
from tests.handlers.people import Person, member, through_pages
from tests.handlers.schedules.requests import created
from tests.harness.clock import MovableClock

FEEDS = "/v1/calendar-feeds"
WANTED = {"name": "Team calendar"}
HOSTILE = 'Büro;geschlossen, "heute"\\nEND:VEVENT\r\nBEGIN:VEVENT\x0b <a href="https://evil.example">go</a> ' + "ß" * 90


@pytest.fixture
def grace(acme: Tenant) -> Person:
    return member(acme)


def new_feed(caller: Caller, **body: Any) -> dict[str, Any]:
    """Have a member create a feed, and return the answer with the path of its address as `path`."""
    answer = caller.post(FEEDS, {**WANTED, **body})
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json()
    return {**shown, "path": urlsplit(shown["url"]).path}


def read(acme: Tenant, feed: dict[str, Any], **headers: str) -> httpx.Response:
    """Read a calendar as programs do: without a credential."""
    return acme.http.get(feed["path"], headers=headers)


def events(answer: httpx.Response) -> dict[str, Any]:
    """Return the events of a calendar by the id in their UID, as three parsers read it."""
    assert answer.status_code == 200, answer.text
    calendar = icalendar.Calendar.from_ical(answer.content)
    found: dict[str, Any] = {str(one["UID"]).partition("@")[0]: one for one in calendar.walk("VEVENT")}
    strict = {str(one.uid).partition("@")[0]: one for one in IcsCalendarStream.calendar_from_ics(answer.text).events}
    assert strict.keys() == found.keys()
    for event_id, one in strict.items():
        event = found[event_id]
        shown = (one.summary, one.description, one.dtstart, one.dtend, one.sequence)
        assert shown == (str(event["SUMMARY"]), str(event["DESCRIPTION"]), event.start, event.end, event["SEQUENCE"])
    expanded = recurring_ical_events.of(calendar).between(datetime(2000, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 - UTC
    assert len(expanded) == len(found)
    return found


def only(answer: httpx.Response) -> Any:
    [event] = events(answer).values()
    return event


def windows(session: Session) -> list[Occurrence]:
    session.expire_all()
    return list(session.scalars(select(Occurrence).order_by(Occurrence.starts_at)))


class TestCreateCalendarFeed:
    def test_create_calendar_feed_requires_a_member_session(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.post(FEEDS, WANTED), scope=None, least_role="member", writes=True)

    def test_address_is_shown_once_and_only_its_hash_is_stored(self, acme: Tenant, session: Session) -> None:
        feed = new_feed(acme.person("member"))
        token = feed["path"].removeprefix("/calendars/").removesuffix(".ics")
        assert token.startswith("svc_feed_")
        assert len(token.removeprefix("svc_feed_")) == 22  # 128 bits
        listed = acme.person("viewer").get(FEEDS)
        assert listed.json()["data"] == [feed["calendarFeed"]]
        assert token not in listed.text
        row = session.scalars(select(CalendarFeed)).one()
        assert token.encode() not in row.token_hash
        assert len(row.token_hash) == 32

    def test_creation_is_audited_without_the_address(self, acme: Tenant, session: Session) -> None:
        feed = new_feed(acme.person("member"))
        entry = session.scalars(select(AuditEntry)).one()
        assert entry.action == "calendar_feed.created"
        assert entry.target == {"type": "calendar_feed", "id": feed["calendarFeed"]["id"], "name": "Team calendar"}
        assert "svc_feed" not in str(entry.details)

    def test_feed_of_a_schedule_or_repository_names_it(self, acme: Tenant, web: WatchedBranch) -> None:
        schedule = created(acme.person("member"))
        of_schedule = new_feed(acme.person("member"), scheduleId=schedule["id"])["calendarFeed"]
        assert of_schedule["schedule"] == {"id": schedule["id"], "name": "Nights"}
        of_repository = new_feed(acme.person("member"), repo="acme/web")["calendarFeed"]
        assert of_repository["repository"] == {"id": web.repository_id, "name": "acme/web"}

    def test_feed_of_a_schedule_and_a_repository_is_refused(self, acme: Tenant, web: WatchedBranch) -> None:
        body = {**WANTED, "scheduleId": created(acme.person("member"))["id"], "repo": "acme/web"}
        error = refusal(acme.person("member").post(FEEDS, body), 422, "validation_failed")
        assert [row["path"] for row in error["details"]] == ["/repo"]

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({"scheduleId": "sch_00000000000000000000000000"}, "schedule_not_found"),
            ({"repo": "acme/nothing"}, "repository_not_found"),
        ],
    )
    def test_feed_of_what_is_unknown_is_refused(self, acme: Tenant, body: dict[str, str], code: str) -> None:
        refusal(acme.person("member").post(FEEDS, {**WANTED, **body}), 404, code)

    def test_person_has_a_limited_number_of_feeds(self, acme: Tenant, grace: Person, session: Session) -> None:
        for _ in range(MAX_FEEDS - 1):
            factories.calendar_feed(session, grace.user, acme.organization)
        feed = new_feed(grace.caller)
        refusal(grace.caller.post(FEEDS, WANTED), 409, "invalid_state")
        assert grace.caller.delete(f"{FEEDS}/{feed['calendarFeed']['id']}").status_code == 204
        new_feed(grace.caller)


class TestListCalendarFeeds:
    def test_list_calendar_feeds_requires_a_session(self, acme: Tenant) -> None:
        takes_credentials(acme, lambda caller: caller.get(FEEDS), scope=None, least_role="viewer")

    def test_list_shows_feeds_of_the_organization_newest_first(self, acme: Tenant, globex: Tenant) -> None:
        new_feed(globex.person("member"))
        ids = [new_feed(acme.person(role))["calendarFeed"]["id"] for role in ("member", "admin", "owner")]
        assert [row["id"] for row in through_pages(acme.person("viewer"), FEEDS)] == ids[::-1]


class TestRevokeCalendarFeed:
    def test_revoke_calendar_feed_requires_a_member_session(self, acme: Tenant, grace: Person) -> None:
        for caller, status, code in (
            (acme.anybody, 401, "missing_credentials"),
            (acme.key(), 403, "credential_type_not_allowed"),
            (acme.person("viewer"), 403, "insufficient_permission"),
            (acme.support, 403, "impersonation_read_only"),
        ):
            path = f"{FEEDS}/{new_feed(grace.caller)['calendarFeed']['id']}"
            refusal(caller.delete(path), status, code)

    def test_feed_of_another_person_is_revoked_by_administrators_only(self, acme: Tenant, grace: Person) -> None:
        feed = new_feed(grace.caller)
        path = f"{FEEDS}/{feed['calendarFeed']['id']}"
        refusal(acme.person("member").delete(path), 403, "insufficient_permission")
        assert read(acme, feed).status_code == 200
        assert acme.person("admin").delete(path).status_code == 204
        refusal(read(acme, feed), 404, "calendar_feed_not_found")
        refusal(acme.person("admin").delete(path), 404, "calendar_feed_not_found")
        assert acme.person("viewer").get(FEEDS).json()["data"] == []
        assert acme.audit() == ["calendar_feed.created", "calendar_feed.revoked"]

    def test_feeds_of_a_removed_member_end_and_are_audited(
        self, acme: Tenant, globex: Tenant, grace: Person, session: Session
    ) -> None:
        factories.membership(session, globex.organization, grace.user)
        elsewhere = factories.calendar_feed(session, grace.user, globex.organization)[1]
        feed, other = new_feed(grace.caller), new_feed(acme.person("member"))
        assert acme.person("admin").delete(f"/v1/members/{grace.id}").status_code == 204
        refusal(read(acme, feed), 404, "calendar_feed_not_found")
        assert read(acme, other).status_code == 200
        assert acme.http.get(f"/calendars/{elsewhere}").status_code == 200
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "calendar_feed.revoked")).one()
        assert entry.details["why"] == "member_removed"
        factories.membership(session, acme.organization, grace.user)
        refusal(read(acme, feed), 404, "calendar_feed_not_found")

    def test_feeds_end_with_their_organization(self, acme: Tenant, session: Session) -> None:
        feed = new_feed(acme.person("member"))
        acme.organization.deleted_at = factories.now()
        session.flush()
        refusal(read(acme, feed), 404, "calendar_feed_not_found")


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
        self, acme: Tenant, web: WatchedBranch, session: Session, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        created(acme.person("member"))
        shown = events(read(acme, new_feed(acme.person("member"))))
        rows = windows(session)
        assert list(shown) == [row.id for row in rows if row.starts_at < clock.at + timedelta(days=90)]
        event = shown[rows[0].id]
        assert (event.start, event.end) == (rows[0].starts_at, rows[0].ends_at)
        assert event["SUMMARY"] == "Frozen: Nights"
        assert event["DESCRIPTION"] == "No release team at night"
        assert (event["STATUS"], event["TRANSP"]) == ("CONFIRMED", "TRANSPARENT")
        assert event["UID"] == f"{rows[0].id}@127.0.0.1"
        assert b"Ada" not in read(acme, new_feed(acme.person("member"))).content

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
        self, acme: Tenant, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert MAX_EVENTS == 1000
        monkeypatch.setattr(calendar, "MAX_EVENTS", 5)
        schedule, now = factories.schedule(session, acme.organization), factories.now()
        of = {"organization_id": acme.id, "schedule_id": schedule.id}
        hour = timedelta(hours=1)
        starts = {new_id("occ"): now + hour * number for number in range(1, 8)}
        rows = [{**of, "id": one, "starts_at": at, "ends_at": at + hour} for one, at in starts.items()]
        session.execute(insert(CancelledWindow), rows[:1])
        session.execute(insert(Occurrence), rows[1:])

        def shown() -> list[str]:
            content = read(acme, new_feed(acme.person("member"))).content
            return [found.decode() for found in re.findall(rb"UID:(occ_\w+)@", content)]

        cancelled, *planned = starts
        assert shown() == planned[:5]
        session.execute(delete(Occurrence).where(Occurrence.id.in_(planned[:2])))
        assert shown() == [*planned[2:], cancelled]

    def test_skipped_window_is_cancelled_until_it_is_planned_again(
        self, acme: Tenant, web: WatchedBranch, session: Session
    ) -> None:
        schedule, feed = created(acme.person("member")), new_feed(acme.person("member"))
        first, second = windows(session)[:2]
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
        self, acme: Tenant, web: WatchedBranch, session: Session, clock: MovableClock
    ) -> None:
        clock.at = factories.now()
        schedule, feed = created(acme.person("member")), new_feed(acme.person("member"))
        first = windows(session)[0].id
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
        freeze_id = session.scalars(select(Freeze.id)).one()
        assert [urlsplit(each[first]["URL"]).path for each in (planned, active, ended)] == [
            f"/schedules/{schedule['id']}", f"/freezes/{freeze_id}", f"/freezes/{freeze_id}"
        ]  # fmt: skip

    def test_sequence_never_falls_when_old_audit_entries_leave_the_database(
        self, acme: Tenant, web: WatchedBranch, session: Session
    ) -> None:
        created(acme.person("member"))
        feed = new_feed(acme.person("member"))
        before = events(read(acme, feed))
        removed = session.execute(delete(AuditEntry).where(AuditEntry.organization_id == acme.id)).rowcount  # type: ignore[attr-defined]
        of_range = {"sequence": removed, "hash": b"", "file_sha256": b"", "removed_by": "grace"}
        now = factories.now()
        session.execute(
            insert(AuditRemoval).values(organization_id=acme.id, sealed_at=now, recorded_at=now, **of_range)
        )
        after = events(read(acme, feed))
        assert after.keys() == before.keys() != set()
        for name in ("SEQUENCE", "LAST-MODIFIED"):
            assert all(after[one].decoded(name) >= event.decoded(name) for one, event in before.items()), name

    def test_missed_window_is_cancelled(self, acme: Tenant, session: Session) -> None:
        now = factories.now()
        schedule = factories.schedule(session, acme.organization)
        past = {"starts_at": now - timedelta(hours=3), "ends_at": now - timedelta(hours=2), "missed_at": now}
        factories.occurrence(session, schedule, **past)
        assert only(read(acme, new_feed(acme.person("member"))))["STATUS"] == "CANCELLED"

    def test_freeze_without_an_end_moves_on_each_day(
        self, acme: Tenant, web: WatchedBranch, clock: MovableClock
    ) -> None:
        feed = new_feed(acme.person("member"))
        clock.at = factories.now().replace(hour=12, minute=0, second=0, microsecond=0)
        freeze = acme.key().post("/v1/freezes", EVERYTHING).json()
        first = only(read(acme, feed))
        midnight = clock.at.replace(hour=0)
        assert (str(first["UID"]).partition("@")[0], first.end) == (freeze["id"], midnight + timedelta(days=2))
        assert first["SUMMARY"] == "Frozen: Release under way"
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

    def test_ended_freezes_are_shown_for_30_days(self, acme: Tenant, session: Session) -> None:
        now = factories.now()
        ids = [
            factories.freeze(
                session,
                acme.organization,
                started_at=now - timedelta(days=40),
                ended_at=now - timedelta(days=days),
                end_reason="lifted",
            ).id
            for days in (29, 31)
        ]
        assert list(events(read(acme, new_feed(acme.person("member"))))) == ids[:1]

    def test_calendar_of_a_repository_shows_only_what_freezes_it(
        self, acme: Tenant, web: WatchedBranch, session: Session
    ) -> None:
        api = factories.branch(session, acme.repository("api"))
        feed = new_feed(acme.person("member"), repo="acme/web")
        mine = factories.freeze(session, acme.organization, [web])
        factories.freeze(session, acme.organization, [api])
        scopes = ({"type": "repositories", "repositories": [one]} for one in ("acme/web", "acme/api"))
        schedules = [factories.schedule(session, acme.organization, scope=scope) for scope in scopes]
        planned, _ = (factories.occurrence(session, schedule) for schedule in schedules)
        answer = read(acme, feed)
        assert set(events(answer)) == {mine.id, planned.id}
        assert icalendar.Calendar.from_ical(answer.content)["X-WR-CALNAME"] == "Freezes of acme/web"

    def test_calendar_of_a_schedule_shows_only_its_windows(
        self, acme: Tenant, web: WatchedBranch, session: Session
    ) -> None:
        mine, other = (factories.schedule(session, acme.organization, name=name) for name in ("Nights", "Weekends"))
        planned, _ = factories.occurrence(session, mine), factories.occurrence(session, other)
        factories.freeze(session, acme.organization, [web])
        answer = read(acme, new_feed(acme.person("member"), scheduleId=mine.id))
        assert list(events(answer)) == [planned.id]
        assert icalendar.Calendar.from_ical(answer.content)["X-WR-CALNAME"] == "Freezes: Nights"

    def test_calendar_shows_nothing_of_another_organization(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        factories.freeze(session, globex.organization)
        factories.occurrence(session, factories.schedule(session, globex.organization))
        assert events(read(acme, new_feed(acme.person("member")))) == {}

    def test_hostile_texts_stay_inside_their_properties(self, acme: Tenant, session: Session) -> None:
        schedule = factories.schedule(session, acme.organization, name=HOSTILE, reason=HOSTILE)
        factories.occurrence(session, schedule)
        factories.freeze(session, acme.organization, reason=HOSTILE)
        acme.organization.name = HOSTILE
        session.flush()
        answer = read(acme, new_feed(acme.person("member")))
        assert len(events(answer)) == 2
        for event in events(answer).values():
            assert 'Büro;geschlossen, "heute"\\nEND:VEVENT BEGIN:VEVENT' in str(event["SUMMARY"])
            assert "<a" not in event["DESCRIPTION"]
            assert "https://" not in event["DESCRIPTION"]
        assert all(len(line.encode()) <= 75 for line in answer.text.split("\r\n"))
        assert answer.text.count("\n") == answer.text.count("\r\n")
