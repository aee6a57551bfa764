"""What metrics show of the database, each with one statement that an index, or a limit, keeps cheap.

Ages are measured by the clock of the database. Nothing here names an organisation, a repository or a person.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, NamedTuple

from sqlalchemy import Select, Text, func, literal, select, text, union_all

from app.metrics import families
from app.metrics.families import MAX_COUNTED, MAX_INSTALLATIONS, NO_CAUSE, Family
from integrations.github import ErrorKind
from integrations.github.errors import CODES
from integrations.mail.smtp import MailServer
from models.checks import Check
from models.freezes import IN_FORCE, INCOMPLETE
from models.installations import Installation
from models.notifications import NotificationDestination
from models.queries import NOW
from models.repositories import Repository
from models.requests import PeriodicTask
from models.webhook_log import WebhookLog
from rules.freezes.blocking import CAUSES, ENFORCED, UNKNOWN_CAUSES, BlockingFacts, blocking_of
from rules.notifications.kinds import NOTIFIED_ACTIONS
from rules.rate_budget import HOUR, MINUTE, GitHubLimits
from services.core.database_identity import is_confirmed
from services.core.lease_holder import PROCESS_TIMEOUT
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import WorkQueue
from services.events.destinations import FOR_SYSTEMS
from services.events.destinations import JOB as NOTIFICATIONS
from services.github_access.rate_limiter import LEARNED_FOR
from services.verdicts.blocking_facts import FROM, FROZEN_KEY, WAITS_FOR
from services.verdicts.lasting_stops import PLACES

WEBHOOKS_SEEN = timedelta(minutes=5)
"""For how long after its arrival the lag of a webhook is shown."""


class Reading(NamedTuple):
    """A value of a metric."""

    family: Family
    value: float
    labels: tuple[str, ...] = ()


Read = Callable[[UnitOfWork], Iterable[Reading]]


def reads_of(queues: Sequence[WorkQueue]) -> Mapping[str, Read]:
    """Return what is read, by name, what matters most first; `queues` are those whose work is done."""
    return {
        "enforcement": read_enforcement,
        "unenforced_freezes": read_unenforced_freezes,
        "frozen_branches": read_frozen_branches,
        "stops": read_stops,
        "restores": read_restores,
        "processes": read_processes,
        "github": read_github,
        "webhooks": read_webhooks,
        "queues": partial(read_queues, queues=queues),
        "audit": read_audit,
        "notifications": read_notifications,
    }


def _seconds(since: datetime | None, uow: UnitOfWork) -> float:
    """Return the age of an instant, 0 for none."""
    return 0.0 if since is None else max(0.0, (uow.now - since).total_seconds())


_REFUSED = (CODES[ErrorKind.PERMISSION], CODES[ErrorKind.NOT_FOUND])
"""The errors that only the people of an organisation can mend."""
_FREEZES = text(f"""
    SELECT count(*) FILTER (WHERE {IN_FORCE}) AS in_force,
           count(*) FILTER (WHERE {IN_FORCE} AND f.enforced_at IS NULL) AS unenforced,
           count(*) FILTER (WHERE f.failing_since IS NOT NULL) AS failing,
           min(f.started_at) FILTER (WHERE {IN_FORCE} AND f.enforced_at IS NULL) AS unenforced_since,
           min(f.ended_at) FILTER (WHERE f.released_at IS NULL) AS unreleased_since
    FROM freezes f WHERE f.ended_at IS NULL OR {INCOMPLETE}
