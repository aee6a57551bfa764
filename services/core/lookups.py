"""Look-ups of objects that a request references, by id or by `owner/name`.

An id of another organisation is not found, exactly like an unknown one (I8).
"""

from collections.abc import Collection, Iterator

from sqlalchemy import ColumnElement, func, select

from models.due_windows import find_due, freeze_of
from models.exception_rules import ExceptionRule
from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.organizations import Membership, Organization
from models.queries import any_of
from models.repositories import Repository, WatchedBranch
from models.schedules import Schedule
from rules.access.organization_settings import OrganizationSettings
from rules.access.permissions import Role
from rules.errors import ServiceError
from rules.ids import has_prefix
from services.core.unit_of_work import UnitOfWork


def find_repositories(uow: UnitOfWork, references: Collection[str], *, covered: bool = True) -> dict[str, Repository]:
    """Return the repositories by reference; unknown references are missing from the result.

    A name matches the current name of a covered repository first, then a former name; of several, the newest one's.
    Unless they have to be `covered`, it matches at last the name of a repository that left.
    """
    ids = {reference for reference in references if has_prefix(reference, "rep")}
    names = {reference.lower() for reference in references if reference not in ids}
    found = {row.id: row for row in _repositories(uow, Repository.id == any_of(ids))} if ids else {}
    if names:
        for row in _repositories(uow, Repository.full_name_key == any_of(names), Repository.removed_at.is_(None)):
            found.setdefault(row.full_name.lower(), row)
    if former := sorted(names - set(found)):
        by_former_name = Repository.former_names.overlap(former)
        for row in _repositories(uow, Repository.renamed.is_(True), by_former_name, Repository.removed_at.is_(None)):
            found |= {name: row for name in row.former_names if name in former and name not in found}
    if not covered and (left := names - set(found)):
        for row in _repositories(uow, Repository.full_name_key == any_of(left)):
            found.setdefault(row.full_name.lower(), row)
    keys = {reference: reference if reference in ids else reference.lower() for reference in references}
    return {reference: found[key] for reference, key in keys.items() if key in found}


def _repositories(uow: UnitOfWork, *conditions: ColumnElement[bool]) -> Iterator[Repository]:
    query = select(Repository).where(Repository.organization_id == uow.organization, *conditions)
    yield from uow.session.scalars(query.order_by(Repository.created_at.desc(), Repository.id.desc()))


def get_repository(uow: UnitOfWork, reference: str) -> Repository:
    """Return a repository by `rep_…` or `owner/name`. Raise `repository_not_found`."""
    repository = find_repositories(uow, [reference]).get(reference)
    if repository is None:
        hint = "" if "/" in reference or has_prefix(reference, "rep") else " Use the form owner/name."
        raise ServiceError("repository_not_found", f"Repository {reference!r} not found in this organisation.{hint}")
    return repository


def get_branch(uow: UnitOfWork, branch_id: str, *, lock: bool = False) -> WatchedBranch:
    """Return a watched branch by id. Raise `branch_not_found`, also if it is no longer watched."""
    query = select(WatchedBranch).where(
        WatchedBranch.id == branch_id,
        WatchedBranch.organization_id == uow.organization,
        WatchedBranch.unwatched_at.is_(None),
    )
    branch = uow.session.scalar(query.with_for_update() if lock else query)
    if branch is None:
        raise ServiceError("branch_not_found", f"Watched branch {branch_id!r} not found in this organisation.")
    return branch


def get_freeze(uow: UnitOfWork, freeze_id: str, *, lock: bool = False) -> Freeze:
    """Return a freeze by id, ended or not. Raise `freeze_not_found`.

    Without `lock` it may be that of a due window that has not begun, which is no row (`Freeze.begun`).
    """
    freeze = find_freeze(uow, freeze_id, lock=lock)
    if freeze is None and not lock:
        due = find_due(uow.session, uow.organization, freeze_id, uow.now)
        freeze = freeze_of(due[0], uow.organization) if due else find_freeze(uow, freeze_id)
    if freeze is None:
        raise ServiceError("freeze_not_found", f"Freeze {freeze_id!r} not found in this organisation.")
    return freeze


def find_freeze(uow: UnitOfWork, freeze_id: str, *, lock: bool = False) -> Freeze | None:
    """Return a freeze that has begun, by id; None if there is none."""
    query = select(Freeze).where(Freeze.id == freeze_id, Freeze.organization_id == uow.organization)
    return uow.session.scalar(query.with_for_update() if lock else query)


def first_branches(uow: UnitOfWork, condition: ColumnElement[bool], limit: int) -> tuple[int, list[dict[str, str]]]:
    """Return how many watched branches meet the condition, and the first of them by name.

    Each is the contract's `NamedBranch`.
    """
    query = (
        select(WatchedBranch.id, Repository.owner, Repository.name, WatchedBranch.name, func.count().over())
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(WatchedBranch.organization_id == uow.organization, condition)
        .order_by(Repository.owner, Repository.name, WatchedBranch.name)
        .limit(limit)
    )
    rows = uow.session.execute(query).all()
    first = [{"branch_id": row[0], "repository": f"{row[1]}/{row[2]}", "branch": row[3]} for row in rows]
    return rows[0][4] if rows else 0, first


def require_schedule(uow: UnitOfWork, schedule_id: str) -> str:
    """Return the id if the organisation has such a schedule, deleted or not. Raise `schedule_not_found`."""
    known = select(Schedule.id).where(Schedule.organization_id == uow.organization, Schedule.id == schedule_id)
    if uow.session.scalar(known) is None:
        raise ServiceError("schedule_not_found", f"Schedule {schedule_id!r} not found in this organisation.")
    return schedule_id


def get_exception(uow: UnitOfWork, exception_id: str) -> PullRequestException:
    """Return an exception by id, in whatever state. Raise `exception_not_found`."""
    query = select(PullRequestException).where(
        PullRequestException.id == exception_id, PullRequestException.organization_id == uow.organization
    )
    exception = uow.session.scalar(query)
    if exception is None:
        raise ServiceError("exception_not_found", f"No exception of this organisation has the id {exception_id!r}.")
    return exception


def get_exception_rule(uow: UnitOfWork, rule_id: str, *, lock: bool = False) -> ExceptionRule:
    """Return a rule of exceptions by id, as it is now. Raise `exception_rule_not_found`."""
    query = select(ExceptionRule).where(ExceptionRule.id == rule_id, ExceptionRule.organization_id == uow.organization)
    locked = query.with_for_update() if lock else query
    rule = uow.session.scalar(locked.execution_options(populate_existing=True))
    if rule is None:
        raise ServiceError("exception_rule_not_found", f"Rule {rule_id!r} not found in this organisation.")
    return rule


def get_organization_settings(uow: UnitOfWork) -> OrganizationSettings:
    """Return the settings of the caller's organisation, as they are now; no object is kept, which would grow stale."""
    query = select(Organization.settings).where(Organization.id == uow.organization)
    return OrganizationSettings.from_json(uow.session.scalars(query).one())


def role_of_caller(uow: UnitOfWork) -> Role | None:
    """Return the role of the calling person in the organisation; None for a key, and for one who is no member."""
    query = select(Membership.role).where(
        Membership.organization_id == uow.organization, Membership.user_id == uow.caller.user_id
    )
    role: Role | None = uow.session.scalar(query)
    return role
