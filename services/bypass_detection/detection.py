"""Landings: commits that arrive on frozen branches, who brought them there, and what is to be thought of it.

Each pass of the reconciler notes the commits that the branches point at. One that has moved while a freeze covered it
is due; `examine_landings` then reads what the code host itself recorded (its activity, the pull request, all runs of
our check), `rules/freezes/bypass.py` judges it, and `services/bypass_detection/reports.py` writes it down once.

What is not noticed: a branch that was moved and moved back between two looks, and what landed before a branch that has
just begun to be watched was first seen. Deleting a branch lands nothing; making it anew at another commit is a push.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from integrations.github import BranchHeads, GitHub, GitHubError
from services.bypass_detection.evidence import Examined, IncompleteError, LandedBranch, examine
from services.bypass_detection.reports import report
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.github_access.backoff import NEEDS_OPERATOR, backoff
from services.github_access.failures import RATE_LIMITS, is_installation_wide, pause_when_limited
from services.github_access.rate_limiter import background_client

logger = logging.getLogger(__name__)

LOOKING = timedelta(minutes=5)
"""A branch was looked at so long, at most, before that was written down."""
LEASE = timedelta(minutes=5)
BRANCHES_AT_ONCE = 10
MOST_INCOMPLETE = 8
"""Attempts after which the code host is taken at its word, though it does not tell how the commit came."""

# A freeze that ended since the branch was last seen counts as well; each moved branch costs one look into an index.
_NOTE = text("""
    WITH seen AS (
        SELECT b.id, b.organization_id, n.sha, coalesce(b.tip_sha <> n.sha, false) AS moved, b.tip_seen_at
        FROM unnest(CAST(:ids AS text[]), CAST(:shas AS text[])) AS n (id, sha)
        JOIN watched_branches b ON b.id = n.id ORDER BY b.id FOR NO KEY UPDATE OF b
    ), recent AS MATERIALIZED (
        SELECT f.id FROM freezes f
        WHERE f.organization_id IN (SELECT organization_id FROM seen WHERE moved) AND f.started_at <= :now
          AND coalesce(least(f.ended_at, f.ends_at), 'infinity')
              > (SELECT min(tip_seen_at) FROM seen WHERE moved) - CAST(:looking AS interval)
    ), landed AS (
        SELECT DISTINCT t.branch_id AS id FROM recent JOIN freeze_targets t ON t.freeze_id = recent.id
        WHERE t.branch_id IN (SELECT id FROM seen WHERE moved)
    )
    UPDATE watched_branches b
    SET tip_sha = seen.sha, tip_seen_at = :now,
        landings_due_at = CASE WHEN landed.id IS NULL THEN b.landings_due_at ELSE :now END,
        landings_since = CASE WHEN landed.id IS NULL THEN b.landings_since
                              ELSE least(b.landings_since, seen.tip_seen_at) END,
        landings_attempts = CASE WHEN landed.id IS NULL THEN b.landings_attempts ELSE 0 END
    FROM seen LEFT JOIN landed ON landed.id = seen.id
    WHERE b.id = seen.id
    RETURNING landed.id
""")


def note_tips(uow: UnitOfWork, seen: Iterable[tuple[str, BranchHeads]]) -> None:
    """Write down the commits that branches (by id) point at; one that moved under a freeze is looked into.

    A branch that is seen for the first time only gets a commit to compare with; one that is not there keeps it.
    """
    tips = {branch_id: heads.sha for branch_id, heads in seen if heads.sha is not None}
    if not tips:
        return
    values = {"ids": list(tips), "shas": list(tips.values()), "now": uow.now, "looking": LOOKING}
    if any(uow.session.scalars(_NOTE, values).all()):
        uow.wake("landings")


_DUE = """
    FROM watched_branches b
    JOIN repositories r ON r.id = b.repository_id
    JOIN installations i ON i.id = r.installation_id
    WHERE b.landings_due_at <= :now AND r.removed_at IS NULL AND i.state = 'active'
      AND (i.paused_until IS NULL OR i.paused_until <= :now)
