"""Webhook deliveries: verified, read and stored once, as requests to read from GitHub again (I11).

The facts in a payload are never used. A delivery makes branches due, or requests that an installation or a repository
is read again, so that duplicate, late, reordered and lost deliveries all end in the same state. There are two
exceptions. A requested action, a pressed button of a check, is carried out once, on the facts at that time. And what
an App wrote is not read again if it is exactly what we have recorded of our own ruleset (`enforcement/echoes.py`).
"""

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from typing import Any
from urllib.parse import parse_qsl

import orjson
from sqlalchemy import ARRAY, Text, any_, bindparam, select, text, update

from integrations.github import GitHub, GitHubError, GitHubSettings
from integrations.github.events import (
    BranchRefresh,
    FactsRefresh,
    InstallationRefresh,
    RefreshRequest,
    RepositoryRefresh,
    RequestedAction,
    read_event,
)
from integrations.github.signatures import verify
from models.checks import mark_dirty, request_read_back
from models.requests import WebhookDelivery
from rules.errors import ServiceError
from rules.webhook_log import LogEntry
from services.core.ports import Ports
from services.core.unit_of_work import GITHUB_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, LeaseLostError, WorkQueue
from services.enforcement.echoes import is_echo
from services.enforcement_status.probe_requests import schedule_installation_probes, schedule_repository_probes
from services.exception_rules.changes import judge_again
from services.github_access import client
from services.installations.status import refresh_status
from services.installations.sync_requests import request_comparison
from services.pull_request_exceptions.check_actions import handle_check_action
from services.repositories.auto_watch import watch_named_branches
from services.repository_sync import sync
from services.webhooks.stored_requests import from_stored, to_stored

logger = logging.getLogger(__name__)

BATCH = 200
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 10
MAX_EARLY_BYTES = 131_072
"""Of a delivery that is read on the event loop, in less than a millisecond."""
_OF_CHECKS = {"check_run", "check_suite"}
"""Events of which GitHub sends two for every check that anything writes, we ourselves above all.

Those that request nothing are not stored. What does request something is a check of ours that another wrote, or that
people want to have again, and their use of its buttons.
"""
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


def acknowledge(
    ports: Ports,
    raw_body: bytes,
    headers: Mapping[str, str],
    x_github_event: str,
    x_github_delivery: str,
) -> dict[str, Any] | None:
    """Return the answer to a signed delivery about a check that requests nothing; None for every other one.

    Nothing is read or stored for it: there are more of these than of all others together. What is not certain is left
    to `receive`.
    """
    is_json = headers.get("content-type", "").startswith(JSON)
    if x_github_event not in _OF_CHECKS or not is_json or len(raw_body) > MAX_EARLY_BYTES:
        return None
    github = ports.find(GitHub)
    settings = github.settings if github else None
    if settings is None or not _is_signed(settings, raw_body, headers.get("x-hub-signature-256")):
        return None
    payload = _quickly(raw_body)
    if not isinstance(payload, dict) or read_event(x_github_event, payload, app_id=settings.app_id):
        return None
    return {"delivery_id": x_github_delivery, "duplicate": False}


def _is_signed(settings: GitHubSettings, raw_body: bytes, signature: str | None) -> bool:
    """True if the raw bytes are signed with our secret or the previous one."""
    secrets = (settings.webhook_secret, settings.previous_webhook_secret)
    return any(verify(secret, raw_body, signature) for secret in secrets)


def receive(
    uow: UnitOfWork, raw_body: bytes, signature: str | None, event: str, delivery_id: str, content_type: str = JSON
) -> dict[str, Any]:
    """Store a delivery for the job that processes it; a duplicate with the same id changes nothing.

    What it requests is stored; what requests nothing is stored for the answer to a duplicate.
    Both content types of GitHub are accepted: JSON, and a form whose field `payload` is JSON.
    Raise `invalid_signature` unless the raw bytes are signed with our secret or the previous one, and `malformed_json`.
    """
    settings = client.github(uow).settings
    if not _is_signed(settings, raw_body, signature):
        raise ServiceError("invalid_signature", "X-Hub-Signature-256 does not match the request body.")
    payload = _parsed(_form_payload(raw_body) if content_type.lower().lstrip().startswith(FORM) else raw_body)
    requests = to_stored(read_event(event, payload, app_id=settings.app_id))
    if event in _OF_CHECKS and not requests:
        return {"delivery_id": delivery_id, "duplicate": False}
    stored = _store(uow, delivery_id, event, _installation_of(payload), requests)
    return {"delivery_id": delivery_id, "duplicate": not stored}


