"""The list of an account: the watched branches of its enabled repositories, frozen and not."""

from collections import Counter
from typing import Any

from sqlalchemy import ColumnElement, and_, func, literal, select

from models.queries import covering_freezes, watched_branches
from models.repositories import Repository
from models.schedule_queries import planned_windows
from rules.errors import ServiceError
from rules.freezes.scope import FreezableBranch
from rules.web_addresses import BRANCH, WebOrigin
from services.compatibility.branches import next_changes
from services.core.unit_of_work import UnitOfWork
from services.github_access import client

MAX_BRANCHES = 5000


def list_branches(uow: UnitOfWork, account: str) -> dict[str, Any]:
    """Return the branches of an account. Raise `repository_not_found` if the organisation has no repository of it."""
    found = watched_branches(uow.session, uow.organization, _of_account(uow, account))
    listed = found[:MAX_BRANCHES]
    ids = [branch.branch_id for branch in listed]
    freezes = covering_freezes(uow.session, ids, uow.now)
    planned = planned_windows(uow.session, ids, uow.now)
    of_repository = Counter(branch.repository_id for branch in found)
    shown: dict[str, Any] = {"frozen": [], "unfrozen": [], "truncated": len(found) > MAX_BRANCHES}
    for branch in listed:
        covering = freezes.get(branch.branch_id, ())
        owner, _, name = branch.repository.partition("/")
        item = {
            "name": name if of_repository[branch.repository_id] == 1 else f"{name} ({branch.branch})",
            "branch": branch.branch,
            "url": _open_pull_requests(uow, owner, name, branch) if covering else _page(uow, branch),
            **next_changes(uow.now, [freeze.ends_at for freeze in covering], planned.get(branch.branch_id, ())),
        }
        shown["frozen" if covering else "unfrozen"].append(item)
    return shown


def _of_account(uow: UnitOfWork, account: str) -> ColumnElement[bool]:
    """Return the condition that a repository is of an account, by its name now or else by a former one."""
    former = func.unnest(Repository.former_names).column_valued("former")
    of_account = select(literal(1)).where(func.split_part(former, "/", 1) == account.lower()).exists()
    by_former_name = and_(Repository.renamed, of_account)
    for condition in (func.lower(Repository.owner) == account.lower(), by_former_name):
        own = (Repository.organization_id == uow.organization, Repository.removed_at.is_(None), condition)
        if uow.session.scalar(select(Repository.id).where(*own).limit(1)) is not None:
            return condition
    raise ServiceError("repository_not_found", f"No repository of this organisation belongs to {account!r}.")


def _open_pull_requests(uow: UnitOfWork, owner: str, name: str, branch: FreezableBranch) -> str:
    return client.page(uow, owner, name, "pulls", q=f"is:pr is:open base:{branch.branch}")


def _page(uow: UnitOfWork, branch: FreezableBranch) -> str:
    return f"{uow.ports[WebOrigin].url}{BRANCH.format(id=branch.branch_id)}"