"""
_NEXT = text(f"SELECT r.installation_id {_DUE} ORDER BY b.landings_due_at LIMIT 1")
_CLAIM = text(
    f"""
    WITH due AS (
        SELECT b.id, r.owner, r.name {_DUE} AND r.installation_id = :installation
        ORDER BY b.landings_due_at LIMIT :most FOR NO KEY UPDATE OF b SKIP LOCKED
    )
    UPDATE watched_branches b SET landings_due_at = :until FROM due WHERE b.id = due.id
    RETURNING b.id, b.organization_id, due.owner, due.name, b.name, b.check_name, b.tip_sha, b.landings_since,
              b.landings_attempts
    """  # noqa: S608 - constants only
)
# Only whoever still holds the lease gives it back: a branch that has moved again meanwhile stays due.
_DONE = text("""
    UPDATE watched_branches SET landings_due_at = NULL, landings_since = NULL, landings_attempts = 0
    WHERE id = :branch AND landings_due_at = :until
""")
_LATER = text("""
    UPDATE watched_branches SET landings_due_at = :due, landings_attempts = landings_attempts + :failed
    WHERE id = :branch AND landings_due_at = :until
""")


def landings_wait(uow: UnitOfWork) -> bool:
    """Tell whether commits wait to be looked into; for the sweeper."""
    return uow.session.scalar(_NEXT, {"now": uow.now}) is not None


@dataclass(frozen=True, slots=True)
class _Turn:
    """Due branches of one installation, nobody else's until `until`."""

    installation_id: int
    until: datetime
    branches: Sequence[LandedBranch]


def examine_landings(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Look into the branches of one installation whose commits are due; False when none is, or others hold them."""
    turn = _claim(uow_factory)
    if turn is None or not turn.branches:
        return False
    client = background_client(uow_factory, github, turn.installation_id)
    left = list(turn.branches)
    while left:
        branch = left.pop(0)
        try:
            found = examine(
                uow_factory, client, github.settings.app_id, branch, patient=branch.attempts < MOST_INCOMPLETE
            )
        except GitHubError as error:
            given_back = [branch, *left] if is_installation_wide(error) else [branch]
            _put_off(uow_factory, turn, given_back, error)
            if is_installation_wide(error):
                break
            continue
        _finish(uow_factory, turn, branch, found)
    return True


def _claim(uow_factory: UnitOfWorkFactory) -> _Turn | None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        installation_id = uow.session.scalar(_NEXT, {"now": uow.now})
        if installation_id is None:
            return None
        until = uow.now + LEASE
        values = {"installation": installation_id, "now": uow.now, "until": until, "most": BRANCHES_AT_ONCE}
        return _Turn(installation_id, until, [LandedBranch(*row) for row in uow.session.execute(_CLAIM, values)])


def _finish(uow_factory: UnitOfWorkFactory, turn: _Turn, branch: LandedBranch, found: Sequence[Examined]) -> None:
    for examined in found:
        report(uow_factory, branch, examined)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        uow.session.execute(_DONE, {"branch": branch.id, "until": turn.until})


def _put_off(uow_factory: UnitOfWorkFactory, turn: _Turn, branches: Sequence[LandedBranch], error: GitHubError) -> None:
    """Try again when the code host allows it, else after longer each time, seldom where only a person can help.

    Waiting for a limit is no attempt: whoever has waited long takes the code host at its word no sooner.
    """
    if not isinstance(error, IncompleteError):
        level = logging.WARNING if error.kind in NEEDS_OPERATOR else logging.INFO
        logger.log(level, "what landed on %s cannot be read: %s", [branch.full_name for branch in branches], error)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        pause_when_limited(uow, turn.installation_id, error)
        for branch in sorted(branches, key=lambda branch: branch.id):
            due = uow.now + backoff(error, branch.attempts)
            values = {
                "branch": branch.id,
                "until": turn.until,
                "due": due,
                "failed": int(error.kind not in RATE_LIMITS),
            }
            uow.session.execute(_LATER, values)
