"""Applying: writing the rulesets of a setup that was asked for, with the App's own permission.

One turn of a lease does the organisation's rulesets and those of some repositories; what is left is due again. Every
turn reads the code host anew, so it is right whatever happened in between: a ruleset that was written is found to be
as wanted, and one whose creation was announced and not recorded is recognised (`services/enforcement/setups.py`).
"""

import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from integrations.github import ErrorKind, GitHub, GitHubError
from models.enforcement import EnforcementSetup
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.rulesets.plans import Change
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.facts import Facts, gather
from services.enforcement.setups import Pen, note, patient, unready
from services.enforcement.surveying import Survey
from services.enforcement_status.probe_requests import schedule_probes
from services.github_access.failures import RATE_LIMITS
from services.github_access.pauses import pause_installation
from services.github_access.rate_limiter import background_client, learn_from_refused_write

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
TURN = 20
"""Repositories looked at in one turn."""
BETWEEN_TURNS = timedelta(seconds=8)
"""After a turn that wrote, so that writing takes its share of the room little by little."""
LOOK_AGAIN = timedelta(seconds=2)
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=5)
MOST_TRIES = 30
"""Faults of the code host in a row after which a setup is given up: about two hours."""
TOLD_FAILURES = 5

_LEASE = text("""
    UPDATE enforcement_setups SET lease_until = :until, attempts = attempts + 1 WHERE id = (
        SELECT s.id FROM enforcement_setups s
        WHERE s.due_at <= :now AND (s.lease_until IS NULL OR s.lease_until <= :now)
          AND NOT EXISTS (SELECT FROM enforcement_setups o WHERE o.organization_id = s.organization_id
                          AND o.id <> s.id AND o.due_at IS NOT NULL AND o.lease_until > :now)
          AND NOT EXISTS (SELECT FROM installations i WHERE i.organization_id = s.organization_id
                          AND i.paused_until > :now)
        ORDER BY s.due_at, s.id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, organization_id, requested_by
""")
_RENEW = text(
    "UPDATE enforcement_setups SET lease_until = :until WHERE id = :id AND lease_until = :mine AND lease_until > :now "
    "RETURNING lease_until"
)
_RELEASE = text(
    "UPDATE enforcement_setups SET lease_until = NULL, due_at = :due WHERE id = :id AND lease_until = :mine"
)


class LeaseLostError(Exception):
    """Somebody else may be at this setup by now; nothing more is recorded for it."""


@dataclass(slots=True)
class Lease:
    """One setup, ours until `until`."""

    uow_factory: UnitOfWorkFactory
    setup_id: str
    caller: Caller
    until: datetime
    installation_id: int | None = None
    failures: list[str] = field(default_factory=list)
    wrote: bool = False

    def keep(self, uow: UnitOfWork) -> None:
        """Prolong the lease; raises `LeaseLostError` if it has run out."""
        values = {"id": self.setup_id, "mine": self.until, "now": uow.now, "until": uow.now + LEASE}
        renewed = uow.session.execute(_RENEW, values).scalar()
        if renewed is None:
            raise LeaseLostError
        self.until = renewed

    def release(self, uow: UnitOfWork, due: datetime | None) -> None:
        """Give the setup back, due at that time."""
        uow.session.execute(_RELEASE, {"id": self.setup_id, "mine": self.until, "due": due})


def setups_wait(uow: UnitOfWork) -> bool:
    """Tell whether a setup is due that nobody is at; for the sweeper."""
    return bool(
        uow.session.scalar(
            text(
                "SELECT EXISTS (SELECT FROM enforcement_setups WHERE due_at <= :now "
                "AND (lease_until IS NULL OR lease_until <= :now))"
            ),
            {"now": uow.now},
        )
    )


