"""Runs of a setup: write the rulesets that were requested, with the App's own permission.

One time slice writes the organisation's rulesets and those of some repositories; what is left is due again. Every
slice reads GitHub again, so it is right whatever happened in between: a ruleset that was written is found to be
as wanted, and one whose creation was announced and not recorded is recognised (`services/enforcement/setups.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import exists, select, update
from sqlalchemy.orm import aliased

from integrations.github import CALL_DEADLINE_SECONDS, INACTIVE_INSTALLATION, ErrorKind, GitHub, GitHubError
from models.enforcement import EnforcementSetup
from models.installations import Installation
from models.queries import NOW
from rules.access.permissions import SYSTEM, Actor
from rules.errors import ServiceError
from rules.rate_budget import GitHubLimits
from rules.rulesets.plans import Change
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue
from services.enforcement.authorization import CODE
from services.enforcement.facts import SetupFacts, read_facts_of_setup
from services.enforcement.own_rules import branches_without_rule
from services.enforcement.setups import RulesetWriter, branches_without_verdict, save_progress, should_wait_for_verdicts
from services.enforcement.survey import Survey
from services.enforcement_status.probe_requests import schedule_probes
from services.github_access.backoff import backoff
from services.github_access.failures import RATE_LIMITS
from services.github_access.pauses import pause_installation
from services.github_access.rate_limiter import background_client, learn_from_refused_write

REPOSITORIES_PER_SLICE = 20
TIME_SLICE_INTERVAL = timedelta(seconds=8)
"""After a time slice that wrote: writing takes its share of the rate-limit budget little by little."""
VERDICTS_POLL_INTERVAL = timedelta(seconds=2)
"""While heads of the branches still lack their verdict."""
MAX_ATTEMPTS = 30
"""Failures of GitHub in a row after which a setup is given up: about two hours."""
MAX_LISTED_FAILURES = 5

_other = aliased(EnforcementSetup)
SETUPS = WorkQueue(
    "setup",
    EnforcementSetup,
    select(EnforcementSetup.id, EnforcementSetup.organization_id, EnforcementSetup.requested_by)
    .where(
        ~exists().where(
            _other.organization_id == EnforcementSetup.organization_id,
            _other.id != EnforcementSetup.id,
            _other.due_at.is_not(None),
            _other.lease_until > NOW,
        ),
        ~exists().where(
            Installation.organization_id == EnforcementSetup.organization_id, Installation.paused_until > NOW
        ),
    )
    .order_by(EnforcementSetup.due_at, EnforcementSetup.id),
    call_timeout=timedelta(seconds=CALL_DEADLINE_SECONDS),
)
"""Setups that are to be written, one at a time of each organisation."""


@dataclass(slots=True)
class SetupRun:
    """One time slice of a setup, and what has happened in it."""

    uow_factory: UnitOfWorkFactory
    setup_id: str
    caller: Caller
    lease: Lease
    installation_id: int | None = None
    failures: list[str] = field(default_factory=list)
    wrote: bool = False


def apply_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Run one time slice of a setup that is due; False if none is."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        acquire_lock(uow, "enforcement setups")
        lease = SETUPS.acquire(uow)
    if lease is None:
        return False
    actor = Actor(**lease.row.requested_by)
    caller = Caller(lease.row.organization_id, actor, "system" if actor == SYSTEM else "dashboard")
    run = SetupRun(uow_factory, lease.row.id, caller, lease)
    with lease.while_held(uow_factory):
        try:
            _run(run, github)
        except GitHubError as error:
            _retry(run, error)
        except ServiceError as error:
            _end(run, [], f"{error.code}: {error.message}", error.code)
    return True


def _run(run: SetupRun, github: GitHub) -> None:
    """Write what one time slice may. Raise `GitHubError` if the rest has to be retried, or given up."""
    with run.uow_factory.open(run.caller) as uow:
        run.lease.require(uow)
        setup = uow.session.get_one(EnforcementSetup, run.setup_id)
        facts = read_facts_of_setup(uow, setup)
        run.installation_id = facts.installation_id
        run.failures = list(setup.progress.get("failures", ()))
        due = _repositories_due(facts, setup.progress)
        if should_wait_for_verdicts(setup, uow.now) and branches_without_verdict(
            uow, _branches(facts, due[:REPOSITORIES_PER_SLICE], setup.progress)
        ):
            run.lease.postpone(uow, uow.now + VERDICTS_POLL_INTERVAL)
            return None
    client = background_client(run.uow_factory, github, facts.installation_id, run.lease)
    with client.shared_deadline():
        survey = Survey(github, client, facts)
        organization_changes = survey.organization_changes
    ruleset_writer = RulesetWriter(
        uow_factory=run.uow_factory,
        caller=run.caller,
        setup_id=run.setup_id,
        installation_id=facts.installation_id,
        api=client,
        renew=run.lease.require,
        details={},
    )
    if "writing" in setup.progress and ruleset_writer.recover(setup.progress["writing"]):
        return _postpone(run, timedelta(0))  # what is ours may be other than was planned from
    _write(run, facts, ruleset_writer, organization_changes)
    due = [each for each in survey.repository_ids if each > str(setup.progress.get("position", ""))]
    for repository_id in due[:REPOSITORIES_PER_SLICE]:
        _write(run, facts, ruleset_writer, _planned(run, survey, repository_id))
        _save_progress(run, position=repository_id)
    if len(due) > REPOSITORIES_PER_SLICE:
        return _postpone(run, TIME_SLICE_INTERVAL if run.wrote else timedelta(0))
    _write(run, facts, ruleset_writer, survey.organization_removals())
    reached = [branch.branch_id for each in facts.repositories.values() for branch in each.branches if branch.in_scope]
    return _end(run, reached)


def _postpone(run: SetupRun, wait: timedelta) -> None:
    with run.uow_factory.open(run.caller) as uow:
        run.lease.postpone(uow, uow.now + wait)


def _repositories_due(facts: SetupFacts, progress: dict[str, Any]) -> list[str]:
    return [each for each in facts.repositories if each > str(progress.get("position", ""))]


def _branches(facts: SetupFacts, repository_ids: Iterable[str], progress: dict[str, Any]) -> list[str]:
    """Return the branches that this time slice may begin to require checks on: all of them at first."""
    ids = repository_ids if progress.get("position") or not facts.whole else facts.repositories
    return [branch.branch_id for each in ids for branch in facts.repositories[each].branches if branch.in_scope]


def _planned(run: SetupRun, survey: Survey, repository_id: str) -> list[Change]:
    """Plan one repository; a permanent error of GitHub is a failure of that repository only.

    The common deadline is that of the reading: it has ended when the first change is written.
    """
    try:
        with survey.client.shared_deadline():
            return survey.repository_changes(repository_id)
    except GitHubError as error:
        _fail_unless_transient(run, survey.facts.repositories[repository_id].full_name, error)
        return []


def _write(run: SetupRun, facts: SetupFacts, ruleset_writer: RulesetWriter, changes: Iterable[Change]) -> None:
    """Write changes, except of repositories whose rulesets no administrator has authorised.

    Nothing is removed once a change that may have been to replace it could not be written.
    """
    for change in changes:
        if (change.action == "none" and not change.recognized) or (change.removes and run.failures):
            continue
        if change.action != "none" and (names := facts.unauthorized([change])):
            _fail(run, names[0], CODE, "an administrator must authorise its rulesets; apply again")
            continue
        try:
            ruleset_writer.write(change)
            run.wrote = True
        except GitHubError as error:
            _learn(ruleset_writer, error)
            _fail_unless_transient(run, change.place.repository or change.place.account, error)


def _learn(ruleset_writer: RulesetWriter, error: GitHubError) -> None:
    """Count writes as more expensive after GitHub has rejected one, so that it does not reject one every minute."""
    if error.kind is ErrorKind.SECONDARY_RATE_LIMIT:
        with ruleset_writer.uow_factory.open(SYSTEM_CALLER) as uow:
            learn_from_refused_write(uow, ruleset_writer.installation_id, uow.ports[GitHubLimits])


def _fail_unless_transient(run: SetupRun, where: str, error: GitHubError) -> None:
    """Record a permanent failure; raise an error that a retry may solve, or that concerns the whole installation."""
    if error.transient or error.kind in INACTIVE_INSTALLATION | {ErrorKind.APP_REFUSED}:
        raise error
    _fail(run, where, error.code, error.message)


def _fail(run: SetupRun, where: str, code: str, message: str) -> None:
    """Record what could not be written; the setup goes on."""
    run.failures.append(f"{where}: {message}")
    _save_progress(run, failures=run.failures, failureCode=code)


def _save_progress(run: SetupRun, **progress: Any) -> None:
    """Save members of the setup's `progress`; failures are no longer in a row."""
    with run.uow_factory.open(run.caller) as uow:
        run.lease.require(uow)
        save_progress(uow, run.setup_id, **progress)
        uow.session.execute(update(EnforcementSetup).where(EnforcementSetup.id == run.setup_id).values(attempts=0))


