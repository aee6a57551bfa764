"""Pull requests as clients see them: may they be merged, because of what, until when, and does the code host show it.

The verdict comes from `rules.freezes.verdict` on the same facts as the reconciler's, and the text of the check from
the same rules: a head that several pull requests share under one check name is judged with all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select, tuple_

from models.exceptions import PullRequestException
from models.pull_requests import HeadCheck, PullRequest
from models.queries import covering_freezes
from models.repositories import Repository, WatchedBranch
from rules.access.entitlements import plan_named
from rules.freezes.check_text import summary, title
from rules.freezes.verdict import CoveringFreeze, MergeCandidate, Verdict, judge
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.holding import Covering, Held, held_exceptions
from services.pull_request_exceptions.states import states_of
from services.repositories.tracked_pull_requests import TrackedPullRequest, is_base

WAITING = frozenset({"github_rate_limited", "github_secondary_rate_limit"})
"""Errors that pass by themselves: the check is late, it has not failed."""
_OF_AN_EXCEPTION = (
    "id",
    "freeze_id",
    "reason",
    "pin_to_head",
    "head_sha",
    "requested_by",
    "requested_at",
    "decided_by",
    "decided_at",
    "decision_reason",
    "expires_at",
)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What was read for all of the pull requests at once."""

    siblings: Mapping[tuple[str, str], Sequence[TrackedPullRequest]]
    freezes: Covering
    held: Held
    exceptions: Mapping[str, Sequence[dict[str, Any]]]
    checks: Mapping[tuple[str, str, str], HeadCheck]
    entitled: bool

    def claim(self, row: TrackedPullRequest) -> MergeCandidate:
        return self.held.claim((row.branch.id, row.branch.name), row.pull.number, row.pull.head_sha, self.freezes)


