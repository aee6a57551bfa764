"""The sweeper: what RQ and Redis lose, it finds; what time does, it records, once."""

from datetime import timedelta

import redis
from rq import Queue
from rq.serializers import JSONSerializer
from sqlalchemy import text

from integrations.wakeups import QUEUE, RedisWakeups, connect
from jobs.registry import jobs_with_work
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.github_access.pauses import pause_installation
from services.maintenance.resync import full_resync
from services.maintenance.retention import purge_expired
from services.repository_sync.sync import request_sync
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.concurrency import Task, at_once, eventually
from tests.harness.github_harness import ADA, Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.conftest import SweeperOf


def wakeups_of_a_sweep(harness: Harness, sweeper: SweeperOf) -> list[str]:
    """Return the jobs whose workers a sweep wakes."""
    harness.woken.clear()
    sweeper().sweep()
    return list(harness.woken)


class TestLostWakeups:
    def test_sweep_wakes_workers_for_what_has_no_wakeup(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("web")
        work(harness)
        assert jobs_with_work(harness.jobs) == []
        assert wakeups_of_a_sweep(harness, sweeper) == []
        harness.freeze()
        assert wakeups_of_a_sweep(harness, sweeper) == ["reconcile"]
        work(harness)
        assert wakeups_of_a_sweep(harness, sweeper) == []
        assert set(harness.conclusions().values()) == {"failure"}
        webhook_queue = WebhookQueue(harness)
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})
        webhook_queue.receive(webhook_queue.take())
        assert wakeups_of_a_sweep(harness, sweeper) == ["webhooks"]
        with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard")) as uow:
            request_sync(uow)
        assert sorted(wakeups_of_a_sweep(harness, sweeper)) == ["sync", "webhooks"]

    def test_sweep_wakes_workers_when_the_lease_of_a_dead_worker_expires(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("web")
        work(harness)
        harness.read_rules()
        harness.freeze()
        harness.sql("UPDATE checks SET lease_token = 'dead', lease_until = clock_timestamp() + interval '40 s'")
        assert wakeups_of_a_sweep(harness, sweeper) == []
        harness.pass_time(seconds=41)
        assert wakeups_of_a_sweep(harness, sweeper) == ["reconcile"]
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"failure"}

    def test_sweep_wakes_workers_when_a_retry_is_due(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("web")
        work(harness)
        harness.read_rules()
        harness.freeze()
        harness.fake_github.faults.add("error", "createCheckRun", status=500, count=1)
        harness.run_until_idle()
        harness.sql("UPDATE checks SET due_at = due_at + interval '1 minute'")  # the sweep may take seconds
        assert wakeups_of_a_sweep(harness, sweeper) == []
        harness.pass_time(seconds=70)
        assert wakeups_of_a_sweep(harness, sweeper) == ["reconcile"]
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"failure"}

    def test_sweep_reads_the_log_of_webhooks_itself(self, harness: Harness, build: Builder, sweeper: SweeperOf) -> None:
        build("web")
        work(harness)
        harness.freeze()
        harness.sql("INSERT INTO webhook_log (since, read_at, due_at) SELECT now(), now(), now() - interval '1 s'")
        assert wakeups_of_a_sweep(harness, sweeper) == ["reconcile"]
        eventually(lambda: harness.sql("SELECT 1 FROM webhook_log WHERE due_at > now() + interval '10 s'"))


