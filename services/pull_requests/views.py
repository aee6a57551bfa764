"""Pull requests as clients see them: whether they may be merged, why not, until when, and whether GitHub shows that.

The verdict comes from `rules.freezes.verdict` on the same facts as the reconciler's, and the text of the check from
the same rules: a head that several pull requests share under one check name is judged with all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import select, tuple_

from models.exception_rules import ExceptionRule, ExceptionRuleResult
from models.exceptions import PullRequestException
from models.queries import audiences, exception_states
from rules.freezes.check_text import EVERYWHERE, Audience, summary, title
from rules.freezes.verdict import CoveringFreeze, Verdict, deciding, judge
from rules.time.planned_windows import PlannedWindow, end_of_cover
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import UnitOfWork
from services.pull_request_exceptions.pull_request_facts import PullRequestFacts, read_facts
from services.repositories.tracked_pull_requests import TrackedPullRequest, reference
from services.verdicts.blocking import BranchBlocking, blocking_of_branches, blocking_view
from services.verdicts.facts import FreezesByBranch

_EXCEPTION_COLUMNS = (
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


def views(uow: UnitOfWork, rows: Sequence[TrackedPullRequest]) -> list[dict[str, Any]]:
    """Return pull requests as the contract's objects: a few queries, however many there are."""
    facts = read_facts(uow, rows)
    exceptions = _exceptions(uow, rows, facts.freezes)
    rules = _rules(uow, rows, facts.freezes)
    blocking = blocking_of_branches(uow.session, {row.branch.id for row in rows}, uow.now)
    ids = {row.repository.id for row in rows}
    readers = audiences(uow.session, ids, uow.ports[WebOrigin].url) if facts.freezes else {}
    exceptions_included = uow.plan.includes("pr_exceptions")
    return [
        {
            **_view(
                row,
                facts,
                exceptions.get(row.pull.id, []),
                blocking,
                uow.now,
                replace(readers.get(row.repository.id, EVERYWHERE), exceptions=exceptions_included),
            ),
            "exception_rules": rules.get(row.pull.id, []),
        }
        for row in rows
    ]


def _exceptions(
    uow: UnitOfWork, rows: Sequence[TrackedPullRequest], freezes: FreezesByBranch
) -> dict[str, list[dict[str, Any]]]:
    """Return, by pull request, the requests and decisions on the freezes in force on its base, newest first."""
    row = PullRequestException
    ids = {freeze.id for covering in freezes.values() for freeze in covering}
    bases = [(tracked.pull.id, tracked.branch.id) for tracked in rows if freezes.get(tracked.branch.id)]
    if not bases:
        return {}
    query = select(row).where(tuple_(row.pull_request_id, row.branch_id).in_(bases), row.freeze_id.in_(ids))
    found = uow.session.scalars(query.order_by(row.created_at.desc(), row.id.desc())).all()
    states = exception_states(uow.session, found, uow.now)
    shown: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        view = {name: getattr(one, name) for name in _EXCEPTION_COLUMNS} | {"state": states[one.id]}
        shown.setdefault(one.pull_request_id, []).append(view)
    return shown


def _rules(
    uow: UnitOfWork, rows: Sequence[TrackedPullRequest], freezes: FreezesByBranch
) -> dict[str, list[dict[str, Any]]]:
    """Return, by pull request, what was found of the rules that are on when its present head was last judged."""
    heads = [
        (row.pull.id, row.pull.head_sha) for row in rows if freezes.get(row.branch.id) and row.pull.state == "open"
    ]
    if not heads:
        return {}
    result = ExceptionRuleResult
    query = (
        select(result, ExceptionRule.name)
        .join(ExceptionRule, ExceptionRule.id == result.rule_id)
        .where(tuple_(result.pull_request_id, result.head_sha).in_(heads), ExceptionRule.enabled)
        .order_by(ExceptionRule.created_at, ExceptionRule.id)
    )
    shown: dict[str, list[dict[str, Any]]] = {}
    for one, name in uow.session.execute(query):
        shown.setdefault(one.pull_request_id, []).append(_rule(one, name))
    return shown


