"""Enforcement as clients see it: the organisation's light, its branches page by page, and one branch in detail."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select, text

from models.checks import Check
from models.enforcement import BranchEnforcement, EnforcementSetup
from models.queries import freezable
from models.repositories import Repository, WatchedBranch
from rules.rulesets.findings import NOT_VERIFIED, Light
from services.core.lookups import get_branch
from services.core.pagination import page_of
from services.core.unit_of_work import UnitOfWork
from services.enforcement.stoppable import count_stoppable, stoppable
from services.github_access.failures import RATE_LIMIT_CODES
from services.repositories.repositories import get_visible
from services.verdicts.lights import EnforcementStatus, count_lights, facts_of_lights, has_light, statuses

_SETUP_STATES = {
    "queued": "applying",
    "awaiting_authorization": "awaiting_authorization",
    "done": "applied",
    "failed": "failed",
}

# The heads that can be merged now: of open pull requests and queue entries.
_HEADS = text("""
    WITH heads AS (
        SELECT p.head_sha FROM pull_requests p
        WHERE p.repository_id = :repository AND p.base_branch = :branch AND p.state = 'open'
        UNION
        SELECT q.head_sha FROM queue_entries q WHERE q.branch_id = :id
    )
    SELECT count(*), count(h.head_sha) FROM heads
    LEFT JOIN head_checks h ON h.repository_id = :repository AND h.check_name = :name AND h.head_sha = heads.head_sha
         AND NOT h.unconfirmed AND h.summary_hash <> ''
""")


@dataclass(frozen=True, slots=True)
class EnforcementFilters:
    """Which branches the list shows; None: any."""

    light: Light | None = None
    repo: str | None = None


def overview(uow: UnitOfWork, filters: EnforcementFilters, cursor: str | None, limit: int) -> dict[str, Any]:
    """Return the organisation's light, and a page of its branches, the one watched last first.

    Raise `repository_not_found` for an unknown repository, and `invalid_cursor`.
    """
    query = _rows().where(*freezable(uow.organization))
    if filters.repo is not None:
        query = query.where(WatchedBranch.repository_id == get_visible(uow, filters.repo).id)
    if filters.light is not None:
        facts = facts_of_lights(uow)
        query = query.join(facts, facts.c.branch_id == WatchedBranch.id).where(has_light(facts.c.facts, filters.light))
    keys = (WatchedBranch.created_at, WatchedBranch.id)
    page = page_of(uow, "get_enforcement", filters, query, keys, cursor=cursor, limit=limit)
    count = count_lights(uow)
    known = statuses(uow, [row[0].id for row in page.data])
    able = stoppable(uow, known.keys())
    return {
        "light": count.worst,
        "counts": count.view,
        "pending": _pending(uow),
        "last_setup": _last_setup(uow),
        "stops": count_stoppable(uow),
        "data": [{**_view(known[row[0].id], *row), **able[row[0].id]} for row in page.data],
        "next_cursor": page.next_cursor,
    }


def _rows() -> Select[WatchedBranch, BranchEnforcement, str, str]:
    return (
        select(WatchedBranch, BranchEnforcement, Repository.owner, Repository.name)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
    )


def show(uow: UnitOfWork, branch_id: str) -> dict[str, Any]:
    """Return what is known of one watched branch, and the state of its checks; raise `branch_not_found`."""
    branch = get_branch(uow, branch_id)
    row = uow.session.execute(_rows().where(WatchedBranch.id == branch.id)).one()
    known = _view(statuses(uow, [branch.id])[branch.id], *row)
    return {**known, **stoppable(uow, [branch.id])[branch.id], "checks": _checks(uow, branch)}


def _view(
    known: EnforcementStatus, branch: WatchedBranch, found: BranchEnforcement | None, owner: str, name: str
) -> dict[str, Any]:
    seen = found if known.last_verified_at is not None else None
    findings = list(seen.findings) if seen else [NOT_VERIFIED.as_json()]
    return {
        "branch_id": branch.id,
        "repository": f"{owner}/{name}",
        "branch": branch.name,
        "light": known.light,
        "check_name": branch.check_name,
        "ruleset": seen and _ruleset(seen.ruleset),
        "integration_pinned": seen and seen.integration_pinned,
        "bypass_actors": seen and seen.bypass_actors,
        "merge_queue": seen and seen.merge_queue,
        "findings": [known.finding.as_json(), *findings] if known.finding else findings,
        "last_verified_at": known.last_verified_at,
    }


def _ruleset(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return found and {key: found[key] for key in ("id", "name", "enforcement")}


def _checks(uow: UnitOfWork, branch: WatchedBranch) -> dict[str, Any]:
    values = {
        "repository": branch.repository_id,
        "branch": branch.name,
        "name": branch.check_name,
        "id": branch.id,
    }
    total, written = uow.session.execute(_HEADS, values).one()
    check = uow.session.scalars(select(Check).where(Check.branch_id == branch.id)).one()
    code = check.last_error_code
    pending = check.written_generation < check.wanted_generation
    return {
        "state": "failed" if code and code not in RATE_LIMIT_CODES else "pending" if pending else "written",
        "total": total,
        "written": written,
        "last_error": {"code": code, "message": check.last_error_message} if code else None,
    }


def _pending(uow: UnitOfWork) -> dict[str, int]:
    """Return how much of the requested work is not done yet."""
    branches = (
        select(
            func.count(BranchEnforcement.due_at),
            func.count().filter(Check.written_generation < Check.wanted_generation),
        )
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .join(Check, Check.branch_id == WatchedBranch.id)
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
        .where(*freezable(uow.organization))
    )
    verify, seed = uow.session.execute(branches).one()
    setups = select(func.count()).where(
        EnforcementSetup.organization_id == uow.organization, EnforcementSetup.state == "queued"
    )
    return {"verify": verify, "seed": seed, "setup": uow.session.scalar(setups) or 0}


def _last_setup(uow: UnitOfWork) -> dict[str, Any] | None:
    """Return the progress of the last setup."""
    mine = select(EnforcementSetup).where(EnforcementSetup.organization_id == uow.organization)
    last = uow.session.scalar(mine.order_by(EnforcementSetup.created_at.desc(), EnforcementSetup.id.desc()).limit(1))
    if last is None:
        return None
    state = _SETUP_STATES[last.state]
    if state == "awaiting_authorization" and last.expires_at is not None and last.expires_at <= uow.now:
        state = "expired"
    code = last.last_error_code
    return {
        "state": state,
        "requested_at": last.created_at,
        "total": last.total,
        "written": last.written,
        "last_error": {"code": code, "message": last.last_error_message or ""} if code else None,
        "finished_at": last.finished_at,
    }
