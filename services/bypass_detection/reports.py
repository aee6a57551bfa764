"""Reports a classified push once: a row, an audit entry, and an alert."""

from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert

from models.enforcement import FrozenBranchPush
from models.freezes import IN_FORCE
from rules.access.permissions import Actor
from rules.freezes.bypass import Classification, Push
from rules.ids import new_id
from rules.time.instants import format_instant
from services.alerts.alerts import Alert, Severity, open_alert
from services.bypass_detection.evidence import ClassifiedPush, PushedBranch
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.client import page
from services.pull_request_exceptions.changes import mark_used

ALERTS: dict[str, tuple[str, Severity]] = {
    "bypassed": ("freeze_bypassed", "critical"),
    "unprotected": ("unprotected_change", "critical"),
    "enforcement_gap": ("enforcement_gap", "warning"),
    "landed_before_block": ("landed_before_block", "info"),
}
"""The alert of each kind: its type and severity. A push that an exception allowed has none."""
ACTIONS = {kind: f"freeze.{kind}" for kind in ALERTS} | {"unprotected": "freeze.unprotected_change"}
"""The action of the audit for each kind."""
MIN_ALERT_DURATION = timedelta(hours=24)
"""An alert stays open at least as long: a freeze may end minutes after it was bypassed."""
ACTIVITIES = {
    "pr_merge": "merged{pull} into",
    "merge_queue_merge": "merged{pull} through the merge queue into",
    "push": "pushed to",
    "force_push": "force-pushed to",
    "branch_creation": "deleted and re-created",
}


def report(uow_factory: UnitOfWorkFactory, branch: PushedBranch, found: ClassifiedPush) -> None:
    """Record, audit and alert in one transaction; do nothing if the push is recorded already.

    A push that an exception allowed raises no alert: the exception records that it was used.
    """
    push, classification = found.push, found.classification
    actor = Actor("code_host", None, push.actor)
    with uow_factory.open(Caller(branch.organization_id, actor, "code_host")) as uow:
        push_id = _insert(uow, branch, push, classification)
        if push_id is None:
            return
        if classification.kind not in ALERTS:
            mark_used(uow, found.exceptions, push)
            return
        uow.audit(
            ACTIONS[classification.kind], ("branch", branch.id, branch.full_name), **_details(push, classification)
        )
        open_alert(uow, _alert(uow, push_id, branch, push, classification))


def _insert(uow: UnitOfWork, branch: PushedBranch, push: Push, classification: Classification) -> str | None:
    statement = insert(FrozenBranchPush).values(
        id=new_id("lan"),
        organization_id=branch.organization_id,
        branch_id=branch.id,
        sha=push.commit,
        kind=classification.kind,
        landed_at=push.instant,
        found_at=uow.now,
        details=_details(push, classification),
    )
    return uow.session.scalar(statement.on_conflict_do_nothing().returning(FrozenBranchPush.id))


def _details(push: Push, classification: Classification) -> dict[str, object]:
    return {
        "commit": push.commit,
        "landedAt": format_instant(push.instant),
        "how": push.how,
        "who": push.actor,
        "pullRequest": push.pull_request,
        "headSha": push.head_sha,
        "freezeIds": list(classification.freezes),
        "delaySeconds": classification.delay,
    }


def _alert(uow: UnitOfWork, push_id: str, branch: PushedBranch, push: Push, classification: Classification) -> Alert:
    kind, severity = ALERTS[classification.kind]
    return Alert(
        key=f"{kind} {push_id}",
        type=kind,
        severity=severity,
        subject=("branch", branch.id, branch.full_name),
        message=_message(branch, push, classification),
        action=_action(uow, branch, push),
    )


def _action(uow: UnitOfWork, branch: PushedBranch, push: Push) -> tuple[str, str]:
    """Link to the pull request or commit, where people discuss it and can revert it."""
    if push.pull_request:
        number = str(push.pull_request)
        return f"Open pull request #{number}", page(uow, branch.owner, branch.repository, "pull", number)
    return "Open the commit", page(uow, branch.owner, branch.repository, "commit", push.commit)


def _message(branch: PushedBranch, push: Push, classification: Classification) -> str:
    pull = f" #{push.pull_request}" if push.pull_request else ""
    activity = ACTIVITIES.get(push.how, "changed").format(pull=pull)
    fact = f"{push.actor} {activity} {branch.full_name} while it was frozen (commit {push.commit[:7]})"
    if classification.kind == "bypassed":
        return f"{fact}, past the freeze."
    if classification.kind == "unprotected":
        return f"{fact}: no rule at GitHub kept them from it. Set up enforcement."
    if classification.kind == "enforcement_gap":
        return f"{fact}: our check said success by mistake."
    if not classification.delay:
        return f"{fact}, within the second in which the freeze began."
    return f"{fact}, {classification.delay} s after it had to be blocked and before our check said so."


_RESOLVE = text(f"""
    UPDATE attention_items a SET cleared_at = :now
    FROM frozen_branch_pushes p
    WHERE a.cleared_at IS NULL AND a.since <= :before AND a.type = ANY(:types) AND p.id = split_part(a.key, ' ', 2)
      AND NOT EXISTS (
        SELECT FROM freezes f
        WHERE f.id IN (SELECT jsonb_array_elements_text(p.details -> 'freezeIds')) AND {IN_FORCE}
      )
""")  # noqa: S608 - a constant


def resolve_outdated_alerts(uow: UnitOfWork) -> None:
    """Resolve the alerts of pushes whose freezes have all ended and that were open for a day."""
    types = [kind for kind, _severity in ALERTS.values()]
    uow.session.execute(_RESOLVE, {"now": uow.now, "before": uow.now - MIN_ALERT_DURATION, "types": types})
