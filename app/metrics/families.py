"""The families of metrics: names, labels and meanings, each in one place.

Names follow the conventions of Prometheus: base units, `_total` for counters, one prefix. Every label has few values:
operations, statuses, queues and jobs are those of the code, and at most `MAX_INSTALLATIONS` installations are named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram

Process = Literal["api", "worker"]
MultiprocessMode = Literal["livesum", "livemax"]
ALL: tuple[Process, ...] = ("api", "worker")
WORKERS: tuple[Process, ...] = ("worker",)
MAX_INSTALLATIONS = 20
"""Installations that a metric names at most."""
MAX_COUNTED = 10_000
"""Rows that are counted at most, so that counting stays cheap; no alert needs more."""
NO_CAUSE = "none"
"""The cause of what is blocked, in labels."""
PREFIX = "change_freeze_"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric; its name is without the prefix, and that of a counter ends with `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    processes: tuple[Process, ...]
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with the prefix."""
        return PREFIX + self.name

    @property
    def unit(self) -> str:
        """The unit of a value, which the name ends with."""
        name = self.name.removesuffix("_total")
        return next((unit for unit in ("seconds", "ratio") if name.endswith(f"_{unit}")), "")

    def counter(self) -> Counter:
        """Return a new counter of this process."""
        return Counter(self.full_name, self.meaning, self.labels)

    def gauge(self, mode: MultiprocessMode = "livesum") -> Gauge:
        """Return a new gauge of this process; `mode` says how those of several API processes are combined."""
        return Gauge(self.full_name, self.meaning, self.labels, multiprocess_mode=mode)

    def histogram(self, buckets: Sequence[float]) -> Histogram:
        """Return a new histogram of this process."""
        return Histogram(self.full_name, self.meaning, self.labels, buckets=tuple(buckets))


BUILD_INFO = Family("build_info", "gauge", "1, for the release that runs", ALL, ("version", "python"))

HTTP_REQUESTS = Family("http_requests_total", "counter", "Requests answered", ("api",), ("operation", "status"))
HTTP_DURATION = Family(
    "http_request_duration_seconds",
    "histogram",
    "Time from a request to the end of its answer",
    ("api",),
    ("operation",),
)
REQUEST_THREADS = Family(
    "request_threads", "gauge", "Threads that run operations, of all API processes", ("api",), ("pool",)
)
REQUEST_THREADS_BUSY = Family(
    "request_threads_busy", "gauge", "Threads that run an operation now, sampled each second", ("api",), ("pool",)
)
REQUEST_THREAD_WAITS = Family(
    "request_thread_waits_total", "counter", "Requests that waited for a thread", ("api",), ("pool",)
)
REQUEST_THREAD_REFUSALS = Family(
    "request_thread_refusals_total", "counter", "Requests that got no thread in time, and 503", ("api",), ("pool",)
)
EVENT_LOOP_LAG = Family(
    "event_loop_lag_seconds", "gauge", "How late the slowest event loop runs what is due, in the last second", ("api",)
)

POOL_CONNECTIONS = Family(
    "database_pool_connections",
    "gauge",
    "Database connections that may be open",
    ALL,
    ("pool",),
)
POOL_IN_USE = Family(
    "database_pool_connections_in_use",
    "gauge",
    "Database connections in use, when sampled",
    ALL,
    ("pool",),
)
POOL_WAITS = Family(
    "database_pool_waits_total",
    "counter",
    "How often all connections of a pool were in use when one was needed",
    ALL,
    ("pool",),
)
POOL_TIMEOUTS = Family(
    "database_pool_timeouts_total", "counter", "How often no connection of a pool became free in time", ALL, ("pool",)
)

QUEUE_ACQUIRED = Family("queue_acquired_total", "counter", "Rows of work that were leased", WORKERS, ("queue",))
QUEUE_TAKEN_OVER = Family(
    "queue_taken_over_total",
    "counter",
    "Rows of work that were leased after a lease that had ended without a result",
    WORKERS,
    ("queue",),
)
QUEUE_DONE = Family("queue_done_total", "counter", "Rows of work that was done", WORKERS, ("queue",))
QUEUE_POSTPONED = Family(
    "queue_postponed_total", "counter", "Rows of work that were given back without a failure", WORKERS, ("queue",)
)
QUEUE_FAILURES = Family("queue_failures_total", "counter", "Rows of work that failed", WORKERS, ("queue", "code"))
QUEUE_LEASES_LOST = Family(
    "queue_leases_lost_total", "counter", "Rows of work whose lease had ended before the work had", WORKERS, ("queue",)
)
STEP_DURATION = Family(
    "queue_step_duration_seconds", "histogram", "Time of one step of the job of a queue", WORKERS, ("queue",)
)
STEP_ERRORS = Family(
    "queue_step_errors_total", "counter", "Steps of the job of a queue that ended with an error", WORKERS, ("queue",)
)
TASK_ERRORS = Family("sweeper_task_errors_total", "counter", "Tasks of the sweep that failed", WORKERS)

