"""What nobody took is taken from GitHub's log of webhooks, once, and what it cannot tell is read from GitHub."""

import re
from datetime import timedelta
from typing import Any, cast

import pytest

from services.maintenance import webhook_log
from services.maintenance.webhook_log import LOG, read_log, request_reading
from services.webhooks.deliveries import receive
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Builder, Harness
from tests.harness.wakeups import RecordedWakeups
from tests.harness.webhook_queue import GITHUB_CALLER, disagreements, work
from tests.jobs.webhooks.github_actions import head_of, push
from tools.fake_github.model import checks
from tools.fake_github.model.world import Actor
from tools.fake_github.webhooks.sender import Delivery

NOWHERE = "http://127.0.0.1:9/nobody-listens"


class Log:
    """GitHub's log, whose deliveries reach nobody, and the readings of it."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.sender = harness.fake_github.sender
        self.calls = harness.fake_github.calls
        harness.fake_github.settings.webhook_url = NOWHERE
        harness.sql("INSERT INTO webhook_log (since, read_at) SELECT t, t FROM (SELECT now() - interval '5 s' AS t) t")

    def read(self) -> bool:
        """Read it now; True if it was due. What was sent by then is in it."""
        assert self.sender.drain()
        self.harness.sql("UPDATE webhook_log SET due_at = now() - interval '1 day'")
        return read_log(self.harness.jobs, self.harness.github)

    def delivered(self) -> list[Delivery]:
        """Return what was sent, oldest first."""
        assert self.sender.drain()
        return list(self.sender.deliveries.values())

    def arrive(self, delivery: Delivery) -> bool:
        """Deliver it now; False if it was known."""
        signature = self.sender.headers(delivery)["X-Hub-Signature-256"]
        with self.harness.uow_factory.open(GITHUB_CALLER) as uow:
            return not receive(uow, delivery.body, signature, delivery.event, delivery.guid)["duplicate"]

    def stored(self) -> list[tuple[str, bool]]:
        """Return the event of each delivery that is stored, and whether it was processed."""
        rows = self.harness.sql("SELECT event, processed_at IS NOT NULL FROM webhook_deliveries ORDER BY received_at")
        return [(row[0], row[1]) for row in rows]

    def mark(self) -> Any:
        """Return the row."""
        [row] = self.harness.sql("SELECT *, due_at - now() AS wait FROM webhook_log")
        return row

    def resyncs(self) -> int:
        """Return whether a full resync was requested."""
        return len(self.harness.sql("SELECT FROM periodic_tasks WHERE name = 'full_resync'"))

    def pass_time(self, **length: float) -> None:
        """Let time pass for the service."""
        cast(MovableClock, self.harness.jobs.clock).offset += timedelta(**length)

    @property
    def payloads(self) -> int:
        """How many payloads were read."""
        return self.calls.by_operation["GET /app/hook/deliveries/{delivery_id}"]

    @property
    def pages(self) -> int:
        """How many pages were read."""
        return self.calls.by_operation["GET /app/hook/deliveries"]


@pytest.fixture
def log(harness: Harness, build: Builder) -> Log:
    """Return the log of a world at rest."""
    build("web", "api")
    work(harness)
    harness.read_rules()
    work(harness)
    return Log(harness)


def push_to(harness: Harness, name: str = "acme/web", number: int = 1) -> None:
    push(harness, name, head_of(harness, name, number))


class TestTaking:
    def test_pushed_head_that_nobody_heard_of_gets_its_check(self, harness: Harness, log: Log) -> None:
        harness.freeze()
        work(harness)
        push_to(harness)
        assert harness.conclusions()["acme/web#1"] is None
        assert log.read()
        work(harness)
        assert harness.conclusions()["acme/web#1"] == "failure"
        assert disagreements(harness) == {}
        assert not log.resyncs()

    def test_delivery_is_taken_once_however_often_the_log_is_read(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        log.read()
        before = log.stored()
        assert {event for event, _ in before} == {"push", "pull_request"}
        harness.process_webhooks()
        payloads = log.payloads
        log.read()
        assert [event for event, _ in log.stored()] == [event for event, _ in before]
        assert log.payloads == payloads

    def test_late_original_of_a_delivery_that_was_taken_is_a_duplicate(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        [original] = [each for each in log.delivered() if each.event == "push"]
        log.read()
        assert not log.arrive(original)

    def test_delivery_that_arrived_is_not_taken(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        for each in log.delivered():
            assert log.arrive(each)
        log.read()
        assert log.payloads == 0

    def test_redelivery_is_taken_once_together_with_its_original(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        for each in log.delivered():
            log.sender.redeliver(each)
        log.read()
        assert sorted(event for event, _ in log.stored()) == ["pull_request", "push"]

    def test_delivery_that_another_server_answered_is_taken(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        for each in log.delivered():
            each.status, each.status_code = "OK", 200
        log.read()
        assert len(log.stored()) == 2

    def test_delivery_that_gets_into_the_log_late_is_taken(self, harness: Harness, log: Log) -> None:
        push_to(harness, number=1)
        [late, *_] = log.delivered()
        late.status = "pending"
        log.read()
        assert len(log.stored()) == 1
        late.status = "timed out"
        log.read()
        assert len(log.stored()) == 2

    def test_deliveries_that_request_nothing_cost_no_call(self, harness: Harness, log: Log) -> None:
        harness.person("PATCH", "/repos/acme/web/pulls/1", {"title": "Another title"})
        for each in log.delivered():
            each.action = "labeled"
        log.read()
        assert log.payloads == 0
        assert log.stored() == []

    def test_foreign_delivery_changes_nothing(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        for each in log.delivered():
            each.body = re.sub(rb'"id":\d', b'"id":99', each.body)
            each.installation_id, each.repository_id = 99, 99
        log.read()
        assert len(log.stored()) == 2
        before = harness.conclusions()
        work(harness)
        assert harness.conclusions() == before
        assert not log.resyncs()

    def test_check_that_a_person_wrote_for_our_app_is_read_back(self, harness: Harness, log: Log) -> None:
        harness.freeze()
        work(harness)
        log.read()  # the checks that we wrote ourselves
        work(harness)
        world = harness.fake_github.world
        record = harness.fake_github.organization("acme").repository("web").record
        with world.lock:
            wrong = {"name": "change-freeze/main", "head_sha": record.pulls[1].head_sha, "conclusion": "success"}
            person = Actor(harness.fake_github.maintainer)
            checks.create_check_run(world, person, harness.fake_github.app_id, record, wrong)
        assert harness.conclusions()["acme/web#1"] == "success"
        log.read()
        assert log.payloads == 0
        due = harness.sql(
            "SELECT r.name FROM checks c JOIN repositories r ON r.id = c.repository_id "
            "JOIN read_backs b ON b.check_id = c.id WHERE c.due_at IS NOT NULL"
        )
        assert due == [("web",)]
        work(harness)
        assert harness.conclusions()["acme/web#1"] == "failure"
        log.read()
        assert set(log.stored()) == {("check_run", True)}

    def test_work_of_a_taken_delivery_wakes_its_job(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        cast(RecordedWakeups, harness.jobs.wakeups).sent.clear()
        log.read()
        assert "webhooks" in cast(RecordedWakeups, harness.jobs.wakeups).sent


class TestWhen:
    def test_log_is_read_every_15_seconds_and_sooner_after_something_was_missing(
        self, harness: Harness, log: Log
    ) -> None:
        log.read()
        assert timedelta(seconds=13) < log.mark().wait <= timedelta(seconds=15)
        assert not read_log(harness.jobs, harness.github)
        push_to(harness)
        log.read()
        assert timedelta(seconds=3) < log.mark().wait <= timedelta(seconds=5)

    def test_idle_log_costs_one_call(self, harness: Harness, log: Log) -> None:
        log.read()
        before = log.pages
        log.read()
        assert log.pages == before + 1

    def test_api_requests_a_reading(self, harness: Harness, log: Log) -> None:
        log.read()
        with harness.uow_factory.open(GITHUB_CALLER) as uow:
            request_reading(uow)
        assert cast(RecordedWakeups, harness.jobs.wakeups).sent[-1] == "webhook_log"
        assert read_log(harness.jobs, harness.github)

    def test_reading_that_is_requested_during_another_one_follows_it(self, harness: Harness, log: Log) -> None:
        harness.sql("UPDATE webhook_log SET due_at = now() - interval '1 day'")
        with harness.jobs.open(GITHUB_CALLER) as uow:
            lease = LOG.acquire(uow)
        with harness.uow_factory.open(GITHUB_CALLER) as uow:
            request_reading(uow)
        assert lease is not None
        with harness.jobs.open(GITHUB_CALLER) as uow:
            lease.release(uow, due_at=uow.now + timedelta(hours=1))
        assert read_log(harness.jobs, harness.github)


class TestFailures:
    @pytest.mark.parametrize(("status", "seconds"), [(500, 2), (401, 2), (404, 1800)])
    def test_log_that_cannot_be_read_is_read_again(self, harness: Harness, log: Log, status: int, seconds: int) -> None:
        push_to(harness)
        broken = harness.fake_github.faults.add("error", "GET /app/hook/deliveries", status=status)
        log.read()
        row = log.mark()
        assert (row.attempts, row.read_at < row.since + timedelta(seconds=1)) == (1, True)
        assert row.wait <= timedelta(seconds=seconds)
        harness.fake_github.faults.clear(broken.id)
        log.read()
        assert log.mark().attempts == 0
        assert len(log.stored()) == 2

    @pytest.mark.parametrize(("headers", "seconds"), [({"Retry-After": "90"}, 90), ({}, 60)])
    def test_rate_limit_of_the_log_is_obeyed(
        self, harness: Harness, log: Log, headers: dict[str, str], seconds: int
    ) -> None:
        limit = "You have exceeded a secondary rate limit."
        harness.fake_github.faults.add("error", "GET /app/hook", status=403, message=limit, headers=headers)
        log.read()
        assert timedelta(seconds=seconds - 2) < log.mark().wait < timedelta(seconds=seconds + 2)

    def test_reading_that_fails_midway_continues_where_it_ended(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        broken = harness.fake_github.faults.add("error", "GET /app/hook/deliveries/", skip=1)
        log.read()
        assert len(log.stored()) == 1
        harness.fake_github.faults.clear(broken.id)
        log.read()
        assert len(log.stored()) == 2

    def test_reading_that_has_lost_its_lease_records_nothing(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        push_to(harness)
        payload = harness.github.webhook_log.payload

        def lose(entry_id: int) -> Any:
            harness.sql("UPDATE webhook_log SET lease_token = 'another'")
            return payload(entry_id)

        monkeypatch.setattr(type(harness.github.webhook_log), "payload", lambda _, entry_id: lose(entry_id))
        log.read()
        assert log.stored() == []
        assert log.mark().last_id is None


class TestGaps:
    def cut(self, log: Log) -> None:
        """Have GitHub lose what it had."""
        log.delivered()
        log.sender.deliveries.clear()

    def test_log_that_was_cut_off_leads_to_one_full_resync(self, harness: Harness, log: Log) -> None:
        harness.freeze()
        work(harness)
        push_to(harness)
        log.read()
        work(harness)
        push_to(harness, number=2)
        self.cut(log)
        log.read()
        assert log.resyncs() == 1
        work(harness)
        assert disagreements(harness) == {}
        harness.sql("DELETE FROM periodic_tasks")
        log.pass_time(minutes=2)
        log.read()
        assert log.resyncs() == 0

    def test_idle_log_that_becomes_empty_in_time_is_no_gap(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        log.read()
        harness.sql("UPDATE webhook_log SET last_at = last_at - interval '3 days'")
        self.cut(log)
        log.read()
        assert not log.resyncs()
        assert log.mark().last_id is None

    def test_log_that_was_not_read_for_long_leads_to_one_full_resync(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        harness.sql("UPDATE webhook_log SET read_at = read_at - interval '49 hours'")
        log.read()
        assert log.resyncs() == 1
        assert log.pages == 1
        assert log.mark().last_id is not None
        harness.sql("DELETE FROM periodic_tasks")
        log.read()
        assert not log.resyncs()

    def test_gap_waits_for_a_minute_after_another_full_resync(self, harness: Harness, log: Log) -> None:
        harness.sql("UPDATE webhook_log SET read_at = read_at - interval '49 hours'")
        harness.sql("INSERT INTO periodic_tasks (name, done_at) VALUES ('full_resync', now() - interval '30 s')")
        before = log.mark().read_at
        log.read()
        assert log.mark().read_at == before
        assert log.mark().wait <= timedelta(seconds=5)
        log.pass_time(seconds=40)
        log.read()
        assert log.mark().read_at > before

    def test_more_than_can_be_taken_leads_to_one_full_resync(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(webhook_log, "MAX_PAYLOADS", 1)
        push_to(harness)
        log.read()
        assert (len(log.stored()), log.resyncs()) == (1, 1)

    def test_payloads_leave_half_of_the_hourly_budget(self, harness: Harness, log: Log) -> None:
        harness.fake_github.limits.reset()
        harness.fake_github.settings.rest_points_per_hour = 6
        push_to(harness)
        log.read()
        assert (log.payloads, log.resyncs()) == (2, 0)
        push_to(harness)
        log.read()
        assert (log.payloads, log.resyncs()) == (2, 1)

    def test_short_budget_is_used_for_the_newest_page_alone(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("integrations.github.webhook_log.PAGE_SIZE", 1)
        harness.fake_github.settings.rest_points_per_hour = 2
        push_to(harness)
        log.read()
        push_to(harness)
        pages = log.pages
        log.read()
        assert log.pages == pages + 2, "one of all deliveries, and one of those that failed"
        assert log.mark().wait > timedelta(seconds=13)

    def test_long_log_is_read_by_its_failures(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("integrations.github.webhook_log.PAGE_SIZE", 1)
        monkeypatch.setattr(webhook_log, "MAX_PAGES", 1)
        for number in (1, 2):
            push_to(harness, number=number)
        for each in log.delivered()[2:]:
            assert log.arrive(each)
            each.status, each.status_code = "OK", 202
        log.read()
        assert (len(log.stored()), log.resyncs()) == (4, 0)

    def test_long_log_of_a_server_without_the_filter_is_a_gap(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.fake_github.settings.filters_deliveries = False
        monkeypatch.setattr("integrations.github.webhook_log.PAGE_SIZE", 1)
        monkeypatch.setattr(webhook_log, "MAX_PAGES", 1)
        monkeypatch.setattr(webhook_log, "MAX_FAILURE_PAGES", 1)
        push_to(harness)
        log.read()
        assert (len(log.stored()), log.resyncs()) == (1, 1)

    @pytest.mark.parametrize("body", [b"null", b"[1]", None])
    def test_payload_that_cannot_be_read_leads_to_one_full_resync(
        self, harness: Harness, log: Log, body: bytes | None
    ) -> None:
        push_to(harness)
        for each in log.delivered():
            if body is not None:
                each.body = body
        if body is None:
            harness.fake_github.faults.add("error", "GET /app/hook/deliveries/", status=404)
        log.read()
        assert log.resyncs() == 1
        assert log.stored() == [("push", True), ("pull_request", True)]
        harness.sql("DELETE FROM periodic_tasks")
        log.read()
        assert not log.resyncs()

    def test_refused_delivery_is_taken_and_not_again(self, harness: Harness, log: Log) -> None:
        push_to(harness)
        for each in log.delivered():
            each.status, each.status_code = "Unauthorized", 401
        log.read()
        log.read()
        assert log.payloads == 2


def test_log_without_its_row_is_not_read(harness: Harness) -> None:
    assert not read_log(harness.jobs, harness.github)
    with harness.jobs.open(GITHUB_CALLER) as uow:
        assert not LOG.has_work(uow)
