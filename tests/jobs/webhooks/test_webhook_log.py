"""What nobody took is taken from GitHub's log of webhooks, once, and what it cannot tell is read from GitHub."""

import re
from datetime import timedelta

from services.maintenance.webhook_log import LOG, read_log, request_reading
from tests.harness.github_harness import Harness
from tests.harness.people import push_to_head
from tests.harness.webhook_queue import GITHUB_CALLER, disagreements, work
from tests.jobs.webhooks.log_readings import Log
from tools.fake_github.model import checks


class TestTaking:
    def test_pushed_head_that_nobody_heard_of_gets_its_check(self, harness: Harness, log: Log) -> None:
        harness.freeze()
        work(harness)
        push_to_head(harness)
        assert harness.conclusions()["acme/web#1"] is None
        assert log.read()
        work(harness)
        assert harness.conclusions()["acme/web#1"] == "failure"
        assert disagreements(harness) == {}
        assert not log.resyncs()

    def test_delivery_is_taken_once_however_often_the_log_is_read(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
        log.read()
        before = log.stored()
        assert {event for event, _ in before} == {"push", "pull_request"}
        harness.process_webhooks()
        payloads = log.payloads
        log.read()
        assert [event for event, _ in log.stored()] == [event for event, _ in before]
        assert log.payloads == payloads

    def test_late_original_of_a_delivery_that_was_taken_is_a_duplicate(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
        [original] = [each for each in log.delivered() if each.event == "push"]
        log.read()
        assert not log.arrive(original)

    def test_delivery_that_arrived_is_not_taken(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
        for each in log.delivered():
            assert log.arrive(each)
        log.read()
        assert log.payloads == 0

    def test_redelivery_is_taken_once_together_with_its_original(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
        for each in log.delivered():
            log.sender.redeliver(each)
        log.read()
        assert sorted(event for event, _ in log.stored()) == ["pull_request", "push"]

    def test_delivery_that_another_server_answered_is_taken(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
        for each in log.delivered():
            each.status, each.status_code = "OK", 200
        log.read()
        assert len(log.stored()) == 2

    def test_delivery_that_gets_into_the_log_late_is_taken(self, harness: Harness, log: Log) -> None:
        push_to_head(harness, number=1)
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
            each.action = "assigned"
        log.read()
        assert log.payloads == 0
        assert log.stored() == []

    def test_foreign_delivery_changes_nothing(self, harness: Harness, log: Log) -> None:
        push_to_head(harness)
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
        record = harness.record()
        wrong = {"name": "change-freeze/main", "head_sha": record.pulls[1].head_sha, "conclusion": "success"}
        harness.act(checks.create_check_run, harness.fake_github.app_id, record, wrong)
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
        push_to_head(harness)
        harness.woken.clear()
        log.read()
        assert "webhooks" in harness.woken


class TestWhen:
    def test_log_is_read_every_15_seconds_and_sooner_after_something_was_missing(
        self, harness: Harness, log: Log
    ) -> None:
        log.read()
        assert timedelta(seconds=13) < log.mark().wait <= timedelta(seconds=15)
        assert not read_log(harness.jobs, harness.github)
        push_to_head(harness)
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
        assert harness.woken[-1] == "webhook_log"
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


def test_log_without_its_row_is_not_read(harness: Harness) -> None:
    assert not read_log(harness.jobs, harness.github)
    with harness.jobs.open(GITHUB_CALLER) as uow:
        assert not LOG.has_work(uow)
