"""Removal of the rulesets of frozen branches, or our rules from them, for an organisation that leaves."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, or_, select

from integrations.github.rulesets import Rulesets
from models.enforcement import FrozenBranchRuleset
from models.repositories import Repository
from rules.rulesets.frozen_branches import without_our_rules
from rules.rulesets.plans import normalized
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.frozen_branches import find_unanswered


@dataclass(frozen=True, slots=True)
class FrozenBranchesLeft:
    """The ruleset of the frozen branches of a repository; without an id one whose creation was not answered."""

    installation_id: int
    repository_id: str
    owner: str
    name: str
    ruleset_id: int | None
    writing: dict[str, Any] | None

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"


def frozen_branches_left(uow: UnitOfWork) -> list[FrozenBranchesLeft]:
    """Return the rulesets of the organisation that are at GitHub, or may be."""
    row = FrozenBranchRuleset
    rows = uow.session.execute(
        select(Repository.installation_id, row.repository_id, Repository.owner, Repository.name)
        .add_columns(row.ruleset_id, row.writing)
        .join(Repository, Repository.id == row.repository_id)
        .where(row.organization_id == uow.organization, or_(row.ruleset_id.is_not(None), row.writing.is_not(None)))
        .order_by(row.repository_id)
    )
    return [FrozenBranchesLeft(*each) for each in rows]


def remove(uow_factory: UnitOfWorkFactory, caller: Caller, access: Rulesets, left: FrozenBranchesLeft) -> None:
    """Remove one at GitHub, unless it is gone already, and record that; raise `GitHubError` if that fails."""
    found = _find(access, left)
    after: dict[str, Any] | None = None
    if found is not None:
        after = without_our_rules(found)
        if after is not None:
            access.update(int(found["id"]), after)
        else:
            access.delete(int(found["id"]))
    with uow_factory.open(caller) as uow:
        uow.session.execute(delete(FrozenBranchRuleset).where(FrozenBranchRuleset.repository_id == left.repository_id))
        if found is not None:
            action = "ruleset.deleted" if after is None else "ruleset.updated"
            target = ("ruleset", str(found["id"]), str(found["name"]))
            before = normalized(found)
            uow.audit(action, target, level="repository", place=left.full_name, before=before, after=after)


def _find(access: Rulesets, left: FrozenBranchesLeft) -> dict[str, Any] | None:
    """Return our ruleset as GitHub has it; None if there is none."""
    listed = access.list()
    if left.ruleset_id is not None and left.ruleset_id in {each["id"] for each in listed}:
        return access.get(left.ruleset_id)
    return find_unanswered(access, listed, left.writing)
