"""The targets of a freeze: listing them, retrying the failed ones, and adding branches that begin to match."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import select, text

from models.checks import mark_dirty
from models.due_windows import find_due
from models.freezes import Freeze, FreezeTarget
from models.queries import ActiveException, lock_coverage, select_active_exceptions, watched_branches
from models.repositories import Repository, WatchedBranch
from rules.errors import ServiceError
from rules.freezes.scope import OPEN_ENDED, compile_scope
from rules.ids import id_of_target
from services.core.lookups import get_freeze
from services.core.pagination import Page, page_of, read_cursor, sign_cursor
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.frozen_branch_requests import request_frozen_rulesets
from services.freezes.scopes import resolve
from services.freezes.start import add_targets, insert_targets
from services.freezes.windows import lock_freeze
from services.verdicts.blocking import blocking_of_branches, shown_blocking


def list_targets(uow: UnitOfWork, freeze_id: str, state: str | None, cursor: str | None, limit: int) -> Page:
    """Return a page of a freeze's targets, newest first. Raise `freeze_not_found`."""
    freeze = get_freeze(uow, freeze_id)
    if not freeze.begun:
        return _targets_of_due(uow, freeze, state, cursor, limit)
    query = (
        select(FreezeTarget, WatchedBranch.name, Repository.owner, Repository.name)
        .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(FreezeTarget.freeze_id == freeze.id)
    )
    if state is not None:
        query = query.where(FreezeTarget.state == state)
    page = page_of(
        uow, "list_freeze_targets", (freeze_id, state), query, (FreezeTarget.id,), cursor=cursor, limit=limit
    )
    covered = [row[0].branch_id for row in page.data] if freeze.is_in_force(uow.now) else []
    blocking = blocking_of_branches(uow.session, covered, uow.now)
    let_in = defaultdict(list)
    for exception in select_active_exceptions(uow.session, [freeze.id], covered, uow.now) if covered else ():
        let_in[exception.branch_id].append(_let_in(exception))
    views = [
        _view(*row) | {"blocking": shown_blocking(blocking.get(row[0].branch_id)), "let_in": let_in[row[0].branch_id]}
        for row in page.data
    ]
    return Page(views, page.next_cursor)


def _let_in(exception: ActiveException) -> dict[str, Any]:
    sha = exception.head_sha if exception.pinned_sha is None else exception.pinned_sha
    return {"exception_id": exception.id, "number": exception.number, "head_sha": sha}


def _targets_of_due(uow: UnitOfWork, freeze: Freeze, state: str | None, cursor: str | None, limit: int) -> Page:
    """Return a page of the targets that the freeze of a due window will have, by the ids that they will have."""
    secrets, bound = uow.ports[CursorSecret].accepted, ("list_freeze_targets", uow.organization, (freeze.id, state))
    below = None if cursor is None else read_cursor(secrets, bound, cursor)[0]
    due = find_due(uow.session, uow.organization, freeze.id, uow.now)
    covered = due[1] if due and state in {None, "pending"} else ()
    ids = {id_of_target(freeze.id, branch_id): branch_id for branch_id in covered}
    listed = sorted((each for each in ids if below is None or each < below), reverse=True)
    shown = {target_id: ids[target_id] for target_id in listed[:limit]}
    query = select(WatchedBranch.id, WatchedBranch.name, Repository.owner, Repository.name)
    query = query.join(Repository, Repository.id == WatchedBranch.repository_id)
    rows = uow.session.execute(query.where(WatchedBranch.id.in_(shown.values())))
    names = {branch_id: (branch, owner, name) for branch_id, branch, owner, name in rows}
    blocking = blocking_of_branches(uow.session, shown.values(), uow.now, due=covered)
    views = [
        _view(_pending(freeze, *pair), *names[pair[1]]) | {"blocking": shown_blocking(blocking[pair[1]]), "let_in": []}
        for pair in shown.items()
    ]
    return Page(views, sign_cursor(secrets, bound, [listed[limit - 1]]) if len(listed) > limit else None)


def _pending(freeze: Freeze, target_id: str, branch_id: str) -> FreezeTarget:
    counts = {"heads_total": 0, "heads_written": 0, "attempts": 0}
    return FreezeTarget(
        id=target_id, freeze_id=freeze.id, branch_id=branch_id, state="pending", operation="apply", **counts
    )