""")  # noqa: S608 - conditions of ours
# Whatever they wait for: a worker, a pause of their installation, the next attempt, or the end of a lease. The index is
# read from the oldest on, and the first that counts is the result.
_OLDEST_OUTDATED = (
    select(Check.outdated_since)
    .join_from(Check, Repository, Repository.id == Check.repository_id)
    .join(Installation, Installation.id == Check.installation_id)
    .where(Check.outdated_since.is_not(None), Installation.state == "active", Repository.removed_at.is_(None))
    .where(func.coalesce(Check.last_error_code.not_in(_REFUSED), True))
    .order_by(Check.outdated_since)
    .limit(1)
)


def read_enforcement(uow: UnitOfWork) -> Iterator[Reading]:
    """Read the freezes that are not enforced or released yet, and the check that has waited longest."""
    row = uow.session.execute(_FREEZES, {"now": uow.now}).one()
    yield Reading(families.FREEZES_IN_FORCE, row.in_force)
    yield Reading(families.FREEZES_UNENFORCED, row.unenforced)
    yield Reading(families.FREEZES_FAILING, row.failing)
    yield Reading(families.OLDEST_UNENFORCED, _seconds(row.unenforced_since, uow))
    yield Reading(families.OLDEST_UNRELEASED, _seconds(row.unreleased_since, uow))
    yield Reading(families.OLDEST_DUE_BRANCH, _seconds(uow.session.scalar(_OLDEST_OUTDATED), uow))


_STOPS = {
    of: text(f"""
        SELECT {of.key} FROM {of.rows} WHERE {of.row}.stop_context IS NOT NULL
        ORDER BY {of.row}.stop_written_at NULLS FIRST LIMIT {MAX_COUNTED}
    """)  # noqa: S608 - constants of ours
    for of in PLACES
}
_OLDEST_UNNEEDED = {
    of: text(f"SELECT min({of.unneeded_since}) FROM {of.rows} WHERE {of.key} = ANY(:keys) AND {of.unneeded}")  # noqa: S608
    for of in PLACES
}


def read_stops(uow: UnitOfWork) -> Iterator[Reading]:
    """Read how many stops may be on, and for how long one that nothing needs."""
    stops = {of: list(uow.session.scalars(_STOPS[of])) for of in PLACES}
    yield Reading(families.STOPS, sum(map(len, stops.values())))
    values = [(of, {"now": uow.now, "keys": keys}) for of, keys in stops.items() if keys]
    found = [uow.session.scalar(_OLDEST_UNNEEDED[of], each) for of, each in values]
    yield Reading(families.OLDEST_UNNEEDED_STOP, _seconds(min(filter(None, found), default=None), uow))


# The oldest first: these are the ones that have waited too long.
_UNENFORCED = text(f"""
    WITH covered AS MATERIALIZED (
        SELECT f.id AS freeze_id, f.started_at, t.branch_id
        FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id AND t.operation = 'apply'
        WHERE f.ended_at IS NULL AND {IN_FORCE} AND f.enforced_at IS NULL
        ORDER BY f.started_at LIMIT :limit
    )
    SELECT {FROZEN_KEY} AS facts, {WAITS_FOR} AS waits_for, covered.freeze_id, covered.started_at
    FROM covered JOIN {FROM} ON b.id = covered.branch_id
    GROUP BY facts, waits_for, covered.freeze_id, covered.started_at
""")  # noqa: S608 - constants of ours


def read_unenforced_freezes(uow: UnitOfWork) -> Iterator[Reading]:
    """Read why freezes in force are not enforced: by cause how many, and since when the oldest."""
    freezes: dict[str, dict[str, datetime]] = {cause: {} for cause in CAUSES}
    for row in uow.session.execute(_UNENFORCED, {"now": uow.now, "due": [], "limit": MAX_COUNTED}):
        found = blocking_of(BlockingFacts.of_key(row.facts), row.waits_for)
        if found.cause is not None:
            freezes[found.cause][row.freeze_id] = row.started_at
    for cause, began in freezes.items():
        yield Reading(families.UNENFORCED_BY_CAUSE, len(began), (cause,))
        oldest = _seconds(min(began.values(), default=None), uow)
        yield Reading(families.OLDEST_UNENFORCED_BY_CAUSE, oldest, (cause,))


_FROZEN = text(f"""
    WITH covered AS MATERIALIZED (
        SELECT DISTINCT t.branch_id FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
        WHERE t.operation = 'apply' AND {IN_FORCE} AND t.branch_id > :after ORDER BY t.branch_id LIMIT :limit
    )
    SELECT {FROZEN_KEY} AS facts, {WAITS_FOR} AS waits_for, count(*) AS branches, max(b.id) AS last_id
    FROM covered JOIN {FROM} ON b.id = covered.branch_id
    GROUP BY facts, waits_for
