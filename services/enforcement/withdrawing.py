"""Withdrawing: removing every ruleset that we wrote, or our check from it, for an organisation that leaves.

A rule that requires a check which nobody writes any more would block merging for ever. What cannot be removed is told,
so that people can remove it by hand.
"""

from dataclasses import dataclass

from sqlalchemy import select

from integrations.github import GitHub, GitHubError, InstallationClient
from integrations.github.rulesets import Rulesets
from models.enforcement import WrittenRuleset
from models.installations import Installation
from models.repositories import Repository
from rules.ruleset_plans import Change, Existing, Place, plan_removal
from services.enforcement.setups import carry_out, record
from services.unit import Caller, Unit, Units


@dataclass(frozen=True, slots=True)
class Left:
    """A ruleset that could not be removed, and why."""

    place: str
    """`owner/name`, or the organisation's login."""
    ruleset_id: int
    check_name: str
    message: str


def withdraw(units: Units, github: GitHub, caller: Caller) -> list[Left]:
    """Remove the rulesets that we wrote for the caller's organisation, and return those that are left.

    One that somebody else has removed counts as removed. May be called again: what is left is tried once more.
    """
    with units.open(caller) as unit:
        owned = _owned(unit)
    return [left for row, place in owned if (left := _remove(units, github, caller, row, place)) is not None]


def _owned(unit: Unit) -> list[tuple[WrittenRuleset, Place]]:
    rows = unit.session.execute(
        select(WrittenRuleset, Installation.account, Repository.owner, Repository.name)
        .join(Installation, Installation.id == WrittenRuleset.installation_id)
        .outerjoin(Repository, Repository.id == WrittenRuleset.repository_id)
        .where(WrittenRuleset.organization_id == unit.organization)
        .order_by(WrittenRuleset.level, WrittenRuleset.ruleset_id)
    )
    return [
        (row, Place("organization", account) if owner is None else _of_repository(row, owner, name))
        for row, account, owner, name in rows
    ]


def _of_repository(row: WrittenRuleset, owner: str, name: str) -> Place:
    return Place("repository", owner, row.repository_id, f"{owner}/{name}")


def _remove(units: Units, github: GitHub, caller: Caller, row: WrittenRuleset, place: Place) -> Left | None:
    try:
        change = _carry_out(_access(github.client(row.installation_id), place), row, place)
    except GitHubError as error:
        return Left(place.repository or place.account, row.ruleset_id, row.check_name, error.message)
    with units.open(caller) as unit:
        record(unit, row.installation_id, change, row.ruleset_id)
    return None


def _access(client: InstallationClient, place: Place) -> Rulesets:
    if place.repository is None:
        return client.organization_rulesets(place.account)
    return client.repository_rulesets(place.account, place.repository.partition("/")[2])


def _carry_out(access: Rulesets, row: WrittenRuleset, place: Place) -> Change:
    """Remove one ruleset, unless the list of its place lacks it; a place that is not shown to us is an error."""
    if row.ruleset_id not in {listed["id"] for listed in access.list()}:
        return Change("delete", place, row.check_name, ruleset_id=row.ruleset_id)
    change = plan_removal(Existing(row.ruleset_id, access.get(row.ruleset_id)), place, row.check_name)
    carry_out(access, change)
    return change
