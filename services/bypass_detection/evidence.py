"""The evidence on a push: what GitHub recorded of it, and the freezes that covered the branch at the time."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from integrations.github import Activity, CheckState, ErrorKind, GitHubError, InstallationClient, PullOfCommit
from rules.freezes.bypass import (
    MERGES,
    Classification,
    ExceptionPeriod,
    FreezePeriod,
    Push,
    Run,
    classify,
    exceptions_at,
    freezes_at,
    reduce_by_ended_exceptions,
)
from services.core.unit_of_work import UnitOfWorkFactory, system_caller

MARGIN = timedelta(minutes=15)
"""How far GitHub's clock may be behind ours, and a read of a branch before it was recorded; costs no call."""
DELETED_ACCOUNT = "ghost"
"""The account that GitHub shows in place of a deleted one."""


class IncompleteError(GitHubError):
    """GitHub does not list the push yet."""

    def __init__(self) -> None:
        super().__init__(ErrorKind.UNAVAILABLE, "GitHub does not list the push of the commit yet")


@dataclass(frozen=True, slots=True)
class PushedBranch:
    """A branch that has moved while a freeze covered it."""

    id: str
    organization_id: str
    owner: str
    repository: str
    name: str
    check_name: str
    tip_sha: str
    since: datetime
    """When it was last read before it moved."""
    attempts: int

    @property
    def full_name(self) -> str:
        """`owner/name:branch`, as audit entries name branches."""
        return f"{self.owner}/{self.repository}:{self.name}"


@dataclass(frozen=True, slots=True)
class RuleHistory:
    """What is known of the rules of a branch: readings of them, not when people changed them."""

    read: bool = False
    """Whether they were ever read."""
    since: datetime | None = None
    """Since when one required the check, now or the last time; None: never."""
    until: datetime | None = None
    """When one was last seen to require it, if none does any more."""
    replaceable: bool = True
    """Whether the branch could be deleted and made again, when they were last read; nobody is accused without that."""

    def required_at(self, instant: datetime) -> bool | None:
        """Return whether a rule required the check; None if they were not read before."""
        if self.since is None:
            return False if self.read else None
        if instant < self.since:
            return None
        return self.until is None or instant <= self.until


@dataclass(frozen=True, slots=True)
class _History:
    """What the database holds on a branch since it was last read."""

    freezes: Collection[FreezePeriod]
    known: Collection[tuple[str, datetime]]
    """Commit and instant of the pushes that were classified before."""
    rules: RuleHistory
    exceptions: Collection[ExceptionPeriod]
    """The exceptions that were granted for the branch, also those that have ended."""


@dataclass(frozen=True, slots=True)
class ClassifiedPush:
    """A push, its classification, and the exceptions that allowed it."""

    push: Push
    classification: Classification
    exceptions: tuple[str, ...] = ()


def classify_pushes(
    uow_factory: UnitOfWorkFactory,
    client: InstallationClient,
    app_id: int,
    branch: PushedBranch,
    *,
    accept_incomplete: bool,
) -> list[ClassifiedPush]:
    """Classify every push to a branch since it was last read that was not classified before, the oldest first.

    Raise `GitHubError`, and `IncompleteError` if GitHub does not list everything yet, unless `accept_incomplete`.
    """
    listed = client.activity(branch.owner, branch.repository, branch.name, branch.since - MARGIN)
    if not accept_incomplete and branch.tip_sha not in {each.after for each in listed}:
        raise IncompleteError
    history = _read_history(uow_factory, branch)
    found = []
    for activity in _pushes(listed[::-1]):
        if (activity.after, activity.instant) in history.known or not freezes_at(history.freezes, activity.instant):
            continue
        push, runs = _EvidenceReader(client, app_id, branch).evidence(activity, accept_incomplete=accept_incomplete)
        used = exceptions_at(push, history.exceptions)
        freezes = reduce_by_ended_exceptions(push, history.freezes, history.exceptions)
        required = history.rules.required_at(activity.instant)
        classification = classify(
            push,
            runs,
            freezes,
            {each.freeze_id for each in used},
            required=required,
            replaceable=history.rules.replaceable,
        )
        if classification is not None:
            about = classification.freezes if classification.kind == "excepted" else ()
            by = tuple(each.id for each in used if each.freeze_id in about)
            found.append(ClassifiedPush(push, classification, by))
    return found