def _view(target: FreezeTarget, branch: str, owner: str, name: str) -> dict[str, Any]:
    error = {"code": target.last_error_code, "message": target.last_error_message} if target.last_error_code else None
    return {
        "id": target.id,
        "freeze_id": target.freeze_id,
        "branch_id": target.branch_id,
        "repository": f"{owner}/{name}",
        "branch": branch,
        "state": target.state,
        "operation": target.operation,
        "heads": {"total": target.heads_total, "written": target.heads_written},
        "attempts": target.attempts,
        "last_error": error,
        "next_attempt_at": target.next_attempt_at,
        "applied_at": target.applied_at,
        "released_at": target.released_at,
    }


def retry(uow: UnitOfWork, freeze_id: str) -> Freeze:
    """Try the failed targets of a freeze again now, in force or ended. Raise `invalid_state` if none has failed."""
    freeze = lock_freeze(uow, freeze_id)
    failed = uow.session.scalars(
        select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id, FreezeTarget.state == "failed")
    ).all()
    if not failed:
        raise ServiceError("invalid_state", "No target of this freeze has failed; there is nothing to retry.")
    mark_dirty(uow.session, failed, uow.now)
    uow.session.execute(
        text(
            "UPDATE freeze_targets t SET state = CASE operation WHEN 'apply' THEN 'pending' ELSE 'releasing' END, "
            "generation = c.wanted_generation, next_attempt_at = :now "
            "FROM checks c WHERE c.branch_id = t.branch_id AND t.freeze_id = :freeze AND t.state = 'failed'"
        ),
        {"freeze": freeze.id, "now": uow.now},
    )
    freeze.failing_since = None
    uow.wake("reconcile")
    uow.audit("freeze.retried", ("freeze", freeze.id, freeze.reason), targets=len(failed))
    return freeze


def extend_open_freezes(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Evaluate branches again, and add them to every open-ended freeze in force whose scope reaches them.

    The caller holds the coverage lock exclusively. The freezes are locked against ending, so that no target
    is added after a release has started; and before the branches, in the order in which `end` locks them.
    """
    wanted = set(branch_ids)
    branches = [branch for branch in watched_branches(uow.session, uow.organization) if branch.branch_id in wanted]
    running = uow.session.scalars(
        select(Freeze)
        .where(Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now))
        .order_by(Freeze.id)
        .with_for_update(read=True)
    ).all()
    mark_dirty(uow.session, branch_ids, uow.now)
    uow.wake("reconcile")
    for freeze in running:
        if freeze.scope["type"] not in OPEN_ENDED:
            continue
        scope, covered = compile_scope(freeze.scope), _covered(uow, freeze, wanted)
        new = (branch for branch in branches if branch.branch_id not in covered)
        reached = [branch.branch_id for branch in new if scope.covers(branch)]
        if reached:
            insert_targets(uow, freeze, reached)
            uow.audit("freeze.grew", ("freeze", freeze.id, freeze.reason), branchIds=reached)
    request_frozen_rulesets(uow, branch_ids)


def _covered(uow: UnitOfWork, freeze: Freeze, branch_ids: Collection[str]) -> set[str]:
    query = select(FreezeTarget.branch_id).where(FreezeTarget.freeze_id == freeze.id)
    return set(uow.session.scalars(query.where(FreezeTarget.branch_id.in_(branch_ids))))


def add_remaining_targets(uow: UnitOfWork, freeze_id: str, *, max_targets: int) -> bool:
    """Add the next batch of targets to a freeze that started with targets pending; return False if none is left.

    A branch that begins to be watched meanwhile is added by that transaction, or found here: the coverage lock orders
    the two. The freeze is locked against ending.
    """
    lock_coverage(uow.session, uow.organization, exclusive=False)
    uow.refresh_now()
    freeze = get_freeze(uow, freeze_id, lock=True)
    running = freeze.is_in_force(uow.now)
    if not (freeze.targets_pending and running):
        freeze.targets_pending = False
        return False
    reached = resolve(uow, freeze.scope, stored=True).ids
    covered = _covered(uow, freeze, reached)
    left = [branch_id for branch_id in reached if branch_id not in covered]
    add_targets(uow, freeze, left[:max_targets])
    uow.audit("freeze.grew", ("freeze", freeze.id, freeze.reason), targets=len(left[:max_targets]))
    freeze.targets_pending = len(left) > max_targets
    return freeze.targets_pending