LAST_SWEEP = Family(
    "sweeper_last_sweep_timestamp_seconds",
    "gauge",
    "When the sweep was last done, by any process: the task that was done longest ago (Unix time)",
    WORKERS,
)
FREEZES_IN_FORCE = Family("freezes_in_force", "gauge", "Freezes in force", WORKERS)
FREEZES_UNENFORCED = Family(
    "freezes_unenforced", "gauge", "Freezes in force that are not enforced on all of their branches", WORKERS
)
UNENFORCED_BY_CAUSE = Family(
    "freezes_unenforced_by_cause",
    "gauge",
    "The same by why GitHub does not refuse changes of a branch; a freeze counts once for each cause",
    WORKERS,
    ("cause",),
)
FREEZES_FAILING = Family("freezes_failing", "gauge", "Freezes that GitHub refuses on some branch", WORKERS)
OLDEST_UNENFORCED = Family(
    "oldest_unenforced_freeze_seconds",
    "gauge",
    "Time since the start of the oldest freeze that is not enforced on all of its branches",
    WORKERS,
)
OLDEST_UNENFORCED_BY_CAUSE = Family(
    "oldest_unenforced_freeze_by_cause_seconds",
    "gauge",
    "Time since the start of the oldest of them",
    WORKERS,
    ("cause",),
)
STOPS = Family(
    "stops", "gauge", "Repositories in which a stop may refuse every merge until checks are written", WORKERS
)
OLDEST_UNNEEDED_STOP = Family(
    "oldest_unneeded_stop_seconds",
    "gauge",
    "For how long a stop has been on, at least, that no freeze needs any more",
    WORKERS,
)
OLDEST_UNRELEASED = Family(
    "oldest_unreleased_freeze_seconds",
    "gauge",
    "Time since the end of the oldest freeze that may still block a branch",
    WORKERS,
)
OLDEST_DUE_BRANCH = Family(
    "oldest_due_branch_seconds",
    "gauge",
    "For how long a branch has waited for its checks to be changed, also while GitHub limits its installation",
    WORKERS,
)
FROZEN_BRANCHES = Family(
    "frozen_branches",
    "gauge",
    f"Frozen branches, by whether GitHub refuses changes of them, and why not; `{NO_CAUSE}` if it does",
    WORKERS,
    ("state", "cause"),
)
RESTORE_UNCONFIRMED = Family(
    "restore_unconfirmed",
    "gauge",
    "1 while the database counts as restored from a backup, so that nothing is released; else 0",
    WORKERS,
)
QUEUE_DUE = Family(
    "queue_due",
    "gauge",
    f"Rows of work that are due and not leased, counted up to {MAX_COUNTED:,}",
    WORKERS,
    ("queue",),
)
QUEUE_OLDEST_DUE = Family(
    "queue_oldest_due_seconds",
    "gauge",
    "For how long a row of work has been due that is not leased",
    WORKERS,
    ("queue",),
)
QUEUE_RETRYING = Family(
    "queue_retrying",
    "gauge",
    f"Rows of work to be tried again after a failure, counted up to {MAX_COUNTED:,}",
    WORKERS,
    ("queue",),
)
QUEUE_LEASES = Family("queue_leases", "gauge", f"Leases held, counted up to {MAX_COUNTED:,}", WORKERS, ("queue",))
AUDIT_UNSEALED = Family(
    "audit_unsealed_entries",
    "gauge",
    f"Audit entries that wait for their seal, counted up to {MAX_COUNTED:,}",
    WORKERS,
)
AUDIT_OLDEST_UNSEALED = Family(
    "audit_oldest_unsealed_seconds", "gauge", "Age of the oldest audit entry that waits for its seal", WORKERS
)
WEBHOOK_LAG = Family(
    "webhook_lag_seconds",
    "gauge",
    "Longest time from a webhook of GitHub to its processing: of those of the last 5 minutes and those that wait",
    WORKERS,
)
WEBHOOK_LOG_AGE = Family(
    "webhook_log_age_seconds", "gauge", "Time since GitHub's log of webhooks was read without a gap", WORKERS
)
MAIL_OLDEST_UNSENT = Family(
    "mail_oldest_unsent_seconds", "gauge", "Age of the oldest mail that is not sent; 0 without a mail server", WORKERS
)
NOTIFICATION_LAG = Family(
    "notification_lag_seconds",
    "gauge",
    "Age of the oldest audit entry that a destination of notifications has not taken",
    WORKERS,
    ("channel",),
)
INSTALLATIONS = Family("installations", "gauge", "Installations of the GitHub App", WORKERS, ("state",))
GITHUB_PAUSED = Family("github_paused_installations", "gauge", "Installations that GitHub limits now", WORKERS)
GITHUB_PAUSE_LEFT = Family(
    "github_pause_left_seconds",
    "gauge",
    f"Time until an installation is called again that GitHub limits; of the {MAX_INSTALLATIONS} that wait longest",
    WORKERS,
    ("installation",),
)
GITHUB_BUDGET_LEFT = Family(
    "github_budget_left_ratio",
    "gauge",
    "What is left of the budget for calls to GitHub: `points` of a minute, and of content that is counted `content` of "
    f"an hour; of the {MAX_INSTALLATIONS} with most calls in the last minute",
    WORKERS,
    ("installation", "budget"),
)
PROCESSES = Family("processes", "gauge", "Processes that had a heartbeat in the last 30 seconds", WORKERS, ("kind",))
WAKEUPS_QUEUED = Family("wakeups_queued", "gauge", "Wake-ups in Redis that no worker has taken", WORKERS)
READ_SUCCESS = Family(
    "read_success",
    "gauge",
    "1 if the worker could read this, 0 if not: then its metrics are missing",
    WORKERS,
    ("read",),
)
READ_DURATION = Family("read_duration_seconds", "gauge", "Time that a read of facts took", WORKERS, ("read",))

FAMILIES: tuple[Family, ...] = tuple(value for value in globals().values() if isinstance(value, Family))
"""Every metric of the service, without the standard ones of a process."""


def table() -> str:
    """Return the metrics as a Markdown table."""
    rows = ["| metric | labels | of | unit | meaning |", "|---|---|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        processes = "all" if family.processes == ALL else ", ".join(family.processes)
        rows.append(f"| `{family.full_name}` | {labels} | {processes} | {family.unit} | {family.meaning} |")
    return "\n".join(rows)
