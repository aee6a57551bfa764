"""A log of webhooks that cannot be read, or does not reach back far enough, is made up for."""

from datetime import timedelta
from typing import Any

import pytest

from services.maintenance import webhook_log
from tests.harness.github_harness import Harness
from tests.harness.people import push_to_head
from tests.harness.webhook_queue import disagreements, work
from tests.jobs.webhooks.log_readings import Log


class TestFailures:
    @pytest.mark.parametrize(("status", "seconds"), [(500, 2), (401, 2), (404, 1800)])
    def test_log_that_cannot_be_read_is_read_again(self, harness: Harness, log: Log, status: int, seconds: int) -> None:
        push_to_head(harness)
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
        push_to_head(harness)
        broken = harness.fake_github.faults.add("error", "GET /app/hook/deliveries/", skip=1)
        log.read()
        assert len(log.stored()) == 1
        harness.fake_github.faults.clear(broken.id)
        log.read()
        assert len(log.stored()) == 2

    def test_reading_that_has_lost_its_lease_records_nothing(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        push_to_head(harness)
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
        push_to_head(harness)
        log.read()
        work(harness)
        push_to_head(harness, number=2)
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
        push_to_head(harness)
        log.read()
        harness.sql("UPDATE webhook_log SET last_at = last_at - interval '3 days'")
        self.cut(log)
        log.read()
        assert not log.resyncs()
        assert log.mark().last_id is None

    def test_log_that_was_not_read_for_long_leads_to_one_full_resync(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
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
        push_to_head(harness)
        log.read()
        assert (len(log.stored()), log.resyncs()) == (1, 1)

    def test_payloads_leave_half_of_the_hourly_budget(self, harness: Harness, log: Log) -> None:
        harness.fake_github.limits.reset()
        harness.fake_github.settings.rest_points_per_hour = 6
        push_to_head(harness)
        log.read()
        assert (log.payloads, log.resyncs()) == (2, 0)
        push_to_head(harness)
        log.read()
        assert (log.payloads, log.resyncs()) == (2, 1)

    def test_short_budget_is_used_for_the_newest_page_alone(
        self, harness: Harness, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("integrations.github.webhook_log.PAGE_SIZE", 1)
        harness.fake_github.settings.rest_points_per_hour = 2
        push_to_head(harness)
        log.read()
        push_to_head(harness)
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
            push_to_head(harness, number=number)
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
        push_to_head(harness)
        log.read()
        assert (len(log.stored()), log.resyncs()) == (1, 1)

    @pytest.mark.parametrize("body", [b"null", b"[1]", None])
    def test_payload_that_cannot_be_read_leads_to_one_full_resync(
        self, harness: Harness, log: Log, body: bytes | None
    ) -> None:
        push_to_head(harness)
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
        push_to_head(harness)
        for each in log.delivered():
            each.status, each.status_code = "Unauthorized", 401
        log.read()
        log.read()
        assert log.payloads == 2
