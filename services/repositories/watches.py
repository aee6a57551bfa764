"""Watching and unwatching branches, such that freezes in force and quotas always agree with what is watched.

Every change of what scopes can reach holds the coverage lock exclusively, from before the watched branches are read to
the commit. A freeze that starts at the same moment either sees the branch, or `extend_open_freezes` sees the freeze.
GitHub is called before the lock is acquired, never while it is held.
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select, text

from models.billing import watched_branch_count
from models.checks import mark_dirty
from models.queries import covering_freezes, lock_coverage
from models.repositories import Repository, WatchedBranch
from rules.billing.plans import require_room
from rules.errors import ServiceError, field_error
from rules.freezes.check_names import check_name, pattern_check_name
from rules.ids import new_id
from services.core.lookups import get_branch
from services.core.unit_of_work import UnitOfWork
from services.enforcement_status.probe_requests import schedule_probes
from services.freezes.targets import extend_open_freezes
from services.repositories.repositories import get_visible


def lock_coverage_exclusively(uow: UnitOfWork) -> None:
    """Acquire the coverage lock; the unit of work is then ordered after every freeze that has started."""
    lock_coverage(uow.session, uow.organization, exclusive=True)
    uow.refresh_now()


def lock_repositories(uow: UnitOfWork, repository_ids: Iterable[str]) -> list[Repository]:
    """Acquire the coverage lock and return the repositories, freshly read, in the order of their ids."""
    lock_coverage_exclusively(uow)
    query = select(Repository).where(Repository.id.in_(list(repository_ids))).order_by(Repository.id)
    return list(uow.session.scalars(query.execution_options(populate_existing=True)))


def watch(
    uow: UnitOfWork, wanted: Mapping[Repository, Iterable[str]], *, revive: bool = True
) -> dict[str, list[WatchedBranch]]:
    """Watch branches by name and return the newly watched ones by repository id. The caller holds the coverage lock.

    A branch that was watched before keeps its id and check names; with `revive` False, explicitly unwatched branches
    are left alone. `cover_and_probe` must follow as soon as scopes can reach the branches.
    """
    known = _known(uow, [repository.id for repository in wanted])
    fresh: dict[str, list[WatchedBranch]] = {repository.id: [] for repository in wanted}
    for repository, names in wanted.items():
        for name in sorted(set(names)):
            branch = known.get((repository.id, name))
            if branch is None:
                branch = _new(uow, repository, name)
            elif branch.unwatched_at is None or not (revive or branch.never_watched):
                continue
            branch.unwatched_at, branch.created_at, branch.never_watched = None, uow.now, False
            uow.session.add(branch)
            fresh[repository.id].append(branch)
    uow.session.flush()
    return fresh


def release_unwatched(uow: UnitOfWork, repository: Repository, names: Iterable[str]) -> list[WatchedBranch]:
    """Have `success` written on the heads of unwatched branches that a rule of ours may block.

    Such a rule was made for a former glob, or for a repository that is disabled or beyond the quota: no branch may be
    blocked for ever. The caller holds the coverage lock.
    """
    known = _known(uow, [repository.id])
    fresh = [_new(uow, repository, name) for name in sorted(set(names)) if (repository.id, name) not in known]
    for branch in fresh:
        branch.unwatched_at, branch.never_watched = uow.now, True
    uow.session.add_all(fresh)
    uow.session.flush()
    branch_ids = [branch.id for branch in fresh]
    mark_dirty(uow.session, branch_ids, uow.now)
    schedule_probes(uow, branch_ids)
    uow.wake("reconcile")
    return fresh


def cover_and_probe(uow: UnitOfWork, branch_ids: Sequence[str]) -> None:
    """Cover branches that scopes can now reach by the freezes in force, and schedule probes of their rules.

    Raise `feature_not_available` if the quota is exceeded.
    """
    _require_quota(uow, len(branch_ids))
    extend_open_freezes(uow, branch_ids)
    schedule_probes(uow, branch_ids)


def _known(uow: UnitOfWork, repository_ids: Sequence[str]) -> dict[tuple[str, str], WatchedBranch]:
    query = select(WatchedBranch).where(WatchedBranch.repository_id.in_(repository_ids))
    rows = uow.session.scalars(query.execution_options(populate_existing=True))
    return {(row.repository_id, row.name): row for row in rows}


def _new(uow: UnitOfWork, repository: Repository, name: str) -> WatchedBranch:
    return WatchedBranch(
        id=new_id("wbr"),
        organization_id=uow.organization,
        repository_id=repository.id,
        name=name,
        check_name=check_name(name),
        pattern_check_name=pattern_check_name(name, [*repository.auto_watch, *repository.former_globs]),
        created_at=uow.now,
    )


def _require_quota(uow: UnitOfWork, added: int) -> None:
    """Check the number of watched branches of enabled repositories, of which `added` are new, against the quota."""
    reached = uow.session.scalar(watched_branch_count(uow.organization))
    require_room(uow.plan, "watched_branches", (reached or 0) - added, added)


def watch_branch(uow: UnitOfWork, reference: str, name: str) -> WatchedBranch:
    """Watch a branch of an enabled repository; it need not exist at GitHub yet.

    Raise `repository_not_found`, `invalid_state` (not enabled), `already_exists` (watched), `feature_not_available`.
    """
    [repository] = lock_repositories(uow, [get_visible(uow, reference).id])
    if not repository.enabled:
        raise ServiceError("invalid_state", f"{repository.full_name} is not enabled. Enable it first.")
    fresh = watch(uow, {repository: [name]})[repository.id]
    if not fresh:
        message = f"{name} of {repository.full_name} is already watched"
        raise field_error("/name", message, message=f"{message}.", code="already_exists")
    cover_and_probe(uow, [fresh[0].id])
    audit_watched(uow, repository, fresh[0])
    return fresh[0]


def audit_watched(uow: UnitOfWork, repository: Repository, branch: WatchedBranch) -> None:
    """Audit that a branch is now watched."""
    target = ("branch", branch.id, f"{repository.full_name}:{branch.name}")
    uow.audit("branch.watched", target, before=None, after={"checkName": branch.check_name})


def unwatch(uow: UnitOfWork, branch_id: str) -> None:
    """Stop watching a branch; its heads get `success`, so that no rule blocks them for ever.

    Raise `branch_not_found`, and `already_frozen` with the freezes if it is frozen.
    """
    lock_coverage_exclusively(uow)
    branch = get_branch(uow, branch_id, lock=True)
    freezes = covering_freezes(uow.session, [branch.id], uow.now).get(branch.id)
    if freezes:
        names = ", ".join(freeze.id for freeze in freezes)
        raise ServiceError("already_frozen", f"The branch is frozen by {names}. Lift the freeze first.")
    branch.unwatched_at = uow.now
    mark_dirty(uow.session, [branch.id], uow.now)
    schedule_probes(uow, [branch.id])
    uow.wake("reconcile")
    _audit_unwatched(uow, branch)


_WITHOUT_RULE = text(
    "UPDATE branch_enforcement SET own_rule = false, rule_requested_at = NULL WHERE branch_id = :branch"
)


def forget_deleted(uow: UnitOfWork, branch_id: str) -> bool:
    """Stop watching a branch that was deleted at GitHub until it is created again; False if it is frozen.

    It is then taken to have no rule of its own, so that the rule may be removed. Created again it is watched by
    `autoWatch`, like a branch that was never watched, unless people had unwatched it.
    """
    lock_coverage_exclusively(uow)
    branch = uow.session.get_one(WatchedBranch, branch_id, with_for_update=True, populate_existing=True)
    if covering_freezes(uow.session, [branch_id], uow.now).get(branch_id):
        return False
    if branch.unwatched_at is None:
        branch.unwatched_at, branch.never_watched = uow.now, True
        _audit_unwatched(uow, branch)
    uow.session.execute(_WITHOUT_RULE, {"branch": branch_id})
    return True


def _audit_unwatched(uow: UnitOfWork, branch: WatchedBranch) -> None:
    repository = uow.session.get_one(Repository, branch.repository_id)
    uow.audit(
        "branch.unwatched",
        ("branch", branch.id, f"{repository.full_name}:{branch.name}"),
        before={"checkName": branch.check_name, "exceptionsAllowed": branch.exceptions_allowed},
        after=None,
    )
