"""GitHub's log of webhooks: what did not arrive is taken from it, as if it had arrived then.

GitHub sends a webhook once, and it may be that nobody takes it: no API process runs, PostgreSQL does not answer, or a
proxy in between fails. So the log is read every 15 seconds, and when an API process starts. What it cannot tell,
because it was cut off or has too much, is read from GitHub itself, by one full resync.
"""

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select, text, update

from integrations.github import ErrorKind, GitHub, GitHubError
from models.webhook_log import WebhookLog
from rules.webhook_log import (
    MAX_FAILURE_PAGES,
    MAX_PAGES,
    MAX_PAYLOADS,
    READ_INTERVAL,
    SOON,
    LogEntry,
    Mark,
    is_out_of_date,
    is_relevant,
    missing,
    was_cut_off,
)
from services.core.unit_of_work import GITHUB_CALLER, SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import REQUEST, Lease, RetryPolicy, WorkQueue
from services.github_access.backoff import backoff
from services.github_access.failures import DEFAULT_PAUSE, RATE_LIMITS
from services.maintenance.resync import full_resync
from services.webhooks import deliveries

logger = logging.getLogger(__name__)

MIN_RESYNC_INTERVAL = timedelta(minutes=1)
"""The log requests no full resync so soon after another one: it waits."""
LOG = WorkQueue(
    "webhook_log",
    WebhookLog,
    select(
        WebhookLog.id, WebhookLog.since, WebhookLog.read_at, WebhookLog.last_id, WebhookLog.last_at, WebhookLog.attempts
    ),
    retry=RetryPolicy(longest=READ_INTERVAL),
)
_REQUEST = text(
    f"UPDATE webhook_log w SET attempts = 0, due_at = {REQUEST.format(row='w')} RETURNING true"  # noqa: S608 - constants
)


def request_reading(uow: UnitOfWork) -> None:
    """Have the log read now: webhooks may have been sent while no API process answered."""
    if uow.session.scalar(_REQUEST, {"now": uow.now}):
        uow.wake(LOG.kind)


def read_log(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Read the log if that is due, and take from it what has not arrived; False if it is not due."""

    def read_or_fail(lease: Lease) -> None:
        try:
            _Reading(uow_factory, github, lease).run()
        except GitHubError as error:
            logger.warning("the log of webhooks could not be read: %s", error)
            with uow_factory.open(SYSTEM_CALLER) as uow:
                lease.fail(uow, error.code, error.message, uow.now + _delay(error, lease.row.attempts))

    return LOG.work_on_next(uow_factory, read_or_fail)


def _delay(error: GitHubError, attempts: int) -> timedelta:
    """Return how long to wait after a failure: what GitHub asks for, else not much longer than without one."""
    if error.kind in RATE_LIMITS and error.retry_after is None:
        return timedelta(seconds=DEFAULT_PAUSE)
    if error.kind is ErrorKind.UNAVAILABLE and error.retry_after is None:
        return LOG.retry.delay(attempts)
    return backoff(error, attempts)


@dataclass(slots=True)
class _Reading:
    """One reading of the log, under its lease."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    lease: Lease
    taken: int = 0
    unreadable: list[LogEntry] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        """When the reading began: what is delivered later is left to the next one."""
        return self.lease.acquired_at

    def run(self) -> None:
        """Read what was delivered since the last reading, take what is missing, and record how far the log was read."""
        row = self.lease.row
        mark = Mark(row.since, row.read_at, row.last_id, row.last_at)
        if is_out_of_date(mark, self.now):
            entries, _ = self._pages(mark.since, 1)
            gap = "it was last read longer ago than GitHub keeps it"
        else:
            entries, whole = self._pages(mark.since, MAX_PAGES)
            gap = (
                "GitHub has cut it off" if whole and was_cut_off(mark, {each.id for each in entries}, self.now) else ""
            )
            failures: list[LogEntry] = []
            if not whole:
                failures, whole = self._pages(mark.since, MAX_FAILURE_PAGES, failures=True)
            all_taken = self._take({each.id: each for each in entries + failures if each.delivered_at >= mark.since})
            gap = gap or ("" if whole and all_taken else "it has too much that did not arrive")
        self._record(mark, entries[0] if entries else None, gap)

    def _pages(self, since: datetime, most: int, *, failures: bool = False) -> tuple[list[LogEntry], bool]:
        """Return the entries of so many pages at most, newest first, and whether they reach back so far."""
        found: list[LogEntry] = []
        cursor = None
        for number in range(most):
            if number > 0 and self._is_budget_short():
                break
            with self.uow_factory.open(SYSTEM_CALLER) as uow:
                self.lease.require(uow)
            page = self.github.webhook_log.page(cursor, failures=failures)
            found += page.entries
            cursor = page.next_cursor
            if cursor is None or (found and found[-1].delivered_at < since):
                return found, True
        return found, False

    def _take(self, entries: dict[int, LogEntry]) -> bool:
        """Take what has not arrived; False if something is left."""
        relevant = {entry.guid for entry in entries.values() if is_relevant(entry)}
        if not relevant:
            return True
        with self.uow_factory.open(GITHUB_CALLER) as uow:
            lost = missing(entries.values(), deliveries.arrived(uow, relevant))
            if lost.checks:
                deliveries.read_checks_back(uow, lost.checks)
        self.taken += len(lost.checks)
        for number, entry in enumerate(lost.requests):
            if number == MAX_PAYLOADS or self._is_budget_short():
                return False
            self._take_one(entry)
        return not self.unreadable

    def _is_budget_short(self) -> bool:
        """True if half of the App's hourly budget is used up: the other half is for the tokens of installations."""
        allowance = self.github.webhook_log.allowance
        return allowance.limit is not None and (allowance.remaining or 0) * 2 < allowance.limit

    def _take_one(self, entry: LogEntry) -> None:
        try:
            payload = self.github.webhook_log.payload(entry.id)
        except GitHubError as error:
            if error.kind is not ErrorKind.NOT_FOUND and error.status != 200:
                raise
            payload = None
        if payload is None:
            self.unreadable.append(entry)
            return
        with self.uow_factory.open(GITHUB_CALLER) as uow:
            self.lease.require(uow)
            self.taken += deliveries.take(uow, entry, payload)

    def _record(self, mark: Mark, newest: LogEntry | None, gap: str) -> None:
        """Record how far the log was read; where it has a gap only once a full resync is requested."""
        filled = not gap or full_resync(self.uow_factory, MIN_RESYNC_INTERVAL)
        if gap and filled:
            logger.warning("the log of webhooks has a gap, everything is read from GitHub: %s", gap)
        if self.taken:
            logger.info("%s webhooks that did not arrive were taken from GitHub's log", self.taken)
        with self.uow_factory.open(GITHUB_CALLER) as uow:
            self.lease.require(uow)
            if filled:
                after = mark.advanced(newest, self.now, all_read=bool(gap))
                uow.session.execute(update(WebhookLog).values(_columns(after)))
                for entry in self.unreadable:
                    deliveries.take(uow, entry, None)
            again = (self.taken or not filled) and not self._is_budget_short()
            self.lease.release(uow, due_at=uow.now + (SOON if again else READ_INTERVAL))


def _columns(mark: Mark) -> dict[str, object]:
    return {"since": mark.since, "read_at": mark.read_at, "last_id": mark.last_id, "last_at": mark.last_at}
