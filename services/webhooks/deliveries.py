"""Deliveries of the code host: verified, stored once, and turned into reasons to look again (I11).

A payload is never believed. Its hints make branches due or have an installation or a repository read anew, so that
doubled, late, reordered and lost deliveries all end in the same state. Only a button that somebody has pressed is a
wish of its own: it is heeded once, on the facts of the day.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from typing import Any

import orjson
from sqlalchemy import select, text, update

from integrations.github import GitHub, GitHubError
from integrations.github.events import BranchHint, Hint, InstallationHint, RepositoryHint, RequestedAction, read_event
from integrations.github.signatures import verify
from models.requests import WebhookDelivery
from rules.errors import ServiceError
from services.core.unit_of_work import GITHUB_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue
from services.enforcement_status.probe_requests import schedule_installation_probes, schedule_repository_probes
from services.github_access import client
from services.installations.status import refresh_status
from services.installations.sync_requests import request_comparison
from services.pull_request_exceptions.check_actions import handle_check_action
from services.repositories.auto_watch import watch_named_branches
from services.repository_sync import sync

logger = logging.getLogger(__name__)

BATCH = 200
MAX_ATTEMPTS = 20
"""More than an hour."""
DELIVERIES = WorkQueue(
    "webhooks",
    WebhookDelivery,
    select(
        WebhookDelivery.delivery_id, WebhookDelivery.event, WebhookDelivery.payload, WebhookDelivery.attempts
    ).order_by(WebhookDelivery.attempts, WebhookDelivery.received_at),
    lease=timedelta(minutes=2),
)


def receive(uow: UnitOfWork, raw_body: bytes, signature: str | None, event: str, delivery_id: str) -> dict[str, Any]:
    """Store a delivery for the job that reads it; a second one with the same id changes nothing.

    Raises `invalid_signature` unless the raw bytes were signed with our secret, and then `malformed_json`.
    """
    settings = client.github(uow).settings
    if not verify(settings.webhook_secret, raw_body, signature):
        raise ServiceError("invalid_signature", "X-Hub-Signature-256 is not that of this body.")
    payload = _parsed(raw_body)
    # Most deliveries are echoes of our own checks: they hint at nothing, no job has to find that out again, and two of
    # each head of a large freeze would fill the table with what nobody reads.
    hints = bool(read_event(event, payload, app_id=settings.app_id))
    values = {
        "id": delivery_id,
        "event": event,
        "installation": _installation_of(payload),
        "payload": json.dumps(payload) if hints else "{}",
        "now": uow.now,
        "processed": None if hints else uow.now,
        "due": uow.now if hints else None,
    }
    stored = uow.session.execute(_STORE, values).first()
    if hints:
        uow.wake("webhooks")
    return {"delivery_id": delivery_id, "duplicate": stored is None}


_STORE = text("""
    INSERT INTO webhook_deliveries (delivery_id, event, installation_id, payload, received_at, processed_at, due_at)
    VALUES (:id, :event, :installation, CAST(:payload AS jsonb), :now, :processed, :due)
    ON CONFLICT DO NOTHING RETURNING delivery_id
""")


def _parsed(raw_body: bytes) -> dict[str, Any]:
    try:
        payload = _quickly(raw_body) or _storable(json.loads(raw_body))
    except (ValueError, RecursionError):
        raise ServiceError("malformed_json", "The delivery is not JSON.") from None
    if not isinstance(payload, dict):
        raise ServiceError("malformed_json", "The delivery is not a JSON object.")
    return payload


def _quickly(raw_body: bytes) -> Any:
    """Read a body that PostgreSQL can hold as it is, as nearly all are; None for one that has to be looked at."""
    try:
        return None if b"\\u0000" in raw_body else orjson.loads(raw_body)
    except orjson.JSONDecodeError:
        return None


def _storable(value: Any) -> Any:
    """Return the value without what PostgreSQL's JSON cannot hold: NUL, and halves of surrogate pairs.

    Raises ValueError for a number that is none, which Python's reader lets pass, or that no float holds.
    """
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("a number is not finite")
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value


def _installation_of(payload: dict[str, Any]) -> int | None:
    installation = payload.get("installation")
    found = installation.get("id") if isinstance(installation, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 < found < 2**63 else None


def process(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Process a batch of due deliveries; False if none is due.

    Hints at branches are followed in the transaction that acquires the deliveries; the other hints need GitHub, or
    transactions of their own, and may fail.
    """
    with uow_factory.open(GITHUB_CALLER) as uow:
        lease = DELIVERIES.acquire(uow, limit=BATCH)
        if lease is None:
            return False
        hints = {
            row.delivery_id: read_event(row.event, row.payload, app_id=github.settings.app_id) for row in lease.rows
        }
        branches = [hint for found in hints.values() for hint in found if isinstance(hint, BranchHint)]
        others = {each: rest for each, found in hints.items() if (rest := _not_branches(found))}
        mark_due(uow, branches)
        _finish(uow, lease, hints.keys() - others.keys())
    watch_named_branches(uow_factory, GITHUB_CALLER, _names(branches))
    if others:
        _follow_all(uow_factory, github, lease, others)
    return True