def _rule(result: ExceptionRuleResult, name: str) -> dict[str, Any]:
    unknown = result.conditions[0]["found"] if result.outcome == "unknown" else None
    return {
        "rule_id": result.rule_id,
        "rule_name": name,
        "outcome": result.outcome,
        "unknown": unknown,
        "conditions": [] if result.outcome == "unknown" else result.conditions,
        "judged_at": result.judged_at,
    }


def _view(
    row: TrackedPullRequest,
    facts: PullRequestFacts,
    exceptions: Sequence[dict[str, Any]],
    blocking: Mapping[str, BranchBlocking],
    now: datetime,
    audience: Audience,
) -> dict[str, Any]:
    pull = row.pull
    verdict, of_pattern = judge(facts.candidates(row)), facts.pattern_verdict(row)
    forbidding = deciding(verdict, of_pattern)
    covering = facts.freezes.get(row.branch.id, ())
    active = {one.freeze_id: one.id for one in facts.exceptions.of_pull(row.branch.id, pull.number, pull.head_sha)}
    return {
        **reference(row),
        "title": pull.title,
        "author": pull.author,
        "branch_id": row.branch.id,
        "head_sha": pull.head_sha,
        "state": pull.state,
        "verdict": "blocked" if forbidding.blocking else "allowed",
        "blocking": _blocking(row, forbidding, facts, blocking[row.branch.id]),
        "frozen": bool(covering),
        "frozen_until": _frozen_until(covering, facts.planned.get(row.branch.id, ()), now),
        "next_change_at": forbidding.changes_at if pull.state == "open" else None,
        "freeze_ids": [freeze.id for freeze in covering],
        "freezes": [_freeze(freeze, active.get(freeze.id)) for freeze in covering],
        "exception_ids": [active[freeze.id] for freeze in covering if freeze.id in active],
        "exceptions": list(exceptions),
        "check": _check(row, facts, verdict, audience, of_pattern=False),
        "pattern_check": of_pattern and _check(row, facts, of_pattern, audience, of_pattern=True),
        "shared_head_with": [reference(other) for other in facts.others_on_head(row)],
    }


def _frozen_until(
    covering: Sequence[CoveringFreeze], planned: Sequence[PlannedWindow], now: datetime
) -> datetime | None:
    """Return until when a branch is frozen, with the windows that follow; None if it is not, or no end is known."""
    to_come = ((window.starts_at, window.ends_at) for window in planned)
    return end_of_cover(now, chain([(one.started_at, one.ends_at) for one in covering], to_come)) if covering else None


def _blocking(
    row: TrackedPullRequest, verdict: Verdict, facts: PullRequestFacts, branch: BranchBlocking
) -> dict[str, Any] | None:
    """Return whether GitHub refuses an open pull request that a freeze forbids to merge; None for any other."""
    if row.pull.state != "open" or not verdict.blocking:
        return None
    blocking, _check = facts.blocking(row, verdict, branch)
    return blocking_view(blocking)


def _freeze(freeze: CoveringFreeze, exception_id: str | None) -> dict[str, Any]:
    return {
        "id": freeze.id,
        "reason": freeze.reason,
        "started_at": freeze.started_at,
        "ends_at": freeze.ends_at,
        "exceptions_allowed": freeze.exceptions_allowed,
        "exception_id": exception_id,
    }


def _check(
    row: TrackedPullRequest, facts: PullRequestFacts, verdict: Verdict, audience: Audience, *, of_pattern: bool
) -> dict[str, Any]:
    """Return a check: what was written last, and the text that it has, or is about to have, on an open head.

    The one of its branch has the button that requests an exception, if one would help.
    """
    name = str(row.branch.pattern_check_name) if of_pattern else row.branch.check_name
    sharing = facts.others_under_pattern(row) if of_pattern else facts.others_let_in(row)
    numbers = sorted({each.pull.number for each in (row, *sharing)})
    written = facts.check(row, name)
    is_open = row.pull.state == "open"
    helps = bool(verdict.blocking) and verdict.exceptions_allowed and audience.exceptions
    button = helps and not of_pattern
    return {
        "state": facts.check_state(row, name, verdict),
        "written_at": written.written_at if written else None,
        "name": name,
        "conclusion": written.conclusion if written else None,
        "title": title(verdict, audience) if is_open else None,
        "summary": summary(verdict, audience, numbers=numbers, button=button) if is_open else None,
    }
