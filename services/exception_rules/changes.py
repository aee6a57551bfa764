"""Creating, changing and deleting rules of exceptions. Afterwards what they may let in is judged again at once.

Creating and changing need a plan with exceptions; disabling and deleting work on every plan.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import func, select

from models.exception_rules import ExceptionRule
from models.installations import Installation
from models.queries import frozen_branches
from rules.billing.plans import require_feature
from rules.errors import ServiceError
from rules.exceptions.language import HasLabel, Identities, conditions_of, parse_allow
from rules.ids import new_id
from services.core.entity_tags import require_match
from services.core.lookups import get_exception_rule
from services.core.unit_of_work import UnitOfWork
from services.exception_rules.validation import check, require_free_name
from services.exception_rules.views import audit_snapshot, view
from services.organizations.organizations import lock_current
from services.pull_request_exceptions.changes import schedule_checks

MAX_RULES = 50
"""Rules that an organisation may have."""


@dataclass(frozen=True, slots=True)
class NewRule:
    """The input for a new rule; the values as in the contract."""

    name: str
    reason: str
    applies_to: dict[str, Any]
    allow: dict[str, Any]
    enabled: bool = True
    limits: dict[str, Any] = field(default_factory=dict)


def create(uow: UnitOfWork, wanted: NewRule) -> ExceptionRule:
    """Create a rule. Raise the errors of `check`, and `invalid_state` if the organisation has too many."""
    given = _trimmed(asdict(wanted))
    identities = check(uow, given)
    _require_below_limit(uow)
    require_free_name(uow, wanted.name)
    rule = ExceptionRule(
        id=new_id("exr"),
        organization_id=uow.organization,
        created_at=uow.now,
        created_by=uow.actor.as_json(),
        updated_at=uow.now,
        **_columns(given, identities),
    )
    uow.session.add(rule)
    uow.session.flush()
    uow.audit("exception_rule.created", _target(rule), before=None, after=audit_snapshot(uow, rule))
    _judge_again(uow)
    return rule


def change(uow: UnitOfWork, rule_id: str, changes: Mapping[str, Any], if_match: str | None = None) -> ExceptionRule:
    """Change the given properties of a rule.

    Raise `exception_rule_not_found`, `precondition_failed` (also if somebody else changes it meanwhile),
    `feature_not_available`, and the errors of `check`.
    """
    shown = view(uow, _get_matching(uow, rule_id, if_match))
    wanted = {name: value for name, value in _trimmed(changes).items() if value != shown[name]}
    if wanted and wanted != {"enabled": False}:
        require_feature(uow.plan, "pr_exceptions")
    identities = check(uow, wanted, rule_id)
    lock_current(uow)
    rule = _get_matching(uow, rule_id, if_match, lock=True)
    if view(uow, rule) != shown:
        raise ServiceError("precondition_failed", "Somebody else has changed the rule meanwhile. Read it again.")
    if not wanted:
        return rule
    if "name" in wanted:
        require_free_name(uow, wanted["name"], rule_id)
    before = audit_snapshot(uow, rule)
    for name, value in _columns(wanted, identities).items():
        setattr(rule, name, value)
    rule.updated_at = uow.now
    uow.session.flush()
    uow.audit("exception_rule.changed", _target(rule), before=before, after=audit_snapshot(uow, rule))
    _judge_again(uow)
    return rule


def delete(uow: UnitOfWork, rule_id: str, if_match: str | None = None) -> None:
    """Delete a rule; its exceptions keep its name. Raise `exception_rule_not_found`, `precondition_failed`."""
    rule = _get_matching(uow, rule_id, if_match, lock=True)
    uow.refresh_now()
    uow.audit("exception_rule.deleted", _target(rule), before=audit_snapshot(uow, rule), after=None)
    uow.session.delete(rule)
    uow.session.flush()
    _judge_again(uow)


def _get_matching(uow: UnitOfWork, rule_id: str, if_match: str | None, *, lock: bool = False) -> ExceptionRule:
    rule = get_exception_rule(uow, rule_id, lock=lock)
    require_match(if_match, lambda: view(uow, rule))
    return rule


def _trimmed(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.strip() if name == "reason" else value for name, value in given.items()}


def _columns(given: Mapping[str, Any], identities: Identities | None) -> dict[str, Any]:
    """Return checked properties, already trimmed, by the names of their columns."""
    columns = {name: value for name, value in given.items() if name not in {"applies_to", "limits"}}
    if "applies_to" in given:
        applies_to = given["applies_to"]
        columns |= {name: applies_to[name] for name in ("scope", "freezes")}
        columns["schedule_ids"] = applies_to.get("scheduleIds", [])
    if "limits" in given:
        columns["per_freeze"] = given["limits"].get("perFreeze")
    return columns if identities is None else {**columns, "identities": identities.as_json()}


def _require_below_limit(uow: UnitOfWork) -> None:
    lock_current(uow)
    existing = select(func.count()).where(ExceptionRule.organization_id == uow.organization)
    if uow.session.scalars(existing).one() >= MAX_RULES:
        message = f"The organisation has {MAX_RULES} rules of exceptions, which is the maximum. Delete one first."
        raise ServiceError("invalid_state", message)


def judge_again(uow: UnitOfWork, installation_id: int, team_id: int | None) -> None:
    """Have pull requests judged again by the rules that name a team, because it has other members.

    None: by the rules that name a label, because a label was changed.
    """
    own = select(Installation.organization_id).where(Installation.id == installation_id).scalar_subquery()
    query = select(ExceptionRule).where(ExceptionRule.organization_id == own, ExceptionRule.enabled)
    rules = uow.session.scalars(query.order_by(ExceptionRule.created_at, ExceptionRule.id).with_for_update()).all()
    named = [rule for rule in rules if _depends_on(rule, team_id)]
    for rule in named:
        rule.facts_changed_at = uow.now
    uow.session.flush()
    if named:
        with uow.act_as_service(organization_id=named[0].organization_id):
            _judge_again(uow)


def _depends_on(rule: ExceptionRule, team_id: int | None) -> bool:
    if team_id is None:
        return any(isinstance(condition, HasLabel) for condition in conditions_of(parse_allow(rule.allow)))
    return any(team_id == own_id for _owner, own_id in rule.identities["teams"].values())


def _judge_again(uow: UnitOfWork) -> None:
    """Have the pull requests into every frozen branch of the organisation judged again, and their checks written."""
    frozen = set(uow.session.scalars(frozen_branches(uow.organization, uow.now)))
    if frozen:
        schedule_checks(uow, frozen)


def _target(rule: ExceptionRule) -> tuple[str, str, str]:
    return "exception_rule", rule.id, rule.name