def _pushes(oldest_first: list[Activity]) -> list[Activity]:
    """Return the activities that are pushes: no deletion, first creation, or creation again at the same commit."""
    found: list[Activity] = []
    deleted: str | None = None
    for activity in oldest_first:
        if activity.how == "branch_deletion":
            deleted = activity.before
        elif activity.how != "branch_creation" or deleted not in {None, activity.after}:
            found.append(activity)
    return found


@dataclass(frozen=True, slots=True)
class _EvidenceReader:
    """Reads from GitHub what belongs to one push."""

    client: InstallationClient
    app_id: int
    branch: PushedBranch

    def evidence(self, activity: Activity, *, accept_incomplete: bool) -> tuple[Push, list[Run]]:
        """Return the push with its pull request, and the runs of our check on its head and the queue's commit."""
        pull = self._pull(activity) if activity.how in MERGES else None
        if pull is None and activity.how in MERGES and not accept_incomplete:
            raise IncompleteError
        push = Push(
            commit=activity.after,
            instant=activity.instant,
            actor=activity.actor or DELETED_ACCOUNT,
            how=activity.how,
            pull_request=pull.number if pull else None,
            head_sha=pull.head_sha if pull else None,
        )
        runs = self._runs(pull.head_sha) if pull else []
        if activity.how not in {"pr_merge", "branch_creation"}:
            runs += self._runs(activity.after)
        return push, runs

    def _pull(self, activity: Activity) -> PullOfCommit | None:
        """Return the pull request that brought the commit to this branch; of several in a queue, the last one."""
        found = self.client.pulls_of_commit(self.branch.owner, self.branch.repository, activity.after)
        merged = {
            (pull.merged_at, pull.number): pull
            for pull in found
            if pull.merged_at is not None and pull.base_ref == self.branch.name
        }
        return merged[max(merged)] if merged else None

    def _runs(self, sha: str) -> list[Run]:
        states = self.client.check_runs(self.branch.owner, self.branch.repository, sha, self.branch.check_name)
        return [run for state in states if (run := self._run(sha, state)) is not None]

    def _run(self, sha: str, state: CheckState) -> Run | None:
        if state.app_id != self.app_id or state.conclusion is None or state.completed_at is None:
            return None
        return Run(state.id, sha, state.conclusion, state.completed_at)


# A branch that was added while the freeze was in force was not frozen before; the audit says when.
_FREEZES = text("""
    SELECT f.id, greatest(f.started_at, (
        SELECT max(a.at) FROM audit_entries a
        WHERE a.organization_id = f.organization_id AND a.at >= f.started_at AND a.action = 'freeze.grew'
          AND a.target ->> 'id' = f.id AND jsonb_exists(a.details -> 'branchIds', t.branch_id)
    )), least(f.ended_at, f.ends_at)
    FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id
    WHERE f.organization_id = :organization AND t.branch_id = :branch AND f.started_at <= :now
      AND coalesce(least(f.ended_at, f.ends_at), 'infinity') > :since
""")
_KNOWN = text("SELECT sha, landed_at FROM frozen_branch_pushes WHERE branch_id = :branch AND landed_at >= :since")
_EXCEPTIONS = text("""
    SELECT e.id, e.freeze_id, p.number, e.decided_at, least(e.revoked_at, e.expired_at, e.expires_at),
           CASE WHEN e.pin_to_head THEN coalesce(e.head_sha, '') END, p.head_sha
    FROM exceptions e JOIN pull_requests p ON p.id = e.pull_request_id
    WHERE e.branch_id = :branch AND e.freeze_id = ANY(:freezes) AND e.decision = 'granted'
""")
_RULES = text("""
    SELECT rules_read_at IS NOT NULL, required_since, required_until, open_ways && ARRAY['deletion', 'creation']
    FROM branch_enforcement WHERE branch_id = :branch
""")


def _read_history(uow_factory: UnitOfWorkFactory, branch: PushedBranch) -> _History:
    with uow_factory.open(system_caller(branch.organization_id)) as uow:
        values = {
            "organization": branch.organization_id,
            "branch": branch.id,
            "since": branch.since - MARGIN,
            "now": uow.now,
        }
        freezes = [FreezePeriod(*row) for row in uow.session.execute(_FREEZES, values)]
        ids = [freeze.freeze_id for freeze in freezes]
        return _History(
            freezes=freezes,
            known={(sha, landed_at) for sha, landed_at in uow.session.execute(_KNOWN, values)},
            rules=RuleHistory(*(uow.session.execute(_RULES, values).one_or_none() or ())),
            exceptions=[ExceptionPeriod(*row) for row in uow.session.execute(_EXCEPTIONS, {**values, "freezes": ids})],
        )
