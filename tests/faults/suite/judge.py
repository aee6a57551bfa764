"""The judge: compares GitHub with the database, and both with the responses that clients got.

It shares no code with the service: it reads freezes with SQL of its own, and the state of the simulated GitHub.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator

from tests.faults.suite.client import AcknowledgedFreeze, Ledger
from tests.faults.suite.seeding import Organization
from tests.faults.suite.stack import Stack
from tools.fake_github.model.records import Repository

# From the freezes that are in force, which are few: the targets of those that have ended become thousands.
_BRANCHES = """
    WITH frozen AS MATERIALIZED (
        SELECT t.branch_id
        FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id
        WHERE f.started_at <= clock_timestamp()
          AND coalesce(f.ended_at, 'infinity') > clock_timestamp()
          AND coalesce(f.ends_at, 'infinity') > clock_timestamp())
    SELECT r.github_id, b.name, b.check_name, b.id IN (SELECT branch_id FROM frozen)
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id
    WHERE r.removed_at IS NULL AND r.enabled AND b.unwatched_at IS NULL AND i.state = 'active'
"""
_BUSY = """
    SELECT (SELECT count(*) FROM checks c JOIN installations i ON i.organization_id = c.organization_id
            WHERE i.state = 'active' AND (c.lease_until > clock_timestamp() OR c.due_at <= clock_timestamp())
              AND c.organization_id = ANY(%s))
         + (SELECT count(*) FROM webhook_deliveries
            WHERE processed_at IS NULL AND (installation_id IS NULL OR installation_id = ANY(%s)))
"""
_TAKEN = "SELECT delivery_id FROM webhook_deliveries WHERE delivery_id = ANY(%s)"
_RECORDS = """
    SELECT left(h.head_sha, 8), h.branch_id, h.conclusion, h.unconfirmed, h.evaluation, h.written_at,
           p.number, p.base_branch, p.state, p.seen_at
    FROM head_checks h LEFT JOIN pull_requests p ON p.repository_id = h.repository_id AND p.head_sha = h.head_sha
    WHERE left(h.head_sha, 8) = ANY(%s)
"""
_ACKNOWLEDGED = """
    SELECT f.id, count(DISTINCT s.id), count(DISTINCT l.id), f.ended_at IS NOT NULL
    FROM freezes f
    LEFT JOIN audit_entries s ON s.target->>'id' = f.id AND s.action = 'freeze.started'
    LEFT JOIN audit_entries l ON l.target->>'id' = f.id AND l.action = 'freeze.lifted'
    WHERE f.id = ANY(%s) GROUP BY f.id
