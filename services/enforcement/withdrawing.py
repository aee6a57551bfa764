"""Withdrawing: removing every ruleset that we wrote, or our check from it, for an organisation that leaves.

A rule that requires a check which nobody writes any more would block merging for ever. What cannot be removed is told,
so that people can remove it by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import select

from integrations.github import GitHub, GitHubError, InstallationClient
from integrations.github.rulesets import Rulesets
from models.enforcement import EnforcementSetup, WrittenRuleset
from models.installations import Installation
from models.repositories import Repository
from rules.rulesets.plans import Change, Existing, Place, is_as_announced, plan_removal
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.setups import carry_out, forget_announced, recalled, record
from services.github_access.failures import RATE_LIMITS
from services.github_access.rate_limiter import background_client


@dataclass(frozen=True, slots=True)
class Left:
    """A ruleset that could not be removed, and why."""

    place: str
    """`owner/name`, or the organisation's login."""
    ruleset_id: int | None
    """None for one whose creation was begun, so that nobody knows whether it is there."""
    check_name: str
    message: str
    transient: bool = False
    """Another try may remove it without anybody's doing."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """A ruleset of ours; without an id one whose creation was announced, and not recorded."""

    installation_id: int
    place: Place
    check_name: str
    ruleset_id: int | None
    announced: Change | None = None

    def left(self, message: str, *, transient: bool) -> Left:
        return Left(self.place.repository or self.place.account, self.ruleset_id, self.check_name, message, transient)


def withdraw(
    uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, keep: Callable[[], None] = lambda: None
) -> list[Left]:
    """Remove the rulesets that we wrote for the caller's organisation, and return those that are left.

    One that somebody else has removed counts as removed. May be called again: what is left is tried once more. `keep`
    is called before each one, and stops everything by raising. Once the code host limits us, nothing more is asked.
    """
    with uow_factory.open(caller) as uow:
        owned = [*_owned(uow), *_begun(uow)]
    left: list[Left] = []
    limited: str | None = None
    for each in owned:
        if limited is not None:
            left.append(each.left(limited, transient=True))
            continue
        keep()
        try:
            _remove(uow_factory, github, caller, each)
        except GitHubError as error:
            left.append(each.left(error.message, transient=error.transient))
            limited = error.message if error.kind in RATE_LIMITS else None
    return left


def _owned(uow: UnitOfWork) -> list[_Owned]:
    rows = uow.session.execute(
        select(WrittenRuleset, Installation.account, Repository.owner, Repository.name)
        .join(Installation, Installation.id == WrittenRuleset.installation_id)
        .outerjoin(Repository, Repository.id == WrittenRuleset.repository_id)
        .where(WrittenRuleset.organization_id == uow.organization)
        .order_by(WrittenRuleset.level, WrittenRuleset.ruleset_id)
    )
    return [
        _Owned(
            row.installation_id,
            Place("organization", account) if owner is None else _of_repository(row, owner, name),
            row.check_name,
            row.ruleset_id,
        )
        for row, account, owner, name in rows
    ]


def _begun(uow: UnitOfWork) -> list[_Owned]:
    """Return the creations that a worker which died may have done, or not."""
    writing = EnforcementSetup.progress["writing"]
    rows = uow.session.execute(
        select(writing, Installation.id)
        .join(Installation, Installation.account == writing["account"].astext)
        .where(
            EnforcementSetup.organization_id == uow.organization,
            Installation.organization_id == uow.organization,
            writing["action"].astext == "create",
        )
        .order_by(EnforcementSetup.id)
    )
    changes = [(recalled(announced), installation_id) for announced, installation_id in rows]
    return [_Owned(number, change.place, change.check_name, None, change) for change, number in changes]


def _of_repository(row: WrittenRuleset, owner: str, name: str) -> Place:
    return Place("repository", owner, row.repository_id, f"{owner}/{name}")


def _remove(uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, owned: _Owned) -> None:
    """Remove one at the code host, and record it; raises `GitHubError`."""
    access = _access(background_client(uow_factory, github, owned.installation_id), owned.place)
    if owned.announced is None:
        change: Change | None = _carry_out(access, owned)
    else:
        found = _find(access, owned.announced)
        change = _carry_out(access, replace(owned, ruleset_id=found)) if found is not None else None
    with uow_factory.open(caller) as uow:
        if change is not None:
            record(uow, owned.installation_id, change, change.ruleset_id or 0)
        if owned.announced is not None:
            forget_announced(uow, owned.announced)


def _find(access: Rulesets, announced: Change) -> int | None:
    """Return the id of the ruleset that an announced creation has made; None where there is no such one."""
    for listed in access.list():
        if listed["name"] == announced.name and is_as_announced(access.get(listed["id"]), announced):
            return int(listed["id"])
    return None


def _access(client: InstallationClient, place: Place) -> Rulesets:
    if place.repository is None:
        return client.organization_rulesets(place.account)
    return client.repository_rulesets(place.account, place.repository.partition("/")[2])


def _carry_out(access: Rulesets, owned: _Owned) -> Change:
    """Remove one ruleset, unless the list of its place lacks it; a place that is not shown to us is an error."""
    number = owned.ruleset_id or 0
    if number not in {listed["id"] for listed in access.list()}:
        return Change("delete", owned.place, owned.check_name, ruleset_id=number)
    change = plan_removal(Existing(number, access.get(number)), owned.place, owned.check_name)
    carry_out(access, change)
    return change