def take(uow: UnitOfWork, entry: LogEntry, payload: Mapping[str, Any] | None) -> bool:
    """Store a delivery of GitHub's log as one that has arrived; False if it has arrived meanwhile.

    It is stored in any case, so that it is taken once. Without a payload it requests nothing.
    """
    settings = client.github(uow).settings
    requests = {} if payload is None else to_stored(read_event(entry.event, _storable(payload), app_id=settings.app_id))
    return _store(uow, entry.guid, entry.event, entry.installation_id or _installation_of(payload or {}), requests)


def read_checks_back(uow: UnitOfWork, entries: Collection[LogEntry]) -> None:
    """Have the checks of whole repositories read back, instead of taking each delivery about one of their checks."""
    for entry in entries:
        take(uow, entry, None)
    _mark(
        uow, [(github_id, None, True, False) for github_id in sorted({entry.repository_id or 0 for entry in entries})]
    )


def arrived(uow: UnitOfWork, delivery_ids: Collection[str]) -> set[str]:
    """Return which deliveries are stored."""
    wanted = WebhookDelivery.delivery_id == any_(bindparam("ids", type_=ARRAY(Text)))
    return set(uow.session.scalars(select(WebhookDelivery.delivery_id).where(wanted), {"ids": list(delivery_ids)}))


def _store(
    uow: UnitOfWork, delivery_id: str, event: str, installation_id: int | None, requests: dict[str, Any]
) -> bool:
    """Store a delivery with its requests; False if it is stored already."""
    values = {
        "id": delivery_id,
        "event": event,
        "installation": installation_id,
        "payload": json.dumps(requests),
        "now": uow.now,
        "processed": None if requests else uow.now,
        "due": uow.now if requests else None,
    }
    stored = uow.session.execute(_STORE, values).first()
    if requests:
        uow.wake("webhooks")
    return stored is not None


_STORE = text("""
    INSERT INTO webhook_deliveries (delivery_id, event, installation_id, payload, received_at, processed_at, due_at)
    VALUES (:id, :event, :installation, CAST(:payload AS jsonb), :now, :processed, :due)
    ON CONFLICT DO NOTHING RETURNING delivery_id
""")


