"""Calendar feeds: who may create, list and revoke them."""

import psycopg
import pytest
from sqlalchemy import select

from models.calendar_feeds import CalendarFeed
from models.repositories import WatchedBranch
from services.identity.calendar_feeds import MAX_FEEDS
from tests import factories
from tests.conftest import as_libpq
from tests.handlers.calendar_feeds.requests import FEEDS, WANTED, new_feed, read
from tests.handlers.callers import Tenant, refusal
from tests.handlers.people import Person, member, through_pages
from tests.handlers.schedules.requests import created
from tests.harness.concurrency import Task, eventually, results_of

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def grace(acme: Tenant) -> Person:
    return member(acme)


class TestCreateCalendarFeed:
    def test_address_is_shown_once_and_only_its_hash_is_stored(self, acme: Tenant) -> None:
        feed = new_feed(acme.person("member"))
        token = feed["path"].removeprefix("/calendars/").removesuffix(".ics")
        assert token.startswith("svc_feed_")
        assert len(token.removeprefix("svc_feed_")) == 22  # 128 bits
        listed = acme.person("viewer").get(FEEDS)
        assert listed.json()["data"] == [feed["calendarFeed"]]
        assert token not in listed.text
        row = acme.session.scalars(select(CalendarFeed)).one()
        assert token.encode() not in row.token_hash
        assert len(row.token_hash) == 32

    def test_creation_is_audited_without_the_address(self, acme: Tenant) -> None:
        feed = new_feed(acme.person("member"))
        [entry] = factories.audit_entries(acme.session)
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

    def test_person_has_a_limited_number_of_feeds(self, acme: Tenant, grace: Person) -> None:
        for _ in range(MAX_FEEDS - 1):
            factories.calendar_feed(acme.session, grace.user, acme.organization)
        feed = new_feed(grace.caller)
        refusal(grace.caller.post(FEEDS, WANTED), 409, "invalid_state")
        assert grace.caller.delete(f"{FEEDS}/{feed['calendarFeed']['id']}").status_code == 204
        new_feed(grace.caller)

    def test_limit_of_feeds_holds_for_concurrent_requests(self, acme: Tenant, grace: Person, database: str) -> None:
        for _ in range(MAX_FEEDS - 1):
            factories.calendar_feed(acme.session, grace.user, acme.organization)
        with (
            psycopg.connect(as_libpq(database)) as inserts_wait,
            psycopg.connect(as_libpq(database), autocommit=True) as watch,
        ):
            inserts_wait.execute("SELECT FROM users WHERE id = %s FOR UPDATE", [grace.user.id])
            requests = [Task(lambda: grace.caller.post(FEEDS, WANTED)) for _ in range(2)]
            eventually(lambda: watch.execute(WAITING).fetchone() == (2,))
        assert sorted(answer.status_code for answer in results_of(requests)) == [201, 409]


class TestListCalendarFeeds:
    def test_list_shows_feeds_of_the_organization_newest_first(self, acme: Tenant, globex: Tenant) -> None:
        new_feed(globex.person("member"))
        ids = [new_feed(acme.person(role))["calendarFeed"]["id"] for role in ("member", "admin", "owner")]
        assert [row["id"] for row in through_pages(acme.person("viewer"), FEEDS)] == ids[::-1]


class TestRevokeCalendarFeed:
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

    def test_feeds_of_a_removed_member_end_and_are_audited(self, acme: Tenant, globex: Tenant, grace: Person) -> None:
        factories.membership(acme.session, globex.organization, grace.user)
        elsewhere = factories.calendar_feed(acme.session, grace.user, globex.organization)[1]
        feed, other = new_feed(grace.caller), new_feed(acme.person("member"))
        assert acme.person("admin").delete(f"/v1/members/{grace.id}").status_code == 204
        refusal(read(acme, feed), 404, "calendar_feed_not_found")
        assert read(acme, other).status_code == 200
        assert acme.http.get(f"/calendars/{elsewhere}").status_code == 200
        [entry] = factories.audit_entries(acme.session, "calendar_feed.revoked")
        assert entry.details["why"] == "member_removed"
        factories.membership(acme.session, acme.organization, grace.user)
        refusal(read(acme, feed), 404, "calendar_feed_not_found")

    def test_feeds_end_with_their_organization(self, acme: Tenant) -> None:
        feed = new_feed(acme.person("member"))
        acme.organization.deleted_at = factories.now()
        acme.session.flush()
        refusal(read(acme, feed), 404, "calendar_feed_not_found")