class TestTime:
    def test_sweep_ends_a_freeze_at_its_exact_end_after_a_downtime(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("web")
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            ends_at = uow.now + timedelta(hours=1)
        freeze = harness.freeze(ends_at=ends_at)
        work(harness)
        sweeper().sweep()
        assert harness.sql("SELECT ended_at FROM freezes") == [(None,)]
        harness.pass_time(days=3)
        sweeper().sweep()
        [[ended_at, reason, by]] = harness.sql("SELECT ended_at, end_reason, ended_by ->> 'type' FROM freezes")
        assert (ended_at, reason, by) == (ends_at, "expired", "system")
        work(harness)
        assert set(harness.conclusions().values()) == {"success"}
        assert harness.sql("SELECT released_at IS NOT NULL FROM freezes WHERE id = :id", id=freeze) == [(True,)]

    def test_sweep_extends_the_plans_of_schedules(self, harness: Harness, build: Builder, sweeper: SweeperOf) -> None:
        build("web")
        schedule = factories.schedule(harness.session, harness.organization)
        harness.session.commit()
        sweeper().sweep()
        [[planned]] = harness.sql("SELECT count(*) FROM occurrences WHERE schedule_id = :id", id=schedule.id)
        assert planned in {12, 13, 14}
        harness.pass_time(days=7)
        sweeper().sweep()
        assert harness.sql(
            "SELECT count(*) FROM occurrences WHERE starts_at > clock_timestamp() + interval '90 days'"
        ) == [(1,)]


class TestTwoSweepers:
    def test_concurrent_sweepers_run_a_periodic_task_once_per_period(self, harness: Harness, build: Builder) -> None:
        build("web")
        hour = timedelta(hours=1)
        assert sorted(map(bool, at_once(*[lambda: full_resync(harness.jobs, hour)] * 3))) == [False, False, True]
        assert sorted(map(bool, at_once(*[lambda: purge_expired(harness.jobs)] * 3))) == [False, False, True]
        harness.pass_time(minutes=59)
        assert full_resync(harness.jobs, hour) is False
        harness.pass_time(minutes=2)
        assert sorted(map(bool, at_once(*[lambda: full_resync(harness.jobs, hour)] * 3))) == [False, False, True]

    def test_full_resync_does_not_deadlock_with_a_worker_pausing_branches(
        self, harness: Harness, build: Builder
    ) -> None:
        """Whether the resync waits for the installation's row or not, the worker then locks its branches as well."""
        build("web")
        blocked = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            pause_installation(uow, harness.installed.id, uow.now)
            resync = Task(lambda: full_resync(harness.jobs, timedelta(hours=1)))
            eventually(lambda: resync.done() or harness.sql(blocked) != [(0,)])
            uow.session.execute(text("SELECT FROM watched_branches FOR NO KEY UPDATE"))
        assert resync.result() is True

    def test_concurrent_sweeps_write_the_right_verdicts(
        self, harness: Harness, build: Builder, sweeper: SweeperOf
    ) -> None:
        build("api", "web")
        work(harness)
        harness.freeze()
        both = [sweeper(workers_available=False, full_pass_every=timedelta(0)).sweep for _ in range(2)]
        at_once(*both)
        sweeper(workers_available=False).sweep()
        assert set(harness.conclusions().values()) == {"failure"}


class TestWithoutRedis:
    def test_sweeper_does_the_work_without_workers(self, harness: Harness, build: Builder, sweeper: SweeperOf) -> None:
        build("web")
        work(harness)
        webhook_queue = WebhookQueue(harness)
        harness.freeze()
        harness.person("PATCH", "/repos/acme/web", {"name": "site"})
        webhook_queue.receive(webhook_queue.take())
        harness.woken.clear()
        for _ in range(2):
            sweeper(workers_available=False).sweep()
        assert set(harness.conclusions().values()) == {"failure"}
        assert harness.sql("SELECT name FROM repositories") == [("site",)]
        assert jobs_with_work(harness.jobs) == []

    def test_request_succeeds_without_redis(self, harness: Harness, build: Builder) -> None:
        build("web")
        deaf = UnitOfWorkFactory(
            harness.uow_factory.engine, harness.uow_factory.clock, RedisWakeups("redis://127.0.0.1:1/0")
        )
        with deaf.open(Caller(harness.organization.id, ADA, "dashboard", BUSINESS)) as uow:
            uow.wake("reconcile")
        assert jobs_with_work(harness.jobs) == ["reconcile"]

    def test_lost_redis_data_is_recovered_by_the_sweep(
        self, harness: Harness, build: Builder, sweeper: SweeperOf, redis_url: str
    ) -> None:
        build("web")
        work(harness)
        with connect(redis_url) as client:
            client.flushdb()
            loud = UnitOfWorkFactory(
                harness.uow_factory.engine,
                harness.uow_factory.clock,
                RedisWakeups(redis_url),
                harness.uow_factory.ports,
            )
            harness.uow_factory = loud
            harness.freeze()
            assert client.llen("rq:queue:wakeups") == 1
            client.flushdb()
        assert wakeups_of_a_sweep(harness, sweeper) == ["reconcile"]

    def test_wakeup_is_sent_once_until_the_job_begins(self, redis: redis.Redis, redis_url: str) -> None:
        wakeups = RedisWakeups(redis_url)
        for _ in range(3):
            wakeups.send({"reconcile", "sync"})
        assert redis.llen("rq:queue:wakeups") == 2
        wakeups.started("reconcile")
        wakeups.send({"reconcile", "sync"})
        assert redis.llen("rq:queue:wakeups") == 3
        wakeups._redis.close()

    def test_what_a_freeze_waits_for_is_woken_first(self, redis: redis.Redis, redis_url: str) -> None:
        wakeups = RedisWakeups(redis_url)
        wakeups.send({"frozen_branches", "bypasses", "reconcile"})
        wakeups.send({"stops"})
        jobs = [job.args[0] for job in Queue(QUEUE, connection=redis, serializer=JSONSerializer).jobs]
        assert jobs == ["stops", "reconcile", "bypasses", "frozen_branches"]
        wakeups._redis.close()


class TestTidying:
    def test_purge_removes_expired_rows(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        work(harness)
        harness.session.connection().exec_driver_sql(
            "INSERT INTO webhook_deliveries (delivery_id, event, payload, received_at, attempts) VALUES "
            "('old', 'push', '{}', now() - interval '31 days', 0), ('new', 'push', '{}', now(), 0)"
        )
        harness.session.connection().exec_driver_sql(
            "INSERT INTO idempotency_keys (organization_id, principal_id, key_hash, request_hash, status, headers, "
            "body, secret, created_at) VALUES "
            "('o', 'p', '1', '', 200, '{}', 'x', false, now() - interval '25 hours'), "
            "('o', 'p', '2', '', 200, '{}', 'x', true, now() - interval '2 hours'), "
            "('o', 'p', '3', '', 200, '{}', 'x', false, now() - interval '2 hours')"
        )
        harness.session.connection().exec_driver_sql(
            "INSERT INTO device_authorizations "
            "(device_code_hash, user_code, client_id, address, created_at, expires_at, interval_seconds) VALUES "
            "('a', 'old', 'c', 'a', now(), now() - interval '25 hours', 5), "
            "('b', 'new', 'c', 'a', now(), now() - interval '23 hours', 5)"
        )
        harness.session.commit()
        assert purge_expired(harness.jobs) is True
        assert harness.sql("SELECT user_code FROM device_authorizations") == [("new",)]
        assert harness.sql("SELECT delivery_id FROM webhook_deliveries") == [("new",)]
        assert harness.sql("SELECT convert_from(key_hash, 'UTF8'), body IS NULL FROM idempotency_keys ORDER BY 1") == [
            ("2", True),
            ("3", False),
        ]
        assert harness.sql("SELECT count(*) FROM head_checks") == [(1,)]


def test_failed_periodic_task_does_not_stop_the_others(harness: Harness, build: Builder, sweeper: SweeperOf) -> None:
    build("web")
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        ends_at = uow.now + timedelta(hours=1)
    harness.freeze(ends_at=ends_at)
    harness.pass_time(hours=2)
    harness.sql("REVOKE UPDATE ON freezes FROM change_freeze_worker")
    try:
        sweeper().sweep()
    finally:
        harness.sql("GRANT UPDATE ON freezes TO change_freeze_worker")
    assert harness.sql("SELECT ended_at FROM freezes") == [(None,)]
    assert "reconcile" in harness.woken
