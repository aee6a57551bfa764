"""What metrics show of the database: counts, ages by the database's clock, and no more labels than promised."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from app.metrics import readings
from app.metrics.families import MAX_INSTALLATIONS
from app.metrics.readings import reads_of
from integrations.mail.smtp import MailServer
from integrations.slack import Slack
from integrations.stripe import Stripe
from jobs.registry import JOBS, queues_of
from models.audit import AuditSeal
from models.enforcement import FrozenBranchRuleset
from models.github_api_usage import GitHubApiUsage
from models.identity import Mail
from models.installations import Installation
from models.leases import LeaseHolder
from models.notifications import NotificationDestination
from models.organizations import Organization
from models.requests import PeriodicTask, WebhookDelivery
from models.webhook_log import WebhookLog
from rules.freezes.blocking import CAUSES
from rules.ids import new_id
from rules.rate_budget import GitHubLimits
from services.core.clock import DatabaseClock
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.restores.restores import confirm_restore, declare_restored, record_shown
from tests import factories
from tests.factories.adding import added
from tests.harness.engines import engine_of
from tests.harness.sessions import owner_session
from tests.harness.wakeups import RecordedWakeups

CONFIGURED = Ports(*(object.__new__(kind) for kind in (MailServer, Stripe, Slack)))
"""Everything is configured; nothing is called."""


@pytest.fixture
def jobs(database: str) -> UnitOfWorkFactory:
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), DatabaseClock(), RecordedWakeups(), CONFIGURED)


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with owner_session(database) as session:
        yield session


@pytest.fixture
def now(session: Session) -> datetime:
    return session.scalar(text("SELECT clock_timestamp()")) or factories.now()


class Values:
    """What was read: the number of a metric, and the age of what it is about, to within a minute."""

    def __init__(self, jobs: UnitOfWorkFactory, name: str) -> None:
        with jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            found = list(reads_of(queues_of(jobs.ports))[name](uow))
        assert all(len(reading.labels) == len(reading.family.labels) for reading in found)
        self._values = {(reading.family.name, *reading.labels): float(reading.value) for reading in found}
        assert len(self._values) == len(found), "two values of one metric"

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        return self._values[(key,) if isinstance(key, str) else key]

    def minutes(self, *key: str) -> float:
        return self._values[key] // 60

    def labels(self, name: str) -> list[tuple[str, ...]]:
        return sorted(key[1:] for key in self._values if key[0] == name)


def minutes(count: float) -> timedelta:
    """Return so many minutes and some seconds, so that the seconds of a test do not matter."""
    return timedelta(minutes=count, seconds=20)


def test_every_read_of_an_empty_database_gives_zeros(jobs: UnitOfWorkFactory) -> None:
    for name in reads_of(()):
        if name != "processes":
            values = Values(jobs, name)._values
            assert set(values.values()) == {0.0}, values


def test_queues_are_those_of_all_jobs(jobs: UnitOfWorkFactory) -> None:
    queues = Values(jobs, "queues").labels("queue_due")
    assert queues == sorted((name,) for name in JOBS)
    assert {queue.kind for queue in queues_of(CONFIGURED)} == {name for (name,) in queues} - {"notifications"}
    unconfigured = {queue.kind for queue in queues_of(Ports())}
    assert set(JOBS) - unconfigured == {"billing", "mail", "notifications", "prices", "slack", "slack_tokens"}


def test_queue_counts_due_work_retries_and_leases(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    endpoint = factories.webhook(session, acme)
    factories.webhook_message(session, endpoint, due_at=now - minutes(5))
    factories.webhook_message(session, endpoint, due_at=now - minutes(9), lease_token="t", lease_until=now + minutes(1))
    factories.webhook_message(session, endpoint, due_at=now + minutes(5), attempts=2)
    factories.webhook_message(session, endpoint, due_at=None, attempts=5)
    for number, age in enumerate((3, 7)):
        delivery(session, str(number), due_at=now - minutes(age))
    session.commit()
    values = Values(jobs, "queues")
    assert [values[name, "outgoing_webhooks"] for name in ("queue_due", "queue_retrying", "queue_leases")] == [1, 1, 1]
    assert values.minutes("queue_oldest_due_seconds", "outgoing_webhooks") == 5
    assert (values["queue_due", "webhooks"], values.minutes("queue_oldest_due_seconds", "webhooks")) == (2, 7)
    assert (values["queue_due", "mail"], values["queue_oldest_due_seconds", "mail"]) == (0, 0)


def test_oldest_due_branch_waits_for_whatever_it_is(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    covered = factories.repository(session, acme)
    installation = session.get_one(Installation, covered.installation_id)
    factories.branch(session, covered, "written", wanted_generation=5, written_generation=5, due_at=now - minutes(90))
    branch = factories.branch(session, covered, outdated_since=now - minutes(9), due_at=now + minutes(30))
    waits = factories.check(session, branch)

    def oldest() -> float:
        session.commit()
        return Values(jobs, "enforcement").minutes("oldest_due_branch_seconds")

    assert oldest() == 9
    waits.lease_token, waits.lease_until = "t", now + minutes(1)
    installation.paused_until = now + minutes(40)
    waits.last_error_code = "github_rate_limited"
    assert oldest() == 9
    waits.outdated_since = None
    assert oldest() == 0


def test_oldest_due_branch_leaves_out_what_only_its_people_can_mend(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    covered = factories.repository(session, acme)
    factories.branch(session, covered, outdated_since=now - minutes(4))
    refused = {"outdated_since": now - minutes(30), "last_error_code": "github_permission_denied"}
    factories.branch(session, covered, "refused", **refused)
    for age, columns in ((40, {"state": "suspended"}), (50, {"state": "removed"})):
        owner = factories.organization(session, f"Owner {age}")
        factories.installation(session, owner, f"owner-{age}", **columns)
        uncalled = factories.repository(session, owner, f"owner-{age}/web")
        factories.branch(session, uncalled, outdated_since=now - minutes(age))
    gone = factories.repository(session, acme, "acme/gone", removed_at=now)
    factories.branch(session, gone, outdated_since=now - minutes(60))
    session.commit()
    assert Values(jobs, "enforcement").minutes("oldest_due_branch_seconds") == 4


def test_frozen_branches_are_counted_once_by_whether_they_are_blocked(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "MAX_COUNTED", 2)  # they are counted by several statements
    covered = factories.repository(session, acme)
    names = ("blocked", "partly", "success", "no-rule", "not-read", "free")
    by_name = {name: factories.branch(session, covered, name) for name in names}
    rows = {name: factories.branch_enforcement(session, by_name[name]) for name in names if name != "not-read"}
    rows["partly"].open_ways, rows["no-rule"].decisive_check = ["deletion"], None
    factories.head_check(session, by_name["success"], "a" * 40, "success")
    frozen = [by_name[name] for name in names if name != "free"]
    factories.freeze(session, acme, frozen)
    factories.freeze(session, acme, frozen[:2])
    over = factories.freeze(session, acme, [by_name["free"]])
    over.ended_at = factories.now()
    session.commit()
    values = Values(jobs, "frozen_branches")
    assert {key[1:]: count for key, count in values._values.items() if count} == {
        ("blocked", "none"): 1,
        ("partly", "none"): 1,
        ("not_blocked", "writing"): 1,
        ("not_blocked", "no_rule"): 1,
        ("unknown", "not_read"): 1,
    }
    assert len(values.labels("frozen_branches")) == 2 + len(CAUSES)


def test_freezes_that_are_not_enforced_are_counted_by_cause(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    covered = factories.repository(session, acme)
    blocked, success, no_rule = (factories.branch(session, covered, name) for name in ("blocked", "success", "no-rule"))
    rows = [factories.branch_enforcement(session, branch) for branch in (blocked, success, no_rule)]
    rows[2].decisive_check = None
    factories.head_check(session, success, "a" * 40, "success")
    factories.freeze(session, acme, [blocked, success, no_rule], started_at=now - minutes(2))
    factories.freeze(session, acme, [no_rule], started_at=now - minutes(7))
    factories.freeze(session, acme, [no_rule], started_at=now - minutes(9), enforced_at=now)
    factories.freeze(session, acme, [no_rule], started_at=now - minutes(9), ended_at=now)
    session.commit()
    values = Values(jobs, "unenforced_freezes")
    counted = {cause: values["freezes_unenforced_by_cause", cause] for cause in CAUSES}
    assert {cause: number for cause, number in counted.items() if number} == {"writing": 1, "no_rule": 2}
    oldest = {cause: values.minutes("oldest_unenforced_freeze_by_cause_seconds", cause) for cause in CAUSES}
    assert {cause: age for cause, age in oldest.items() if age} == {"writing": 2, "no_rule": 7}


def test_freezes_are_counted_by_what_is_missing(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    hour = timedelta(hours=1)
    factories.freeze(session, acme, started_at=now - hour, enforced_at=now)
    factories.freeze(session, acme, started_at=now - minutes(8))
    factories.freeze(session, acme, started_at=now - minutes(2), failing_since=now)
    factories.freeze(session, acme, started_at=now - hour, ended_at=now - minutes(6), enforced_at=now)
    factories.freeze(session, acme, started_at=now - hour, ended_at=now - hour, enforced_at=now, released_at=now)
    session.commit()
    values = Values(jobs, "enforcement")
    assert (values["freezes_in_force"], values["freezes_unenforced"], values["freezes_failing"]) == (3, 2, 1)
    assert values.minutes("oldest_unenforced_freeze_seconds") == 8
    assert values.minutes("oldest_unreleased_freeze_seconds") == 6


def test_stops_are_counted_and_those_that_nothing_needs_have_an_age(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    needed, ended, without = (factories.repository(session, acme) for _ in range(3))
    branch = factories.branch(session, needed)
    factories.branch_enforcement(session, branch)
    success = factories.head_check(session, branch, "a" * 40, "success")
    freeze = factories.freeze(session, acme, started_at=now - minutes(20))
    target = factories.target(session, freeze, branch)
    over = factories.branch(session, ended)
    factories.freeze(session, acme, [over], started_at=now - minutes(20), ended_at=now - minutes(3))
    for row in (needed, ended, without):
        stop = None if row is without else "change-freeze/stop:1"
        written = None if row is without else now - minutes(15)
        add = FrozenBranchRuleset(repository_id=row.id, organization_id=acme.id, stop_context=stop, branch_names=[])
        add.stop_written_at = written
        session.add(add)

    def counted() -> tuple[float, float]:
        session.commit()
        values = Values(jobs, "stops")
        return values["stops"], values.minutes("oldest_unneeded_stop_seconds")

    assert counted() == (2, 3)
    success.conclusion = "failure"
    assert counted() == (2, 3)
    target.applied_at = now - minutes(7)
    assert counted() == (2, 7)


def test_restored_database_is_reported_until_an_operator_confirms(jobs: UnitOfWorkFactory, database: str) -> None:
    with jobs.open(SYSTEM_CALLER) as uow:
        declare_restored(uow)
        record_shown(uow)
    assert Values(jobs, "restores")["restore_unconfirmed"] == 1
    confirm_restore(jobs, by="grace@example.com")
    assert Values(jobs, "restores")["restore_unconfirmed"] == 0


def test_unsealed_audit_entries_are_counted(jobs: UnitOfWorkFactory, session: Session, acme: Organization) -> None:
    for age in ("3 minutes 20 seconds", "1 minute"):
        session.execute(
            text(
                "INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details) VALUES "
                f"('{new_id('aud')}', '{acme.id}', clock_timestamp() - interval '{age}', 'freeze.started', '{{}}', "
                "'system', '{}', '{}')"
            )
        )
    session.commit()
    values = Values(jobs, "audit")
    assert values["audit_unsealed_entries"] == 2
    assert values.minutes("audit_oldest_unsealed_seconds") == 3


def delivery(session: Session, name: str, **columns: Any) -> None:
    given = {"received_at": columns.get("due_at"), **columns}
    added(session, WebhookDelivery(delivery_id=name, event="push", payload={}, **given))


def test_webhook_lag_is_that_of_recent_and_waiting_deliveries(
    jobs: UnitOfWorkFactory, session: Session, now: datetime
) -> None:
    delivery(session, "long ago", received_at=now - minutes(60), processed_at=now)
    delivery(session, "recent", received_at=now - minutes(2), processed_at=now - minutes(1))
    session.commit()
    assert Values(jobs, "webhooks").minutes("webhook_lag_seconds") == 1
    delivery(session, "waits", received_at=now - minutes(12), due_at=now + minutes(1), attempts=3)
    session.commit()
    assert Values(jobs, "webhooks").minutes("webhook_lag_seconds") == 12


def test_webhook_log_age_is_the_time_since_the_last_reading(
    jobs: UnitOfWorkFactory, session: Session, now: datetime
) -> None:
    added(session, WebhookLog(id=1, since=now - minutes(90), read_at=now - minutes(7), attempts=0))
    session.commit()
    assert Values(jobs, "webhooks").minutes("webhook_log_age_seconds") == 7


def test_mail_and_notification_lag_are_the_age_of_what_waits(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, now: datetime
) -> None:
    mail = {"template": "verify_email", "encrypted_values": b"", "recipient": "ada@example.com"}
    for age, due_at in ((15, now + minutes(1)), (60, None)):
        added(session, Mail(id=new_id("mai"), created_at=now - minutes(age), due_at=due_at, **mail))
    for channel, due_at in (("mail", now), ("webhook", now), ("slack", None)):
        row = {"id": channel, "organization_id": acme.id, "sequence": 1, "due_at": due_at}
        added(session, NotificationDestination(channel=channel, attempts=0, remind_before=[], **row))
    constant = {"organization_id": acme.id, "hash": b"", "previous_hash": b"", "late": False, "source": "system"}
    for number, age, action in ((1, 90, "freeze.started"), (2, 30, "session.created"), (3, 10, "freeze.started")):
        sealed = {"sequence": number, "entry_id": f"aud_{number}", "sealed_at": now - minutes(age), "action": action}
        added(session, AuditSeal(**constant, **sealed))
    session.commit()
    values = Values(jobs, "notifications")
    assert values.minutes("mail_oldest_unsent_seconds") == 15
    lags = [values.minutes("notification_lag_seconds", channel) for channel in ("mail", "webhook", "slack")]
    assert lags == [10, 30, 0]
    unconfigured = UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, Ports())
    assert Values(unconfigured, "notifications")["mail_oldest_unsent_seconds"] == 0


def uses(session: Session, installation_id: int, *calls: tuple[datetime, int, int]) -> None:
    for at, points, content in calls:
        row = GitHubApiUsage(installation_id=installation_id, at=at, points=points, content=content)
        session.add(row)
    session.flush()


@pytest.mark.parametrize(
    ("content", "learnt", "left"),
    [("learn", False, None), ("learn", True, 0.5), ("aliases", False, 0.5), ("off", True, None)],
)
def test_budget_left_of_content_is_shown_where_it_is_counted(
    jobs: UnitOfWorkFactory, session: Session, now: datetime, content: Any, learnt: bool, left: float | None
) -> None:
    learned: dict[str, Any] = {"content_counting": "aliases", "content_learnt_at": now} if learnt else {}
    installation = factories.installation(session, None, **learned)
    uses(session, installation.id, (now, 90, 0), (now - minutes(30), 5, 50), (now - minutes(90), 5, 500))
    session.commit()
    limits = GitHubLimits(content, content_per_hour=100, points_per_minute=120)
    limited = UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, CONFIGURED.having(limits))
    values, name = Values(limited, "github"), str(installation.id)
    assert values["github_budget_left_ratio", name, "points"] == 0.25
    budgets = values.labels("github_budget_left_ratio")
    assert budgets == sorted([(name, "points"), *([] if left is None else [(name, "content")])])
    if left is not None:
        assert values["github_budget_left_ratio", name, "content"] == left


def test_only_so_many_installations_are_named(jobs: UnitOfWorkFactory, session: Session, now: datetime) -> None:
    busiest = []
    for number in range(MAX_INSTALLATIONS + 3):
        pause = now + timedelta(minutes=number + 1)
        installation = factories.installation(session, None, f"owner{number}", paused_until=pause)
        uses(session, installation.id, (now, number + 1, 0))
        busiest.append(str(installation.id))
    factories.installation(session, None, "gone", state="removed", paused_until=now + minutes(99))
    session.commit()
    values = Values(jobs, "github")
    named = [(name,) for name in sorted(busiest[3:])]
    assert values.labels("github_pause_left_seconds") == named
    assert values.labels("github_budget_left_ratio") == [(name, "points") for (name,) in named]
    assert values["github_paused_installations"] == MAX_INSTALLATIONS + 3
    assert (values["installations", "active"], values["installations", "removed"]) == (MAX_INSTALLATIONS + 3, 1)


def test_processes_are_those_with_a_recent_heartbeat(jobs: UnitOfWorkFactory, session: Session, now: datetime) -> None:
    session.execute(text("DELETE FROM lease_holders"))
    for kind, age, ended in (("worker", 0, None), ("worker", 0, None), ("worker", 1, None), ("sweeper", 0, now)):
        session.add(LeaseHolder(kind=kind, beat_at=now - timedelta(minutes=age), stopped_at=ended))
    session.commit()
    values = Values(jobs, "processes")
    assert values["processes", "worker"] == 2


def test_last_sweep_is_that_of_the_task_done_longest_ago(
    jobs: UnitOfWorkFactory, session: Session, now: datetime
) -> None:
    session.execute(text("DELETE FROM periodic_tasks"))
    session.commit()
    assert Values(jobs, "processes")["sweeper_last_sweep_timestamp_seconds"] == 0
    for name, age, due in (("windows", 1, now), ("seals", 9, now), ("full_resync", 99, None)):
        session.add(PeriodicTask(name=name, done_at=now - timedelta(seconds=age), due_at=due))
    session.commit()
    assert Values(jobs, "processes")["sweeper_last_sweep_timestamp_seconds"] == now.timestamp() - 9
