"""Which rules apply where: to the freezes in force on branches, and to the pull requests into these."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, or_, select

from models.exception_rules import ExceptionRule
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.queries import NOW, is_one_of
from models.repositories import Repository, WatchedBranch
from rules.access.organization_settings import OrganizationSettings
from rules.exceptions.language import Allow, Identities, parse_allow
from rules.freezes.scope import FreezableBranch, Scope
from services.core.plan_grants import plan_grants
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import compile_stored

_RULES = (
    select(ExceptionRule)
    .where(
        ExceptionRule.enabled,
        ExceptionRule.organization_id.in_(
            select(WatchedBranch.organization_id).where(is_one_of(WatchedBranch.id, "branches"))
        ),
    )
    .order_by(ExceptionRule.created_at, ExceptionRule.id)
    .execution_options(populate_existing=True)
)
_GRANTED = (
    select(PullRequestException.branch_id)
    .where(
        is_one_of(PullRequestException.branch_id, "branches"),
        PullRequestException.rule_name.is_not(None),
        PullRequestException.is_open,
    )
    .distinct()
)
_ANY = select(or_(_RULES.order_by(None).exists(), _GRANTED.exists()))
_FROZEN = (
    select(
        WatchedBranch,
        Repository,
        Freeze.id,
        Freeze.schedule_id,
        and_(Freeze.exceptions_allowed, Freeze.exception_rules_allowed),
        Organization.settings,
    )
    .join(FreezeTarget, FreezeTarget.branch_id == WatchedBranch.id)
    .join(Freeze, Freeze.id == FreezeTarget.freeze_id)
    .join(Repository, Repository.id == WatchedBranch.repository_id)
    .join(Organization, Organization.id == WatchedBranch.organization_id)
    .where(is_one_of(WatchedBranch.id, "branches"), FreezeTarget.operation == "apply", Freeze.is_in_force(NOW))
    .order_by(Freeze.started_at, Freeze.id)
)


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """An enabled rule, with its conditions read."""

    row: ExceptionRule
    allow: Allow
    identities: Identities
    scope: Scope

    def applies_to(self, branch: FreezableBranch, schedule_id: str | None) -> bool:
        """True if it applies to a freeze of this schedule, or to one that a person started, on this branch."""
        if self.row.freezes == "manual" and schedule_id is not None:
            return False
        if self.row.freezes == "schedules" and schedule_id not in self.row.schedule_ids:
            return False
        return self.scope.covers(branch)


@dataclass(slots=True)
class RuledBranch:
    """A branch whose freezes have rules, or had: its pull requests are judged by them."""

    branch: WatchedBranch
    repository: Repository
    self_approval: bool
    rules: dict[str, Sequence[RuleInForce]]
    """By each freeze in force that covers the branch; none for one that permits no exceptions, or none by rules."""

    def facts_changed_at(self) -> datetime | None:
        """Return when GitHub last said that what its rules ask for has changed, besides its pull requests."""
        return latest_change(self.all_rules())

    def all_rules(self) -> Collection[RuleInForce]:
        """Return every rule that applies to a freeze of the branch."""
        return rules_of([self])


def ruled_branches(uow: UnitOfWork, branch_ids: Collection[str]) -> list[RuledBranch]:
    """Return those of the branches, frozen now, that enabled rules apply to, or that have exceptions by a rule.

    Rules of an organisation whose plan has no exceptions do not apply.
    """
    values = {"branches": list(branch_ids), "now": uow.now}
    if not uow.session.scalar(_ANY, values):
        return []
    rows = uow.session.scalars(_RULES, values).all()
    plans = plan_grants(uow, {row.organization_id for row in rows})
    included = {each for each, grants in plans.items() if grants.at(uow.now).plan.includes("pr_exceptions")}
    rules = [_active(uow, row) for row in rows if row.organization_id in included]
    granted = set(uow.session.scalars(_GRANTED, values))
    found: dict[str, RuledBranch] = {}
    for branch, repository, freeze_id, schedule_id, by_freeze, settings in uow.session.execute(_FROZEN, values):
        self_approval = OrganizationSettings.from_json(settings).self_approval
        ruled = found.setdefault(branch.id, RuledBranch(branch, repository, self_approval, {}))
        place = FreezableBranch(branch.id, repository.id, repository.full_name, branch.name)
        permitted = by_freeze and branch.exceptions_allowed
        ruled.rules[freeze_id] = [
            rule
            for rule in rules
            if permitted and rule.row.organization_id == branch.organization_id and rule.applies_to(place, schedule_id)
        ]
    return [ruled for ruled in found.values() if ruled.branch.id in granted or any(ruled.rules.values())]


def rules_of(branches: Iterable[RuledBranch]) -> Collection[RuleInForce]:
    """Return every rule that applies to a freeze of one of the branches, once."""
    return {rule.row.id: rule for branch in branches for rules in branch.rules.values() for rule in rules}.values()


def latest_change(rules: Iterable[RuleInForce]) -> datetime | None:
    """Return when GitHub last said that what rules ask for has changed, besides pull requests."""
    return max((rule.row.facts_changed_at for rule in rules if rule.row.facts_changed_at is not None), default=None)


def freezes_of(branches: Iterable[RuledBranch]) -> list[str]:
    """Return the ids of the freezes in force on branches."""
    return sorted({freeze_id for branch in branches for freeze_id in branch.rules})


def _active(uow: UnitOfWork, row: ExceptionRule) -> RuleInForce:
    with uow.act_as_service(organization_id=row.organization_id):
        scope = compile_stored(uow, row.scope)
    return RuleInForce(row, parse_allow(row.allow), Identities.from_json(row.identities), scope)


def lock_rules(uow: UnitOfWork, branch_ids: Collection[str]) -> None:
    """Lock the rules of the organisations of branches: none is edited until the commit, and limits are kept."""
    uow.session.scalars(_RULES.with_for_update(), {"branches": list(branch_ids), "now": uow.now}).all()