def _retry(run: SetupRun, error: GitHubError) -> None:
    """Have the setup retried later, or give up: after too many attempts, or where nothing more can be written."""
    with run.uow_factory.open(run.caller) as uow:
        attempts = uow.session.get_one(EnforcementSetup, run.setup_id).attempts
        waits = error.kind in RATE_LIMITS or error.kind in {ErrorKind.APP_REFUSED, ErrorKind.WITHHELD}
        if waits or (error.transient and attempts < MAX_ATTEMPTS):
            delay = max(backoff(error, attempts), SETUPS.retry.delay(attempts))
            if error.kind is ErrorKind.SECONDARY_RATE_LIMIT and run.installation_id is not None:
                pause_installation(uow, run.installation_id, uow.now + delay)
            run.lease.fail(uow, error.code, error.message, uow.now + delay, counted=not waits)
            return
    _end(run, [], error.message, error.code)


def _end(run: SetupRun, branch_ids: list[str], message: str | None = None, code: str | None = None) -> None:
    """Finish the setup, done or failed, and have its branches probed."""
    with run.uow_factory.open(run.caller) as uow:
        if not run.lease.renew(uow):
            return
        setup = uow.session.get_one(EnforcementSetup, run.setup_id, with_for_update=True)
        if message is None and run.failures:
            code = str(setup.progress.get("failureCode"))
            listed = "; ".join(list(dict.fromkeys(run.failures))[:MAX_LISTED_FAILURES])
            message = f"{len(run.failures)} could not be written: {listed}"
        setup.state = "failed" if message else "done"
        setup.finished_at = uow.now
        uow.session.flush()
        if message:
            run.lease.fail(uow, code or "internal_error", message, None)
        else:
            run.lease.release(uow)
        others = branches_without_rule(uow) if setup.scope["type"] != "branch" else ()
        schedule_probes(uow, {*branch_ids, *others})
