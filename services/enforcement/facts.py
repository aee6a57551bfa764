"""The facts for a plan of rulesets: the repositories in a scope, and the rulesets that we wrote."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, false, func, select

from models.enforcement import BranchEnforcement, EnforcementSetup, WrittenRuleset
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.repositories import BranchTip, Repository, WatchedBranch
from rules.rulesets.findings import BRANCH_MISSING
from rules.rulesets.needs import KnownBranch, KnownRepository
from rules.rulesets.plans import Change
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve_targets
from services.github_access.client import installation_of


@dataclass(frozen=True, slots=True)
class OwnedRuleset:
    """A ruleset that we created."""

    level: str
    ruleset_id: int
    repository_id: str | None
    check_name: str
    forbids_deletion: bool


@dataclass(frozen=True, slots=True)
class SetupFacts:
    """What was read from the database."""

    installation_id: int
    account: str
    whole: bool
    """The scope is everything: rulesets may be the organisation's, and unneeded ones are removed."""
    with_patterns: bool
    """The scope includes whole repositories, and so their `autoWatch` patterns."""
    repositories: dict[str, KnownRepository]
    """In the order of their ids."""
    owned: tuple[OwnedRuleset, ...]
    unrecorded: frozenset[tuple[str, str | None, str]]
    """Level, repository id and name of rulesets whose creation was started and not recorded."""
    frozen_checks: frozenset[tuple[str, str]]
    """Repository id and check name where a freeze is in force: these rulesets are not removed."""
    authorized: frozenset[str]
    """Ids of the repositories whose rulesets an administrator at GitHub has authorised the service to write."""
    forbid_deletion: bool = False
    """The setup adds a rule against deletion to the rulesets of single branches."""

    def unauthorized(self, changes: Iterable[Change]) -> list[str]:
        """Return the names of the changes' repositories whose rulesets no administrator has authorised, in order."""
        names = {
            name for change in changes for each, name in change.repositories.items() if each not in self.authorized
        }
        return sorted(names)


def read_facts_of_setup(uow: UnitOfWork, setup: EnforcementSetup) -> SetupFacts:
    """Read what the plan of a stored setup needs; raise what `read_facts` raises."""
    return read_facts(uow, setup.scope, forbid_deletion=bool(setup.progress.get("protectFromDeletion")))


def read_facts(uow: UnitOfWork, scope: dict[str, Any], *, forbid_deletion: bool = False) -> SetupFacts:
    """Read what a plan needs; raise `no_targets_in_scope`, and what `installation_of` raises."""
    reached = {branch.branch_id: branch.repository_id for branch in resolve_targets(uow, scope).branches}
    installation = uow.session.get_one(Installation, installation_of(uow))
    with_patterns = scope["type"] != "branch" and scope.get("branches") is None
    return SetupFacts(
        installation_id=installation.id,
        account=installation.account,
        whole=scope["type"] == "organization" and with_patterns,
        with_patterns=with_patterns,
        repositories=_repositories(uow, installation.id, reached),
        owned=_owned(uow, installation.id),
        unrecorded=_unrecorded(uow),
        frozen_checks=frozen_checks(uow),
        authorized=_authorized(uow, installation.id),
        forbid_deletion=forbid_deletion,
    )


def _repositories(uow: UnitOfWork, installation_id: int, reached: dict[str, str]) -> dict[str, KnownRepository]:
    ids = sorted(set(reached.values()))
    branches: dict[str, list[KnownBranch]] = defaultdict(list)
    missing = BranchEnforcement.findings.contains([{"code": BRANCH_MISSING.code}])
    query = (
        select(WatchedBranch, func.coalesce(and_(missing, BranchTip.branch_id.is_not(None)), false()))
        .outerjoin(BranchEnforcement, BranchEnforcement.branch_id == WatchedBranch.id)
        .outerjoin(BranchTip, BranchTip.branch_id == WatchedBranch.id)
        .where(WatchedBranch.repository_id.in_(ids))
        .order_by(WatchedBranch.name)
    )
    for row, deleted in uow.session.execute(query):
        watched = row.unwatched_at is None
        branches[row.repository_id].append(
            KnownBranch(row.id, row.name, row.check_name, row.id in reached, row.pattern_check_name, watched, deleted)
        )
    rows = uow.session.scalars(
        select(Repository)
        .where(Repository.id.in_(ids), Repository.installation_id == installation_id)
        .order_by(Repository.id)
    )
    return {
        row.id: KnownRepository(
            repository_id=row.id,
            github_id=row.github_id,
            owner=row.owner,
            name=row.name,
            archived=row.archived,
            auto_watch=tuple(row.auto_watch),
            branches=tuple(branches[row.id]),
            former_globs=tuple(row.former_globs),
        )
        for row in rows
    }


def _owned(uow: UnitOfWork, installation_id: int) -> tuple[OwnedRuleset, ...]:
    rows = uow.session.scalars(
        select(WrittenRuleset)
        .where(WrittenRuleset.organization_id == uow.organization, WrittenRuleset.installation_id == installation_id)
        .order_by(WrittenRuleset.ruleset_id)
    )
    return tuple(
        OwnedRuleset(row.level, row.ruleset_id, row.repository_id, row.check_name, row.forbids_deletion) for row in rows
    )


def _authorized(uow: UnitOfWork, installation_id: int) -> frozenset[str]:
    rows = uow.session.scalars(
        select(Repository.id).where(
            Repository.organization_id == uow.organization,
            Repository.installation_id == installation_id,
            Repository.rulesets_authorized_at.is_not(None),
        )
    )
    return frozenset(rows)


def _unrecorded(uow: UnitOfWork) -> frozenset[tuple[str, str | None, str]]:
    intent = EnforcementSetup.progress["writing"]
    rows = uow.session.scalars(
        select(intent).where(
            EnforcementSetup.organization_id == uow.organization, EnforcementSetup.progress.has_key("writing")
        )
    )
    creations = (each for each in rows if each["action"] == "create")
    return frozenset((each["level"], each["repositoryId"], each["name"]) for each in creations)


def frozen_checks(uow: UnitOfWork) -> frozenset[tuple[str, str]]:
    """Return repository id and check name of every rule that enforces a freeze in force."""
    rows = uow.session.execute(
        select(WatchedBranch.repository_id, WatchedBranch.check_name, WatchedBranch.pattern_check_name)
        .join(FreezeTarget, FreezeTarget.branch_id == WatchedBranch.id)
        .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
        .where(Freeze.organization_id == uow.organization, Freeze.is_in_force(uow.now))
        .distinct()
    )
    return frozenset((repository_id, name) for repository_id, *names in rows for name in names if name is not None)