"""


def wrong_heads(stack: Stack, of: Organization | None = None) -> dict[str, tuple[str | None, str | None]]:
    """Return every head (of one organisation) that shows another verdict than the database gives: (shown, expected).

    An open head of a watched branch shows the verdict of the freezes that cover its base now (I1); a head that no one
    can merge any more shows no `success` (I3).
    """
    bases: dict[int, dict[str, tuple[str, bool]]] = defaultdict(dict)
    for github_id, name, check_name, frozen in stack.sql(_BRANCHES):
        bases[github_id][name] = (check_name, frozen)
    wrong: dict[str, tuple[str | None, str | None]] = {}
    successes: dict[int, list[tuple[str, str]]] = defaultdict(list)
    with stack.github.world.lock:
        for (repository_id, sha, app_id, check), run in stack.github.world.newest.items():
            if run.conclusion == "success" and app_id == stack.github.app_id:
                successes[repository_id].append((check, sha))
        for repository in of.repositories if of else stack.github.world.repositories.values():
            found = _compare(stack, repository, bases.get(repository.id, {}), successes[repository.id])
            wrong |= {head: (shown, expected) for head, shown, expected in found}
    return wrong


def _compare(
    stack: Stack, repository: Repository, bases: dict[str, tuple[str, bool]], successes: list[tuple[str, str]]
) -> Iterator[tuple[str, str | None, str | None]]:
    verdicts: dict[tuple[str, str], bool] = {}
    for pull in repository.pulls.values():
        if pull.state == "open" and pull.base_ref in bases:
            check, frozen = bases[pull.base_ref]
            verdicts[check, pull.head_sha] = verdicts.get((check, pull.head_sha), False) or frozen
    checks = {check for check, _ in bases.values()}
    for check, sha in successes:
        if check in checks and (check, sha) not in verdicts:
            yield f"{repository.name}@{sha[:8]} {check} (given up)", "success", None
    for (check, sha), blocked in verdicts.items():
        run = stack.github.world.newest_run(repository.id, sha, check, stack.github.app_id)
        shown, expected = run.conclusion if run is not None else None, "failure" if blocked else "success"
        if shown != expected:
            yield f"{repository.name}@{sha[:8]} {check}", shown, expected


def is_busy(stack: Stack, of: Organization | None = None) -> bool:
    """True if work (of one organisation) is leased or due, or a webhook is under way."""
    whose = [of] if of else [stack.acme, stack.beta]
    [[count]] = stack.sql(_BUSY, [one.id for one in whose], [one.installation_id for one in whose])
    return bool(count) or not (of or stack.github.sender.drain(0)) or bool(untaken(stack, whose))


def untaken(stack: Stack, of: Collection[Organization]) -> set[str]:
    """Return the GUIDs of webhooks that GitHub's log shows as failed, and that were not taken from it.

    A release that does not read the log takes none.
    """
    installations = {one.installation_id for one in of}
    log = [found for found in stack.github.sender.log() if found.installation_id in installations]
    failed = {found.guid for found in log if found.status_code >= 400} - {
        found.guid for found in log if found.status_code < 400
    }
    if not failed or stack.sql("SELECT to_regclass('webhook_log')") == [(None,)]:
        return set()
    return failed - {row[0] for row in stack.sql(_TAKEN, sorted(failed))}


def unfinished_work(stack: Stack) -> str:
    """Describe what is wrong or under way, three of each kind: for the message of a failure."""
    wrong = dict(list(wrong_heads(stack).items())[:3])
    shas = [head.partition("@")[2].partition(" ")[0] for head in wrong]
    records = stack.sql(_RECORDS, shas)
    with stack.github.world.lock:
        writes = [write for write in stack.github.calls.writes if write["headSha"][:8] in shas]
    branches = stack.sql(
        "SELECT id, due_at - clock_timestamp(), lease_until - clock_timestamp(), last_error_code, attempts "
        "FROM checks WHERE due_at IS NOT NULL OR lease_until IS NOT NULL LIMIT 3"
    )
    deliveries = stack.sql(
        "SELECT delivery_id, due_at - clock_timestamp(), lease_until - clock_timestamp(), attempts, last_error_code "
        "FROM webhook_deliveries WHERE processed_at IS NULL ORDER BY received_at LIMIT 3"
    )
    return (
        f"wrong heads {wrong}, their records {records}, their writes {writes}, branches {branches}, "
        f"deliveries {deliveries}, webhooks that nobody took {untaken(stack, [stack.acme, stack.beta])}"
    )


def lost(stack: Stack, ledger: Ledger) -> list[str]:
    """Return what was acknowledged and is not there, or was done twice (I4, I5)."""
    found = {row[0]: row[1:] for row in stack.sql(_ACKNOWLEDGED, list(ledger.freezes))}
    losses = []
    for freeze in ledger.freezes.values():
        starts, lifts, ended = found.get(freeze.id, (0, 0, False))
        if starts != 1:
            losses.append(f"{freeze.id} was acknowledged and has {starts} audit rows of its start")
        if freeze.lifted and not (ended and lifts == 1):
            losses.append(f"{freeze.id} was lifted, and has {lifts} audit rows of it")
    counted = stack.sql(
        "SELECT k, count(f.id) FROM unnest(CAST(%s AS text[])) k "
        "LEFT JOIN freezes f ON f.reason = 'Requested under ' || k || '.' GROUP BY k HAVING count(f.id) > 1",
        sorted(ledger.keys),
    )
    return losses + [f"the key {key} started {times} freezes" for key, times in counted]


def forbidden(stack: Stack, ledger: Ledger) -> list[str]:
    """Return every `success` that was sent on an evaluation made while an acknowledged freeze covered the branch (I3).

    Exact, because an evaluation and the start of a freeze lock the same branch rows until they are committed.
    """
    intervals: dict[str, list[AcknowledgedFreeze]] = defaultdict(list)
    for freeze in ledger.freezes.values():
        for branch_id in freeze.branches:
            intervals[branch_id].append(freeze)
    with stack.github.world.lock:
        writes = [write for write in stack.github.calls.writes if write["conclusion"] == "success"]
    losses = []
    for write in writes:
        branch_id, number = (write["externalId"] or "-/0").split("/")[:2]
        losses += [
            f"evaluation {number} wrote a success on {write['headSha'][:8]} in spite of {freeze.id}"
            for freeze in intervals.get(branch_id, ())
            if freeze.since < int(number) and (freeze.until is None or int(number) <= freeze.until)
        ]
    return losses