def apply_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Do one turn of a setup that is due; False when none is."""
    lease = _lease(uow_factory)
    if lease is None:
        return False
    try:
        _turn(lease, github)
    except LeaseLostError:
        logger.warning("setup %s took longer than its lease", lease.setup_id)
    except GitHubError as error:
        _put_off(lease, error)
    except ServiceError as error:
        _end(lease, [], f"{error.code}: {error.message}", error.code)
    return True


def _lease(uow_factory: UnitOfWorkFactory) -> Lease | None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        uow.session.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('enforcement setups', 0))"))
        uow.refresh_now()
        until = uow.now + LEASE
        row = uow.session.execute(_LEASE, {"now": uow.now, "until": until}).one_or_none()
    if row is None:
        return None
    return Lease(uow_factory, row.id, Caller(row.organization_id, Actor(**row.requested_by), "dashboard"), until)


def _turn(lease: Lease, github: GitHub) -> None:
    """Write what one turn may; raises `GitHubError` for what another try can mend, or nothing can."""
    with lease.uow_factory.open(lease.caller) as uow:
        lease.keep(uow)
        setup = uow.session.get_one(EnforcementSetup, lease.setup_id)
        facts = gather(uow, setup.scope)
        lease.installation_id = facts.installation_id
        lease.failures = list(setup.progress.get("failures", ()))
        due = _repositories_due(facts, setup.progress)
        if patient(setup, uow.now) and unready(uow, _branches(facts, due[:TURN], setup.progress)):
            return lease.release(uow, uow.now + LOOK_AGAIN)
    client = background_client(lease.uow_factory, github, facts.installation_id)
    with client.together():
        survey = Survey(github, client, facts)
        above = survey.above
    pen = Pen(
        uow_factory=lease.uow_factory,
        caller=lease.caller,
        setup_id=lease.setup_id,
        installation_id=facts.installation_id,
        writer=client,
        keep=lease.keep,
        details={},
    )
    if "writing" in setup.progress and pen.recover(setup.progress["writing"]):
        return _release(lease, timedelta(0))  # what is ours may be other than was planned from
    _write(lease, pen, above)
    due = [each for each in survey.repository_ids if each > str(setup.progress.get("position", ""))]
    for repository_id in due[:TURN]:
        _write(lease, pen, _planned(lease, survey, repository_id))
        _note(lease, position=repository_id)
    if len(due) > TURN:
        return _release(lease, BETWEEN_TURNS if lease.wrote else timedelta(0))
    _write(lease, pen, survey.leftovers())
    reached = [branch.branch_id for each in facts.repositories.values() for branch in each.branches if branch.in_scope]
    return _end(lease, reached)


def _release(lease: Lease, wait: timedelta) -> None:
    with lease.uow_factory.open(lease.caller) as uow:
        lease.release(uow, uow.now + wait)


def _repositories_due(facts: Facts, progress: dict[str, Any]) -> list[str]:
    return [each for each in facts.repositories if each > str(progress.get("position", ""))]


def _branches(facts: Facts, repository_ids: Iterable[str], progress: dict[str, Any]) -> list[str]:
    """Return the branches that this turn may begin to require checks on: all of them at first."""
    ids = repository_ids if progress.get("position") or not facts.whole else facts.repositories
    return [branch.branch_id for each in ids for branch in facts.repositories[each].branches if branch.in_scope]


def _planned(lease: Lease, survey: Survey, repository_id: str) -> list[Change]:
    """Plan one repository; what the code host refuses to show for good is a failure of that repository alone.

    The common deadline is that of the reading: it has ended when the first change is written.
    """
    try:
        with survey.client.together():
            return survey.below(repository_id)
    except GitHubError as error:
        _fail(lease, survey.facts.repositories[repository_id].full_name, error)
        return []


def _write(lease: Lease, pen: Pen, changes: Iterable[Change]) -> None:
    """Write changes; nothing is removed once something that may have been to replace it could not be written."""
    for change in changes:
        if (change.action == "none" and not change.adopted) or (change.removes and lease.failures):
            continue
        try:
            pen.write(change)
            lease.wrote = True
        except GitHubError as error:
            _learn(pen, error)
            _fail(lease, change.place.repository or change.place.account, error)


def _learn(pen: Pen, error: GitHubError) -> None:
    """Have writing count for more where the code host has refused it, so that it is not refused every minute anew."""
    if error.kind is ErrorKind.SECONDARY_RATE_LIMIT:
        with pen.uow_factory.open(SYSTEM_CALLER) as uow:
            learn_from_refused_write(uow, pen.installation_id, uow.dependencies.rate_limits)


def _fail(lease: Lease, where: str, error: GitHubError) -> None:
    """Remember what could not be written for good; raises what another try may mend, or what concerns everything."""
    if error.transient or error.kind in {ErrorKind.INSTALLATION_REMOVED, ErrorKind.APP_REFUSED}:
        raise error
    lease.failures.append(f"{where}: {error.message}")
    _note(lease, failures=lease.failures, failureCode=error.code)


def _note(lease: Lease, **progress: Any) -> None:
    with lease.uow_factory.open(lease.caller) as uow:
        lease.keep(uow)
        note(uow, lease.setup_id, tries=0, **progress)


def _put_off(lease: Lease, error: GitHubError) -> None:
    """Have another try later, or give up: after too many, or where nothing can be written any more."""
    with lease.uow_factory.open(lease.caller) as uow:
        setup = uow.session.get_one(EnforcementSetup, lease.setup_id)
        limited = error.kind in RATE_LIMITS
        tries = int(setup.progress.get("tries", 0)) + (not limited)
        hopeless = not error.transient or tries > MOST_TRIES
        if not hopeless:
            wait = max(timedelta(seconds=error.retry_after or 0), _backoff(tries))
            if error.kind is ErrorKind.SECONDARY_RATE_LIMIT and lease.installation_id is not None:
                pause_installation(uow, lease.installation_id, uow.now + wait)
            note(uow, lease.setup_id, tries=tries)
            setup.last_error_code, setup.last_error_message = error.code, error.message
            uow.session.flush()
            lease.release(uow, uow.now + wait)
            return
    _end(lease, [], error.message, error.code)


def _backoff(tries: int) -> timedelta:
    longest: timedelta = min(FIRST_RETRY * 2 ** min(tries, 10), LONGEST_RETRY)
    return longest * (0.5 + random.random() / 2)  # noqa: S311 - jitter, no secret


def _end(lease: Lease, branch_ids: list[str], message: str | None = None, code: str | None = None) -> None:
    """Finish the setup, done or failed, and have its branches probed."""
    with lease.uow_factory.open(lease.caller) as uow:
        try:
            lease.keep(uow)
        except LeaseLostError:
            return
        setup = uow.session.get_one(EnforcementSetup, lease.setup_id, with_for_update=True)
        if message is None and lease.failures:
            code = str(setup.progress.get("failureCode"))
            told = "; ".join(list(dict.fromkeys(lease.failures))[:TOLD_FAILURES])
            message = f"{len(lease.failures)} could not be written: {told}"
        setup.state = "failed" if message else "done"
        setup.last_error_code, setup.last_error_message = code, message
        setup.finished_at, setup.due_at, setup.lease_until = uow.now, None, None
        if branch_ids:
            schedule_probes(uow, branch_ids)
            uow.wake("verify")