def _form_payload(raw_body: bytes) -> bytes:
    try:
        fields = dict(parse_qsl(raw_body, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        return b""
    return fields.get(b"payload", b"")


def _parsed(raw_body: bytes) -> dict[str, Any]:
    try:
        payload = _quickly(raw_body) or _storable(json.loads(raw_body))
    except (ValueError, RecursionError):
        raise ServiceError("malformed_json", "The delivery is not JSON.") from None
    if not isinstance(payload, dict):
        raise ServiceError("malformed_json", "The delivery is not a JSON object.")
    return payload


def _quickly(raw_body: bytes) -> Any:
    """Return the parsed body if PostgreSQL can store it unchanged, which is the usual case; otherwise None."""
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


def _installation_of(payload: Mapping[str, Any]) -> int | None:
    installation = payload.get("installation")
    found = installation.get("id") if isinstance(installation, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 < found < 2**63 else None


def process(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Process a batch of due deliveries; False if none is due.

    Refresh requests for branches are applied in the transaction that acquires the deliveries; the others need GitHub
    or transactions of their own, and may fail.
    """
    with uow_factory.open(GITHUB_CALLER) as uow:
        lease = DELIVERIES.acquire(uow, limit=BATCH)
        if lease is None:
            return False
        requests = {row.delivery_id: from_stored(row.payload) for row in lease.rows}
        branches = [request for found in requests.values() for request in found if isinstance(request, BranchRefresh)]
        others = {each: rest for each, found in requests.items() if (rest := _not_branches(found))}
        mark_due(uow, branches)
        _finish(uow, lease, requests.keys() - others.keys())
    with lease.while_held(uow_factory):
        watch_named_branches(uow_factory, GITHUB_CALLER, _names(branches))
        if others:
            _apply_all(uow_factory, github, lease, others)
    return True


def _not_branches(requests: Iterable[RefreshRequest]) -> list[RefreshRequest]:
    return [request for request in requests if not isinstance(request, BranchRefresh)]


def _finish(uow: UnitOfWork, lease: Lease, delivery_ids: Collection[str]) -> None:
    """Mark deliveries as processed."""
    if released := lease.release(uow, delivery_ids):
        done = update(WebhookDelivery).where(WebhookDelivery.delivery_id.in_(released))
        uow.session.execute(done.values(processed_at=uow.now))


def _apply_all(
    uow_factory: UnitOfWorkFactory, github: GitHub, lease: Lease, requests: Mapping[str, Sequence[RefreshRequest]]
) -> None:
    """Apply the requests of each delivery, each distinct request once, and mark the deliveries as processed.

    Raise LeaseLostError if another process has taken the deliveries that are left.
    """
    errors: dict[RefreshRequest, GitHubError | None] = {}
    attempts = {row.delivery_id: row.attempts for row in lease.rows}
    left = set(requests)
    for delivery_id, found in requests.items():
        for request in found:
            if request not in errors:
                with uow_factory.open(GITHUB_CALLER) as uow:
                    if not lease.renew(uow, left):
                        raise LeaseLostError
                errors[request] = _apply_refresh(uow_factory, github, request)
        left.remove(delivery_id)
        error = next((errors[request] for request in found if errors[request] is not None), None)
        with uow_factory.open(GITHUB_CALLER) as uow:
            if error is None:
                _finish(uow, lease, [delivery_id])
            else:
                given_up = attempts[delivery_id] + 1 >= MAX_ATTEMPTS
                due_at = None if given_up else uow.now + DELIVERIES.retry.delay(attempts[delivery_id])
                lease.fail(uow, error.code, error.message, due_at, keys=[delivery_id])


def _apply_refresh(uow_factory: UnitOfWorkFactory, github: GitHub, request: RefreshRequest) -> GitHubError | None:
    """Refresh the requested object and its rules; return the error if it must be retried.

    Nothing has to be read again after what we have written ourselves.
    """
    if isinstance(request, InstallationRefresh | RepositoryRefresh) and request.written is not None:
        with uow_factory.open(GITHUB_CALLER) as uow:
            if is_echo(uow, request, github.settings.app_id):
                return None
    _schedule_probes(uow_factory, request)
    try:
        if isinstance(request, InstallationRefresh):
            if refresh_status(uow_factory, github, request.installation_id) == "active":
                with uow_factory.open(GITHUB_CALLER) as uow:
                    request_comparison(uow, [request.installation_id])
        elif isinstance(request, FactsRefresh):
            with uow_factory.open(GITHUB_CALLER) as uow:
                judge_again(uow, request.installation_id, request.team_id)
        elif isinstance(request, RequestedAction):
            handle_check_action(uow_factory, github, request)
        elif isinstance(request, RepositoryRefresh):
            sync.refresh_repository(uow_factory, github, request.github_id)
    except GitHubError as error:
        logger.warning("a refresh request of a delivery failed: %s", error)
        return error
    return None


def _schedule_probes(uow_factory: UnitOfWorkFactory, request: RefreshRequest) -> None:
    """Schedule probes of the rules, which depend on rulesets, names, owners, permissions and default branches."""
    with uow_factory.open(GITHUB_CALLER) as uow:
        if isinstance(request, InstallationRefresh):
            schedule_installation_probes(uow, request.installation_id, rules_changed=request.rules_changed)
        elif isinstance(request, RepositoryRefresh):
            schedule_repository_probes(uow, request.github_id, rules_changed=True)


def _names(requests: Iterable[BranchRefresh]) -> dict[int, set[str]]:
    """Return the branch names of the requests by repository."""
    names: dict[int, set[str]] = defaultdict(set)
    for request in requests:
        names[request.github_id] |= request.names
    return names


_NAMED = text("""
    WITH named AS (
        SELECT b.id, bool_or(n.read_back) AS read_back
        FROM unnest(CAST(:repositories AS bigint[]), CAST(:names AS text[]), CAST(:read_back AS boolean[]),
                    CAST(:for_rules AS boolean[]))
             AS n (repository, name, read_back, for_rules)
        JOIN repositories r ON r.github_id = n.repository
        JOIN watched_branches b ON b.repository_id = r.id AND (n.name IS NULL OR n.name = b.name)
        WHERE NOT n.for_rules
           OR EXISTS (SELECT FROM exception_rules e WHERE e.organization_id = b.organization_id AND e.enabled)
              AND EXISTS (SELECT FROM freeze_targets t WHERE t.branch_id = b.id AND t.operation = 'apply')
        GROUP BY b.id
    )
    SELECT id, read_back FROM named
""")


def mark_due(uow: UnitOfWork, requests: Iterable[BranchRefresh]) -> None:
    """Make the requested branches due; the checks of a requested head are read back."""
    rows: list[tuple[int, str | None, bool, bool]] = [
        (request.github_id, name, request.head_sha is not None, request.for_rules)
        for request in requests
        for name in (sorted(request.names) if request.names else [None])
    ]
    _mark(uow, rows)


def _mark(uow: UnitOfWork, rows: Sequence[tuple[int, str | None, bool, bool]]) -> None:
    """Make branches due: GitHub's id of the repository, name or None for all, whether to read back, and for rules."""
    if rows:
        repositories, names, read_back, for_rules = map(list, zip(*rows, strict=True))
        values = {"repositories": repositories, "names": names, "read_back": read_back, "for_rules": for_rules}
        branches: dict[str, bool] = {row.id: row.read_back for row in uow.session.execute(_NAMED, values)}
        mark_dirty(uow.session, list(branches), uow.now, outdated=False)
        request_read_back(uow.session, [branch_id for branch_id, again in branches.items() if again], uow.now)
        uow.wake("reconcile")