def _not_branches(hints: Iterable[Hint]) -> list[Hint]:
    return [hint for hint in hints if not isinstance(hint, BranchHint)]


def _finish(uow: UnitOfWork, lease: Lease, delivery_ids: Collection[str]) -> None:
    """Record that deliveries are done."""
    if released := lease.release(uow, delivery_ids):
        done = update(WebhookDelivery).where(WebhookDelivery.delivery_id.in_(released))
        uow.session.execute(done.values(processed_at=uow.now))


def _follow_all(
    uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease, hints: Mapping[str, Sequence[Hint]]
) -> None:
    """Follow the hints of each delivery, each hint once, and record which deliveries are done."""
    errors: dict[Hint, GitHubError | None] = {}
    attempts = {row.delivery_id: row.attempts for row in lease.rows}
    for delivery_id, found in hints.items():
        for hint in found:
            if hint not in errors:
                with uow_factory.open(GITHUB_CALLER) as uow:
                    lease.renew(uow, hints)
                errors[hint] = _follow(uow_factory, github, hint)
        error = next((errors[hint] for hint in found if errors[hint] is not None), None)
        with uow_factory.open(GITHUB_CALLER) as uow:
            if error is None:
                _finish(uow, lease, [delivery_id])
            else:
                given_up = attempts[delivery_id] + 1 >= MAX_ATTEMPTS
                due_at = None if given_up else uow.now + DELIVERIES.retry.delay(attempts[delivery_id])
                lease.fail(uow, error.code, error.message, due_at, keys=[delivery_id])


def _follow(uow_factory: UnitOfWorkFactory, github: GitHub, hint: Hint) -> GitHubError | None:
    """Read again what the hint names, and the rules there; return the error if that has to be retried."""
    _ask_for_probes(uow_factory, hint)
    try:
        if isinstance(hint, InstallationHint):
            if refresh_status(uow_factory, github, hint.installation_id) == "active":
                with uow_factory.open(GITHUB_CALLER) as uow:
                    request_comparison(uow, [hint.installation_id])
        elif isinstance(hint, RequestedAction):
            handle_check_action(uow_factory, hint)
        elif isinstance(hint, RepositoryHint):
            sync.refresh_repository(uow_factory, github, hint.github_id)
    except GitHubError as error:
        logger.warning("a hint of a delivery could not be followed: %s", error)
        return error
    return None


def _ask_for_probes(uow_factory: UnitOfWorkFactory, hint: Hint) -> None:
    """Have rules read anew: a ruleset that was changed, but also a name, an owner, a permission or a default branch."""
    with uow_factory.open(GITHUB_CALLER) as uow:
        if isinstance(hint, InstallationHint):
            schedule_installation_probes(uow, hint.installation_id)
        elif isinstance(hint, RepositoryHint):
            schedule_repository_probes(uow, hint.github_id)


def _names(hints: Iterable[BranchHint]) -> dict[int, set[str]]:
    """Return the names of the branches that were heard of, by repository."""
    names: dict[int, set[str]] = defaultdict(set)
    for hint in hints:
        names[hint.github_id] |= hint.names
    return names


_MARK = text("""
    WITH named AS (
        SELECT b.id, bool_or(n.read_back) AS read_back
        FROM unnest(CAST(:repositories AS bigint[]), CAST(:names AS text[]), CAST(:read_back AS boolean[]))
             AS n (repository, name, read_back)
        JOIN repositories r ON r.github_id = n.repository
        JOIN watched_branches b ON b.repository_id = r.id AND (n.name IS NULL OR n.name = b.name)
        GROUP BY b.id
    ), locked AS (
        SELECT b.id, named.read_back FROM watched_branches b JOIN named ON named.id = b.id
        ORDER BY b.id FOR NO KEY UPDATE OF b
    )
    UPDATE watched_branches b
    SET wanted_generation = b.wanted_generation + 1, due_at = :now, attempts = 0, deferred_rank = NULL,
        read_back = b.read_back OR locked.read_back
    FROM locked WHERE b.id = locked.id
""")


def mark_due(uow: UnitOfWork, hints: Iterable[BranchHint]) -> None:
    """Make the branches due that the hints name; a head that somebody wants written again is read back."""
    rows = [
        (hint.github_id, name, hint.head_sha is not None)
        for hint in hints
        for name in (sorted(hint.names) if hint.names else [None])
    ]
    if rows:
        repositories, names, read_back = map(list, zip(*rows, strict=True))
        uow.session.execute(
            _MARK, {"repositories": repositories, "names": names, "read_back": read_back, "now": uow.now}
        )
        uow.wake("reconcile")
