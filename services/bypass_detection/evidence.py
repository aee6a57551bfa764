"""The evidence of a landing: what the code host recorded of it, beside the freezes that covered the branch then."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from integrations.github import Activity, CheckState, ErrorKind, GitHubError, InstallationClient, PullOfCommit
from rules.access.permissions import SYSTEM
from rules.freezes.bypass import (
    MERGES,
    Classified,
    Cover,
    Exemption,
    Landing,
    Run,
    classify,
    covers,
    held,
    without_exemptions,
)
from services.core.unit_of_work import Caller, UnitOfWorkFactory

MARGIN = timedelta(minutes=15)
"""How far the code host's clock may be behind ours, and a look before what was noted of it; costs no call."""
DELETED_ACCOUNT = "ghost"
"""Who GitHub shows where an account is no more."""


class IncompleteError(GitHubError):
    """The code host does not list yet what has just happened."""

    def __init__(self) -> None:
        super().__init__(ErrorKind.UNAVAILABLE, "GitHub does not tell yet how the commit came to the branch")


@dataclass(frozen=True, slots=True)
class LandedBranch:
    """A branch that has moved while a freeze covered it."""

    id: str
    organization_id: str
    owner: str
    repository: str
    name: str
    check_name: str
    tip_sha: str
    since: datetime
    """When it was last seen before it moved."""
    attempts: int

    @property
    def full_name(self) -> str:
        """`owner/name:branch`, as audit entries name branches."""
        return f"{self.owner}/{self.repository}:{self.name}"


@dataclass(frozen=True, slots=True)
class _History:
    """What the database knows of a branch since it was last seen."""

    freezes: Collection[Cover]
    known: Collection[tuple[str, datetime]]
    """Commit and instant of landings that were judged before."""
    required_since: datetime | None
    """A rule required the check when that was last looked at, which was then."""
    exemptions: Collection[Exemption]
    """The exceptions that were granted into the branch, ended ones as well."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What landed, what is to be thought of it, and by which exceptions it could."""

    landing: Landing
    judged: Classified
    exceptions: tuple[str, ...] = ()


def examine(
    uow_factory: UnitOfWorkFactory, client: InstallationClient, app_id: int, branch: LandedBranch, *, patient: bool
) -> list[Examined]:
    """Judge everything that landed on a branch since it was last seen and was not judged before, the oldest first.

    Raises `GitHubError`; while `patient`, also when the code host has yet to list what it must know.
    """
    listed = client.activity(branch.owner, branch.repository, branch.name, branch.since - MARGIN)
    if patient and branch.tip_sha not in {each.after for each in listed}:
        raise IncompleteError
    history = _read_history(uow_factory, branch)
    found = []
    for activity in _landings(listed[::-1]):
        if (activity.after, activity.instant) in history.known or not covers(history.freezes, activity.instant):
            continue
        landing, runs = _Reader(client, app_id, branch).evidence(activity, patient=patient)
        required = history.required_since is not None and history.required_since <= activity.instant
        used = held(landing, history.exemptions)
        freezes = without_exemptions(landing, history.freezes, history.exemptions)
        judged = classify(landing, runs, freezes, {each.freeze_id for each in used}, required=required)
        if judged is not None:
            by = tuple(each.id for each in used if judged.kind == "excepted" and each.freeze_id in judged.freezes)
            found.append(Examined(landing, judged, by))
    return found


def _landings(oldest_first: list[Activity]) -> list[Activity]:
    """Leave out deletions, branches that were created for the first time, and those that came back unchanged."""
    found: list[Activity] = []
    deleted: str | None = None
    for activity in oldest_first:
        if activity.how == "branch_deletion":
            deleted = activity.before
        elif activity.how != "branch_creation" or deleted not in {None, activity.after}:
            found.append(activity)
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what belongs to one landing."""

    client: InstallationClient
    app_id: int
    branch: LandedBranch

    def evidence(self, activity: Activity, *, patient: bool) -> tuple[Landing, list[Run]]:
        """Return the landing with its pull request, and the runs of our check on its head and the queue's commit."""
        pull = self._pull(activity) if activity.how in MERGES else None
        if pull is None and activity.how in MERGES and patient:
            raise IncompleteError
        landing = Landing(
            commit=activity.after,
            instant=activity.instant,
            actor=activity.actor or DELETED_ACCOUNT,
            how=activity.how,
            pull_request=pull.number if pull else None,
            head_sha=pull.head_sha if pull else None,
        )
        runs = self._runs(pull.head_sha) if pull else []
        if activity.how == "merge_queue_merge":
            runs += self._runs(activity.after)
        return landing, runs

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


# A branch that began to be covered while the freeze was in force was free until then; the audit tells when.
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
_KNOWN = text("SELECT sha, landed_at FROM landings WHERE branch_id = :branch AND landed_at >= :since")
_EXEMPTIONS = text("""
    SELECT e.id, e.freeze_id, p.number, e.decided_at, least(e.revoked_at, e.expired_at, e.expires_at),
           CASE WHEN e.pin_to_head THEN coalesce(e.head_sha, '') END
    FROM exceptions e JOIN pull_requests p ON p.id = e.pull_request_id
    WHERE e.branch_id = :branch AND e.freeze_id = ANY(:freezes) AND e.decision = 'granted'
""")
_REQUIRED = text("SELECT verified_at FROM branch_enforcement WHERE branch_id = :branch AND required")


def _read_history(uow_factory: UnitOfWorkFactory, branch: LandedBranch) -> _History:
    with uow_factory.open(Caller(branch.organization_id, SYSTEM, "system")) as uow:
        values = {
            "organization": branch.organization_id,
            "branch": branch.id,
            "since": branch.since - MARGIN,
            "now": uow.now,
        }
        freezes = [Cover(*row) for row in uow.session.execute(_FREEZES, values)]
        ids = [freeze.freeze_id for freeze in freezes]
        return _History(
            freezes=freezes,
            known={(sha, landed_at) for sha, landed_at in uow.session.execute(_KNOWN, values)},
            required_since=uow.session.scalar(_REQUIRED, values),
            exemptions=[Exemption(*row) for row in uow.session.execute(_EXEMPTIONS, {**values, "freezes": ids})],
        )