""")  # noqa: S608 - constants of ours
_ENFORCED = tuple((state, NO_CAUSE) for state in sorted(ENFORCED))
_NOT_ENFORCED = tuple(("unknown" if cause in UNKNOWN_CAUSES else "not_blocked", cause) for cause in CAUSES)


def read_frozen_branches(uow: UnitOfWork) -> Iterator[Reading]:
    """Read of how many frozen branches GitHub refuses changes, and why not of the others, some thousand at a time."""
    branches: Counter[tuple[str, ...]] = Counter(dict.fromkeys((*_ENFORCED, *_NOT_ENFORCED), 0))
    after: str | None = ""
    while after is not None:
        bounds = {"after": after, "limit": MAX_COUNTED}
        rows = uow.session.execute(_FROZEN, {"now": uow.now, "due": [], **bounds}).all()
        for row in rows:
            found = blocking_of(BlockingFacts.of_key(row.facts), row.waits_for)
            branches[found.state, found.cause or NO_CAUSE] += row.branches
        after = max((row.last_id for row in rows), default=None)
    for labels, number in branches.items():
        yield Reading(families.FROZEN_BRANCHES, number, labels)


def read_restores(uow: UnitOfWork) -> Iterator[Reading]:
    """Read whether the database counts as restored, and no operator has confirmed it."""
    yield Reading(families.RESTORE_UNCONFIRMED, not is_confirmed(uow.session))


_DESTINATIONS = select(
    literal(NOTIFICATIONS, Text).label("queue"),
    func.count().filter(NotificationDestination.due_at <= NOW).label("due"),
    func.min(NotificationDestination.due_at).filter(NotificationDestination.due_at <= NOW).label("oldest_due_at"),
    func.count().filter(NotificationDestination.attempts > 0).label("retrying"),
    literal(0).label("leases"),
).where(NotificationDestination.due_at.is_not(None))


@cache
def _backlog(queue: WorkQueue) -> Select[str, int, datetime | None, int, int]:
    return select(literal(queue.kind, Text).label("queue"), queue.backlog(MAX_COUNTED).subquery())


def read_queues(uow: UnitOfWork, queues: Sequence[WorkQueue]) -> Iterator[Reading]:
    """Read the work of each queue, and that of destinations of notifications, which are locked and not leased."""
    leased = [_backlog(queue) for queue in queues]
    for row in uow.session.execute(union_all(*leased, _DESTINATIONS), {"now": uow.now}):
        yield Reading(families.QUEUE_DUE, row.due, (row.queue,))
        yield Reading(families.QUEUE_OLDEST_DUE, _seconds(row.oldest_due_at, uow), (row.queue,))
        yield Reading(families.QUEUE_RETRYING, row.retrying, (row.queue,))
        yield Reading(families.QUEUE_LEASES, row.leases, (row.queue,))


# Each entry is found by its id: a join may read all entries that there are.
_UNSEALED = text("""
    SELECT count(*) AS entries, min((SELECT e.at FROM audit_entries e WHERE e.id = u.entry_id)) AS oldest_at
    FROM (SELECT entry_id FROM audit_unsealed LIMIT :limit) u
""")


def read_audit(uow: UnitOfWork) -> Iterator[Reading]:
    """Read the audit entries that are not sealed."""
    row = uow.session.execute(_UNSEALED, {"limit": MAX_COUNTED}).one()
    yield Reading(families.AUDIT_UNSEALED, row.entries)
    yield Reading(families.AUDIT_OLDEST_UNSEALED, _seconds(row.oldest_at, uow))


# Those that wait are gathered first: the oldest of them would else be searched among all, from the oldest on.
_WEBHOOKS = text("""
    WITH waiting AS MATERIALIZED (SELECT received_at FROM webhook_deliveries WHERE due_at IS NOT NULL)
    SELECT greatest(
        (SELECT max(d.processed_at - d.received_at) FROM webhook_deliveries d WHERE d.received_at > :since),
        (SELECT CAST(:now AS timestamptz) - min(w.received_at) FROM waiting w)
    )
""")


def read_webhooks(uow: UnitOfWork) -> Iterator[Reading]:
    """Read how late webhooks of GitHub are processed, and when the log of them was read."""
    lag = uow.session.scalar(_WEBHOOKS, {"now": uow.now, "since": uow.now - WEBHOOKS_SEEN}) or timedelta()
    yield Reading(families.WEBHOOK_LAG, lag.total_seconds())
    yield Reading(families.WEBHOOK_LOG_AGE, _seconds(uow.session.scalar(select(WebhookLog.read_at)), uow))


_OLDEST_MAIL = text("SELECT min(created_at) FROM mails WHERE due_at IS NOT NULL")
_NOTIFICATIONS = text("""
    SELECT c.channel, min(first.sealed_at) AS oldest_at
    FROM unnest(ARRAY['mail', 'slack', 'webhook']) AS c (channel)
    LEFT JOIN notification_destinations d ON d.channel = c.channel AND d.due_at IS NOT NULL
    LEFT JOIN LATERAL (SELECT s.sealed_at FROM audit_seals s
                       WHERE s.organization_id = d.organization_id AND s.sequence > d.sequence
                         AND (d.channel = ANY(:for_systems) OR s.action = ANY(:notified))
                       ORDER BY s.sequence LIMIT 1) first ON true
    GROUP BY c.channel
