"""Rules of exceptions as in the API: one, or a page of them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, select

from models.exception_rules import ExceptionRule
from models.exceptions import PullRequestException
from models.queries import any_of
from rules.exceptions.language import Identities
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.freezes.scope_names import named_scopes

_COPIED = ("id", "name", "enabled", "reason", "allow", "created_at", "created_by", "updated_at")
_KEYS = (ExceptionRule.created_at, ExceptionRule.id)


class Use(NamedTuple):
    """How often a rule was used."""

    uses: int = 0
    """How many pull requests it has granted exceptions to."""
    last_used_at: datetime | None = None


def list_rules(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the organisation's rules, newest first. Raise `invalid_cursor`."""
    query = select(ExceptionRule).where(ExceptionRule.organization_id == uow.organization)
    page = page_of(uow, "list_exception_rules", None, query, _KEYS, cursor=cursor, limit=limit)
    uses = uses_of(uow, [rule.id for rule in page.data])
    shown = [{**view, **uses[view["id"]]._asdict()} for view in views(uow, page.data)]
    return Page(shown, page.next_cursor)


def view(uow: UnitOfWork, rule: ExceptionRule) -> dict[str, Any]:
    """Return a rule as in the API, without its use."""
    return views(uow, [rule])[0]


def views(uow: UnitOfWork, rules: Sequence[ExceptionRule]) -> list[dict[str, Any]]:
    """Return rules as in the API, without their use; the number of queries does not depend on how many there are."""
    scopes = named_scopes(uow, [rule.scope for rule in rules])
    return [
        {
            **{name: getattr(rule, name) for name in _COPIED},
            "applies_to": _range(rule, scope),
            "limits": {"perFreeze": rule.per_freeze},
            "identities": identity_views(Identities.from_json(rule.identities)),
        }
        for rule, scope in zip(rules, scopes, strict=True)
    ]


def use_of(uow: UnitOfWork, rule: ExceptionRule) -> Use:
    """Return how often a rule was used."""
    return uses_of(uow, [rule.id])[rule.id]


def uses_of(uow: UnitOfWork, rule_ids: Collection[str]) -> Mapping[str, Use]:
    """Return how often rules were used, by id."""
    row = PullRequestException
    query = (
        select(row.rule_id, func.count(row.pull_request_id.distinct()), func.max(row.decided_at))
        .where(row.rule_id == any_of(rule_ids))
        .group_by(row.rule_id)
    )
    found = {str(rule_id): Use(uses, last) for rule_id, uses, last in uow.session.execute(query)}
    return {rule_id: found.get(rule_id, Use()) for rule_id in rule_ids}


def audit_snapshot(uow: UnitOfWork, rule: ExceptionRule) -> dict[str, Any]:
    """Return a rule as the audit log shows it, by the names of the contract."""
    shown = view(uow, rule)
    return {
        "name": shown["name"],
        "enabled": shown["enabled"],
        "reason": shown["reason"],
        "appliesTo": shown["applies_to"],
        "allow": shown["allow"],
        "limits": shown["limits"],
        "identities": shown["identities"],
    }


def _range(rule: ExceptionRule, scope: Mapping[str, Any]) -> dict[str, Any]:
    schedules = {"scheduleIds": list(rule.schedule_ids)} if rule.freezes == "schedules" else {}
    return {"scope": scope, "freezes": rule.freezes, **schedules}


def identity_views(identities: Identities) -> list[dict[str, Any]]:
    """Return whom a rule names as in the API."""
    accounts = [{"kind": "account", "name": name, "id": found} for name, found in identities.accounts.items()]
    return [*accounts, *({"kind": "team", "name": name, "id": team.id} for name, team in identities.teams.items())]
