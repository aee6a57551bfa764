"""Removal of the rulesets of frozen branches and of stops, or our rules from them, for an organisation that leaves."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, or_, select, update

from integrations.github.rulesets import Rulesets
from models.enforcement import FrozenBranchRuleset, OrganizationStop
from models.installations import Installation
from models.repositories import Repository
from rules.rulesets.frozen_branches import without_our_rules
from rules.rulesets.plans import Place, normalized
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.frozen_branches import find_unanswered


@dataclass(frozen=True, slots=True)
class FrozenBranchesLeft:
    """The ruleset of the frozen branches of a repository, or of stops of an organisation.

    Without an id one whose creation was not answered.
    """

    installation_id: int
    key: str
    place: Place
    ruleset_id: int | None
    writing: dict[str, Any] | None


def frozen_branches_left(uow: UnitOfWork) -> list[FrozenBranchesLeft]:
    """Return the rulesets of the organisation that are at GitHub, or may be."""
    row, above = FrozenBranchRuleset, OrganizationStop
    rows = uow.session.execute(
        select(Repository.installation_id, row.repository_id, Repository.owner, Repository.name)
        .add_columns(row.ruleset_id, row.writing)
        .join(Repository, Repository.id == row.repository_id)
        .where(row.organization_id == uow.organization, or_(row.ruleset_id.is_not(None), row.writing.is_not(None)))
        .order_by(row.repository_id)
    )
    found = [
        FrozenBranchesLeft(installation_id, key, Place("repository", owner, key, f"{owner}/{name}"), *rest)
        for installation_id, key, owner, name, *rest in rows
    ]
    rows_above = uow.session.execute(
        select(above.installation_id, above.id, Installation.account, above.ruleset_id, above.writing)
        .join(Installation, Installation.id == above.installation_id)
        .where(
            above.organization_id == uow.organization, or_(above.ruleset_id.is_not(None), above.writing.is_not(None))
        )
        .order_by(above.id)
    )
    return found + [
        FrozenBranchesLeft(installation_id, key, Place("organization", account), *rest)
        for installation_id, key, account, *rest in rows_above
    ]


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
        _forget(uow, left)
        if found is not None:
            action = "ruleset.deleted" if after is None else "ruleset.updated"
            target = ("ruleset", str(found["id"]), str(found["name"]))
            before, place = normalized(found), left.place.repository or left.place.account
            uow.audit(action, target, level=left.place.level, place=place, before=before, after=after)


def _forget(uow: UnitOfWork, left: FrozenBranchesLeft) -> None:
    row = FrozenBranchRuleset
    if left.place.level == "repository":
        uow.session.execute(delete(row).where(row.repository_id == left.key))
        return
    uow.session.execute(update(row).where(row.organization_stop_id == left.key).values(organization_stop_id=None))
    uow.session.execute(delete(OrganizationStop).where(OrganizationStop.id == left.key))


def _find(access: Rulesets, left: FrozenBranchesLeft) -> dict[str, Any] | None:
    """Return our ruleset as GitHub has it; None if there is none."""
    listed = access.list()
    if left.ruleset_id is not None and left.ruleset_id in {each["id"] for each in listed}:
        return access.get(left.ruleset_id)
    return find_unanswered(access, listed, left.writing, left.place.level)
