"""Freezes, schedules and exceptions."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from models.exception_rules import ExceptionRule, ExceptionRuleResult
from models.exceptions import PullRequestException
from models.freezes import Freeze, FreezeTarget
from models.organizations import Organization
from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import new_id
from tests.factories.adding import SYSTEM, added, now
from tests.factories.audit import audit_entry


def freeze(session: Session, of: Organization | str, branches: Iterable[WatchedBranch] = (), **columns: Any) -> Freeze:
    """Add a freeze in force (of the given columns) that covers the branches; an enforced one is blocked."""
    organization_id = of if isinstance(of, str) else of.id
    columns.setdefault("blocked_at", columns.get("enforced_at"))
    row = Freeze(
        id=new_id("frz"),
        organization_id=organization_id,
        reason=columns.pop("reason", "Release under way"),
        scope=columns.pop("scope", {"type": "organization"}),
        source=columns.pop("source", "manual"),
        started_at=columns.pop("started_at", now() - timedelta(minutes=1)),
        exceptions_allowed=columns.pop("exceptions_allowed", True),
        impact_acknowledged=columns.pop("impact_acknowledged", True),
        created_by=columns.pop("created_by", SYSTEM),
        **columns,
    )
    added(session, row)
    for covered in branches:
        target(session, row, covered)
    return row


def target(session: Session, of: Freeze, covered: WatchedBranch, **columns: Any) -> FreezeTarget:
    """Cover a branch with a freeze."""
    row = FreezeTarget(
        id=new_id("tgt"),
        organization_id=of.organization_id,
        freeze_id=of.id,
        branch_id=covered.id,
        generation=columns.pop("generation", 1),
        **columns,
    )
    return added(session, row)


FAR_AWAY = {"frequency": "weekly", "start_date": "2099-01-02", "by_day": ["FR"]}
"""A recurrence for tests of windows that they add themselves: by its own, a schedule plans none near them."""


def schedule(session: Session, of: Organization, **columns: Any) -> Schedule:
    """Add an enabled schedule (of the given columns): the whole organisation, every Friday evening in London."""
    given = {
        "id": new_id("sch"),
        "name": "Weekends",
        "scope": {"type": "organization"},
        "timezone": "Europe/London",
        "recurrence": {"frequency": "weekly", "start_date": "2026-01-02", "by_day": ["FR"]},
        "window": {"start_time": "17:00", "end_time": "08:00", "days": 3},
        "reason": "No release team at the weekend",
        "exceptions_allowed": True,
        "enabled": True,
        "allow_overlap": False,
        "source": "manual",
        "created_by": SYSTEM,
    }
    return added(session, Schedule(organization_id=of.id, **given | columns))


def occurrence(session: Session, of: Schedule, **columns: Any) -> Occurrence:
    """Add an occurrence (of the given columns): planned, for an hour from tomorrow on."""
    starts_at = columns.pop("starts_at", now() + timedelta(days=1))
    row = Occurrence(
        id=new_id("occ"),
        organization_id=of.organization_id,
        schedule_id=of.id,
        starts_at=starts_at,
        ends_at=columns.pop("ends_at", starts_at + timedelta(hours=1)),
        **columns,
    )
    return added(session, row)


def calendar_import(session: Session, of: Organization) -> str:
    """Add a schedule that an import has created, with what the audit says of it, and return the id of the import."""
    made, request_id, at = schedule(session, of, source="import"), new_id("req"), now()
    actions = {
        "schedule.created": ({"type": "schedule", "id": made.id, "name": made.name}, {}),
        "schedule.imported": (
            {"type": "organization", "id": of.id, "name": of.name},
            {"schedules": [made.id]},
        ),
    }
    for action, (about, details) in actions.items():
        given = {"source": "dashboard", "request_id": request_id, "at": at}
        entry = audit_entry(session, of, action=action, target=about, details=details, **given)
    return entry.id


def exception(
    session: Session, of: Freeze, pull: PullRequest, on: WatchedBranch, **columns: Any
) -> PullRequestException:
    """Add an exception (of the given columns): granted a minute ago, without an end of its own."""
    given = {
        "request_group_id": new_id("exg"),
        "reason": "The hotfix that has to go in",
        "pin_to_head": False,
        "head_sha": pull.head_sha,
        "created_at": now() - timedelta(minutes=1),
        "decision": "granted",
        "decided_by": SYSTEM,
        "decided_at": now() - timedelta(minutes=1),
    }
    row = PullRequestException(
        id=new_id("exc"),
        organization_id=of.organization_id,
        freeze_id=of.id,
        pull_request_id=pull.id,
        branch_id=on.id,
        **given | columns,
    )
    return added(session, row)


def rule_result(session: Session, rule: ExceptionRule, pull: PullRequest, **columns: Any) -> ExceptionRuleResult:
    """Add what a pass has found of a rule (of the given columns): that it is met."""
    given = {"head_sha": pull.head_sha, "outcome": "met", "conditions": [], "judged_at": now()}
    of = {"rule_id": rule.id, "pull_request_id": pull.id, "organization_id": rule.organization_id}
    return added(session, ExceptionRuleResult(**of, **given | columns))


def exception_rule(session: Session, organization: Organization, **columns: Any) -> ExceptionRule:
    """Add a rule (of the given columns): what changes documentation only passes every freeze."""
    rule_id = new_id("exr")
    given = {
        "name": f"Documentation only {rule_id}",
        "enabled": True,
        "reason": "Documentation is not part of the release",
        "scope": {"type": "organization"},
        "freezes": "all",
        "schedule_ids": [],
        "allow": {"all": [{"paths": {"onlyMatching": ["docs/**"]}}]},
        "identities": {"accounts": {}, "teams": {}},
        "created_by": SYSTEM,
    }
    return added(session, ExceptionRule(id=rule_id, organization_id=organization.id, **given | columns))