""")


def read_notifications(uow: UnitOfWork) -> Iterator[Reading]:
    """Read how late mails are sent, and how late destinations of notifications take what happened."""
    unsent = None if uow.ports.find(MailServer) is None else uow.session.scalar(_OLDEST_MAIL)
    yield Reading(families.MAIL_OLDEST_UNSENT, _seconds(unsent, uow))
    wanted = {"for_systems": list(FOR_SYSTEMS), "notified": list(NOTIFIED_ACTIONS)}
    for row in uow.session.execute(_NOTIFICATIONS, wanted):
        yield Reading(families.NOTIFICATION_LAG, _seconds(row.oldest_at, uow), (row.channel,))


_INSTALLATIONS = text("""
    SELECT s.state, count(i.id) AS installations,
           count(i.id) FILTER (WHERE i.state = 'active' AND i.paused_until > :now) AS paused
    FROM unnest(ARRAY['active', 'suspended', 'removed']) AS s (state) LEFT JOIN installations i ON i.state = s.state
    GROUP BY s.state
""")
_PAUSES = text("""
    SELECT id, paused_until FROM installations WHERE state = 'active' AND paused_until > :now
    ORDER BY paused_until DESC, id LIMIT :limit
""")
_BUDGETS = text("""
    WITH busiest AS MATERIALIZED (
        SELECT i.id, used.points,
               coalesce(CAST(:counted AS boolean),
                        i.content_learnt_at > :learned_since AND i.content_counting <> 'off') AS counted
        FROM installations i
        CROSS JOIN LATERAL (SELECT sum(u.points) AS points FROM github_api_usage u
                            WHERE u.installation_id = i.id AND u.at > :minute) used
        WHERE i.state = 'active' AND used.points > 0
        ORDER BY used.points DESC, i.id LIMIT :limit
    )
    SELECT b.id, b.points,
           CASE WHEN b.counted THEN (SELECT coalesce(sum(u.content), 0) FROM github_api_usage u
                                     WHERE u.installation_id = b.id AND u.at > :hour) END AS content
    FROM busiest b
""")
_CONTENT_COUNTED: dict[str, bool | None] = {"learn": None, "off": False, "requests": True, "aliases": True}
"""Whether content is counted by configuration; None: if GitHub was observed to count it."""


def read_github(uow: UnitOfWork) -> Iterator[Reading]:
    """Read the installations, the pauses of those that GitHub limits, and the budget left of the busiest."""
    paused = 0
    for row in uow.session.execute(_INSTALLATIONS, {"now": uow.now}):
        yield Reading(families.INSTALLATIONS, row.installations, (row.state,))
        paused += row.paused
    yield Reading(families.GITHUB_PAUSED, paused)
    for row in uow.session.execute(_PAUSES, {"now": uow.now, "limit": MAX_INSTALLATIONS}):
        yield Reading(families.GITHUB_PAUSE_LEFT, (row.paused_until - uow.now).total_seconds(), (str(row.id),))
    limits = uow.ports[GitHubLimits]
    values = {
        "counted": _CONTENT_COUNTED[limits.content],
        "learned_since": uow.now - LEARNED_FOR,
        "minute": uow.now - MINUTE,
        "hour": uow.now - HOUR,
        "limit": MAX_INSTALLATIONS,
    }
    for row in uow.session.execute(_BUDGETS, values):
        yield Reading(families.GITHUB_BUDGET_LEFT, _left(row.points, limits.points_per_minute), (str(row.id), "points"))
        if row.content is not None:
            left = _left(row.content, limits.content_per_hour)
            yield Reading(families.GITHUB_BUDGET_LEFT, left, (str(row.id), "content"))


def _left(used: Any, limit: int) -> float:
    return max(0.0, 1 - float(used) / limit)


_PROCESSES = text(f"""
    SELECT 'worker' AS kind, count(*) AS running FROM lease_holders
    WHERE kind = 'worker' AND stopped_at IS NULL AND ended_at IS NULL
      AND beat_at > clock_timestamp() - {PROCESS_TIMEOUT}
""")  # noqa: S608 - a constant of ours


def read_processes(uow: UnitOfWork) -> Iterator[Reading]:
    """Read how many processes of each kind have a recent heartbeat, and when the sweep was last done."""
    for row in uow.session.execute(_PROCESSES):
        yield Reading(families.PROCESSES, row.running, (row.kind,))
    swept_at = uow.session.scalar(select(func.extract("epoch", PeriodicTask.last_swept_at())))
    yield Reading(families.LAST_SWEEP, float(swept_at or 0))
