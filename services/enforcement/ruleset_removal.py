"""Removal of every ruleset that we wrote, or our check from it, for an organisation that leaves.

A rule that requires a check which is not written any more would block merging for ever. What cannot be removed is
reported, so that people can remove it by hand.
"""

from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import distinct_on

from integrations.github import ErrorKind, GitHub, GitHubError, InstallationClient
from integrations.github.rulesets import Rulesets
from models.enforcement import EnforcementSetup, WrittenRuleset
from models.installations import Installation
from models.repositories import Repository
from rules.rulesets.plans import Change, Existing, Place, matches_intent, plan_removal
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease
from services.enforcement.frozen_branch_removal import FrozenBranchesLeft, frozen_branches_left, remove
from services.enforcement.setups import carry_out, clear_intent, load_intent, save_ruleset
from services.github_access.failures import RATE_LIMITS, WithheldError
from services.github_access.rate_limiter import background_client


@dataclass(frozen=True, slots=True)
class Remaining:
    """A ruleset that could not be removed, and why."""

    place: str
    """`owner/name`, or the organisation's login."""
    ruleset_id: int | None
    """None for one whose creation was started and not recorded, so that it may not exist."""
    check_name: str | None
    """The check that it requires; None for that of the frozen branches."""
    message: str
    transient: bool = False
    """True if a retry may succeed without a change by a person."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """A ruleset of ours; without an id one whose creation was intended, and not recorded."""

    installation_id: int
    place: Place
    check_name: str
    ruleset_id: int | None
    intent: Change | None = None
    forbids_deletion: bool = False
    """Whether its rule against deletion is ours."""
    frozen_branches: FrozenBranchesLeft | None = None
    """Set for the ruleset of the frozen branches, which requires no check."""

    def remaining(self, message: str, *, transient: bool) -> Remaining:
        """Return that it could not be removed, and why."""
        check_name = self.check_name if self.frozen_branches is None else None
        where = self.place.repository or self.place.account
        return Remaining(where, self.ruleset_id, check_name, message, transient=transient)


def withdraw(
    uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, lease: Lease | None = None
) -> list[Remaining]:
    """Remove the rulesets that we wrote for the caller's organisation, and return those that remain.

    One that was removed by others counts as removed. May be called again: what remains is tried once more. Before
    each call `lease` is renewed; raise `LeaseLostError` if it has ended, and `WithheldError` on a restored database.
    After a rate limit nothing more is called.
    """
    with uow_factory.open(caller) as uow:
        owned = [*_owned(uow), *_unconfirmed_creations(uow), *map(_of_frozen_branches, frozen_branches_left(uow))]
    remaining: list[Remaining] = []
    limited: str | None = None
    for each in owned:
        if limited is not None:
            remaining.append(each.remaining(limited, transient=True))
            continue
        try:
            _remove(uow_factory, github, caller, lease, each)
        except WithheldError:
            raise
        except GitHubError as error:
            transient = error.transient or error.kind is ErrorKind.APP_REFUSED
            remaining.append(each.remaining(error.message, transient=transient))
            limited = error.message if error.kind in RATE_LIMITS else None
    return remaining


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
            forbids_deletion=row.forbids_deletion,
        )
        for row, account, owner, name in rows
    ]


def _unconfirmed_creations(uow: UnitOfWork) -> list[_Owned]:
    """Return the creations that a worker began and did not record.

    Each with the installation of its account: if the App was installed several times, the one that is not removed.
    """
    writing = EnforcementSetup.progress["writing"]
    rows = uow.session.execute(
        select(writing, Installation.id)
        .join(Installation, Installation.account == writing["account"].astext)
        .where(
            EnforcementSetup.organization_id == uow.organization,
            Installation.organization_id == uow.organization,
            writing["action"].astext == "create",
        )
        .ext(distinct_on(EnforcementSetup.id))
        .order_by(EnforcementSetup.id, Installation.state == "removed", Installation.created_at.desc())
    )
    found = [(installation_id, load_intent(intent)) for intent, installation_id in rows]
    return [_Owned(installation_id, intent.place, intent.check_name, None, intent) for installation_id, intent in found]


def _of_frozen_branches(left: FrozenBranchesLeft) -> _Owned:
    return _Owned(left.installation_id, left.place, "", left.ruleset_id, frozen_branches=left)


def _of_repository(row: WrittenRuleset, owner: str, name: str) -> Place:
    return Place("repository", owner, row.repository_id, f"{owner}/{name}")


def _remove(uow_factory: UnitOfWorkFactory, github: GitHub, caller: Caller, lease: Lease | None, owned: _Owned) -> None:
    """Remove one on GitHub, and record it; raise `GitHubError` if that fails."""
    access = _access(background_client(uow_factory, github, owned.installation_id, lease), owned.place)
    if owned.frozen_branches is not None:
        remove(uow_factory, caller, access, owned.frozen_branches)
        return
    if owned.intent is None:
        change: Change | None = _carry_out(access, owned)
    else:
        found = _find(access, owned.intent)
        change = _carry_out(access, replace(owned, ruleset_id=found)) if found is not None else None
    with uow_factory.open(caller) as uow:
        if change is not None:
            save_ruleset(uow, owned.installation_id, change, change.ruleset_id or 0)
        if owned.intent is not None:
            clear_intent(uow, owned.intent)


def _find(access: Rulesets, intent: Change) -> int | None:
    """Return the id of the ruleset that an intended creation has made; None if there is none."""
    for listed in access.list():
        if listed["name"] == intent.name and matches_intent(access.get(listed["id"]), intent):
            return int(listed["id"])
    return None


def _access(client: InstallationClient, place: Place) -> Rulesets:
    if place.repository is None:
        return client.organization_rulesets(place.account)
    return client.repository_rulesets(place.account, place.repository.partition("/")[2])


def _carry_out(access: Rulesets, owned: _Owned) -> Change:
    """Remove one ruleset, unless it is not listed in its place; a place that is not shown to us is an error."""
    ruleset_id = owned.ruleset_id or 0
    if ruleset_id not in {listed["id"] for listed in access.list()}:
        return Change("delete", owned.place, owned.check_name, ruleset_id=ruleset_id)
    forbids = owned.forbids_deletion or (owned.intent is not None and owned.intent.forbids_deletion)
    change = plan_removal(Existing(ruleset_id, access.get(ruleset_id), forbids), owned.place, owned.check_name)
    carry_out(access, change)
    return change