def views(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> list[dict[str, Any]]:
    """Return pull requests as the contract's objects: a few queries, however many they are."""
    siblings = _siblings(uow, rows)
    concerned = {row.branch.id for row in rows} | {row.branch.id for group in siblings.values() for row in group}
    freezes = covering_freezes(uow.session, concerned, uow.now)
    facts = _Facts(
        siblings,
        freezes,
        held_exceptions(uow.session, freezes, uow.now),
        _exceptions(uow, rows, freezes),
        _checks(uow, rows),
        "pr_exceptions" in plan_named(uow.caller.plan).entitlements,
    )
    return [_view(row, facts) for row in rows]


def _siblings(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> dict[tuple[str, str], list[TrackedPullRequest]]:
    """Return the open pull requests on each head, whatever their base."""
    heads = {row.head for row in rows}
    query = (
        select(PullRequest, WatchedBranch, Repository)
        .join(Repository, Repository.id == PullRequest.repository_id)
        .join(WatchedBranch, is_base())
        .where(PullRequest.state == "open", tuple_(PullRequest.repository_id, PullRequest.head_sha).in_(heads))
        .order_by(PullRequest.number)
    )
    found: dict[tuple[str, str], list[TrackedPullRequest]] = {}
    for row in uow.session.execute(query) if heads else ():
        found.setdefault(TrackedPullRequest(*row).head, []).append(TrackedPullRequest(*row))
    return found


def _exceptions(
    uow: UnitOfWork, rows: Sequence[TrackedPullRequest], freezes: Covering
) -> dict[str, list[dict[str, Any]]]:
    """Return, by pull request, what was asked for and decided on the freezes in force on its base, newest first."""
    row = PullRequestException
    ids = {freeze.id for covering in freezes.values() for freeze in covering}
    bases = [(tracked.pull.id, tracked.branch.id) for tracked in rows if freezes.get(tracked.branch.id)]
    if not bases:
        return {}
    query = select(row).where(tuple_(row.pull_request_id, row.branch_id).in_(bases), row.freeze_id.in_(ids))
    found = uow.session.scalars(query.order_by(row.created_at.desc(), row.id.desc())).all()
    states = states_of(uow, found)
    shown: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        view = {name: getattr(one, name) for name in _OF_AN_EXCEPTION} | {"state": states[one.id]}
        shown.setdefault(one.pull_request_id, []).append(view)
    return shown


def _checks(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> dict[tuple[str, str, str], HeadCheck]:
    """Return what was recorded as written; a row that only doubts a head tells of nothing written."""
    wanted = {(*row.head, row.branch.check_name) for row in rows}
    key = tuple_(HeadCheck.repository_id, HeadCheck.head_sha, HeadCheck.check_name)
    recorded = select(HeadCheck).where(key.in_(wanted), HeadCheck.evaluation > 0)
    found = uow.session.scalars(recorded) if wanted else ()
    return {(check.repository_id, check.head_sha, check.check_name): check for check in found}


def _view(row: TrackedPullRequest, facts: _Facts) -> dict[str, Any]:
    pull = row.pull
    others = [other for other in facts.siblings.get(row.head, ()) if other.pull.id != pull.id]
    sharing = [row, *(other for other in others if other.branch.check_name == row.branch.check_name)]
    claims = [facts.claim(each) for each in sharing]
    verdict = judge(claims)
    covering = facts.freezes.get(row.branch.id, ())
    passed = {held.freeze_id: held.id for held in facts.held.of_pull(row.branch.id, pull.number, pull.head_sha)}
    return {
        **_reference(row),
        "title": pull.title,
        "author": pull.author,
        "branch_id": row.branch.id,
        "head_sha": pull.head_sha,
        "state": pull.state,
        "verdict": "blocked" if verdict.blocking else "allowed",
        "next_change_at": _next_change(claims, verdict) if pull.state == "open" else None,
        "freeze_ids": [freeze.id for freeze in covering],
        "freezes": [_freeze(freeze, passed.get(freeze.id)) for freeze in covering],
        "exception_ids": [passed[freeze.id] for freeze in covering if freeze.id in passed],
        "exceptions": list(facts.exceptions.get(pull.id, ())),
        "check": _check(row, verdict, facts),
        "shared_head_with": [_reference(other) for other in others],
    }


def _reference(row: TrackedPullRequest) -> dict[str, Any]:
    return {
        "id": row.pull.id,
        "repository": row.repository.full_name,
        "number": row.pull.number,
        "url": row.pull.url,
        "base_branch": row.pull.base_branch,
    }


def _freeze(freeze: CoveringFreeze, exception_id: str | None) -> dict[str, Any]:
    return {
        "id": freeze.id,
        "reason": freeze.reason,
        "started_at": freeze.started_at,
        "ends_at": freeze.ends_at,
        "exceptions_allowed": freeze.exceptions_allowed,
        "exception_id": exception_id,
    }


def _check(row: TrackedPullRequest, verdict: Verdict, facts: _Facts) -> dict[str, Any]:
    """Return the check: what was written last, and the words that it has, or is about to have, on an open head."""
    written = facts.checks.get((*row.head, row.branch.check_name))
    is_open = row.pull.state == "open"
    button = bool(verdict.blocking) and verdict.exceptions_allowed and facts.entitled
    return {
        "state": _check_state(row, verdict, written),
        "written_at": written.written_at if written else None,
        "name": row.branch.check_name,
        "conclusion": written.conclusion if written else None,
        "title": title(verdict) if is_open else None,
        "summary": summary(verdict, button=button) if is_open else None,
    }


def _check_state(row: TrackedPullRequest, verdict: Verdict, check: HeadCheck | None) -> str:
    """Tell whether the code host shows the verdict; on the head of a closed pull request nothing more is written.

    Where a `success` may have been written that nobody recorded, a recorded `failure` is not known to be shown.
    """
    shown = check is not None and check.conclusion == verdict.conclusion
    if check is not None and (row.pull.state != "open" or (shown and not (check.unconfirmed and verdict.blocking))):
        return "written"
    error = row.branch.last_error_code
    return "failed" if error is not None and row.branch.attempts > 0 and error not in WAITING else "pending"


def _next_change(claims: Sequence[MergeCandidate], verdict: Verdict) -> datetime | None:
    """Return when the verdict turns by itself: the ends of freezes and exceptions are known beforehand."""
    ends = {freeze.ends_at for claim in claims for freeze in claim.freezes}
    ends |= {grant.expires_at for claim in claims for grant in claim.grants}
    for instant in sorted(end for end in ends if end is not None):
        if judge(_at(claim, instant) for claim in claims).conclusion != verdict.conclusion:
            return instant
    return None


def _at(claim: MergeCandidate, instant: datetime) -> MergeCandidate:
    """Return what is left of the claim of one pull request at a later instant, if nothing else happens."""
    freezes = [freeze for freeze in claim.freezes if freeze.ends_at is None or freeze.ends_at > instant]
    grants = [grant for grant in claim.grants if grant.expires_at is None or grant.expires_at > instant]
    return replace(claim, freezes=freezes, grants=grants, excepted=frozenset(grant.freeze_id for grant in grants))
