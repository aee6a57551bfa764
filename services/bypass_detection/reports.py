"""Telling of a landing, once: a row that makes it known, an audit entry, and an item that asks for attention."""

from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert

from models.enforcement import Landing as LandingRow
from models.freezes import IN_FORCE
from rules.access.permissions import Actor
from rules.freezes.bypass import Classified, Landing
from rules.ids import new_id
from rules.time.instants import format_instant
from services.alerts.alerts import Alert, Severity, open_alert
from services.bypass_detection.evidence import Examined, LandedBranch
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.github_access.client import page
from services.pull_request_exceptions.changes import mark_used

ITEMS: dict[str, tuple[str, Severity]] = {
    "bypassed": ("freeze_bypassed", "critical"),
    "enforcement_gap": ("enforcement_gap", "warning"),
    "landed_before_block": ("landed_before_block", "info"),
}
"""What asks for attention: the item's type and severity. What an exception allowed asks for none."""
SHOWN = timedelta(hours=24)
"""An item stays open for so long at least: a freeze may end minutes after it was bypassed."""
DEEDS = {
    "pr_merge": "merged{pull} into",
    "merge_queue_merge": "merged{pull} through the merge queue into",
    "push": "pushed to",
    "force_push": "force-pushed to",
    "branch_creation": "deleted and created anew",
}


def report(uow_factory: UnitOfWorkFactory, branch: LandedBranch, examined: Examined) -> None:
    """Write the landing down, audit it and raise its item, all at once; one that is known already changes nothing.

    What an exception allowed asks for no attention: the exception tells that it was used.
    """
    landing, judged = examined.landing, examined.judged
    actor = Actor("code_host", None, landing.actor)
    with uow_factory.open(Caller(branch.organization_id, actor, "code_host")) as uow:
        landing_id = _insert(uow, branch, landing, judged)
        if landing_id is None:
            return
        if judged.kind not in ITEMS:
            mark_used(uow, examined.exceptions, landing)
            return
        uow.audit(f"freeze.{judged.kind}", ("branch", branch.id, branch.full_name), **_details(landing, judged))
        open_alert(uow, _item(uow, landing_id, branch, landing, judged))


def _insert(uow: UnitOfWork, branch: LandedBranch, landing: Landing, judged: Classified) -> str | None:
    statement = insert(LandingRow).values(
        id=new_id("lan"),
        organization_id=branch.organization_id,
        branch_id=branch.id,
        sha=landing.commit,
        kind=judged.kind,
        landed_at=landing.instant,
        found_at=uow.now,
        details=_details(landing, judged),
    )
    return uow.session.scalar(statement.on_conflict_do_nothing().returning(LandingRow.id))


def _details(landing: Landing, judged: Classified) -> dict[str, object]:
    return {
        "commit": landing.commit,
        "landedAt": format_instant(landing.instant),
        "how": landing.how,
        "who": landing.actor,
        "pullRequest": landing.pull_request,
        "headSha": landing.head_sha,
        "freezeIds": list(judged.freezes),
        "delaySeconds": judged.delay,
    }


def _item(uow: UnitOfWork, landing_id: str, branch: LandedBranch, landing: Landing, judged: Classified) -> Alert:
    kind, severity = ITEMS[judged.kind]
    return Alert(
        key=f"{kind} {landing_id}",
        type=kind,
        severity=severity,
        subject=("branch", branch.id, branch.full_name),
        message=_message(branch, landing, judged),
        action=_action(uow, branch, landing),
    )


def _action(uow: UnitOfWork, branch: LandedBranch, landing: Landing) -> tuple[str, str]:
    """Lead to what landed, where people see it, talk about it and can revert it."""
    if landing.pull_request:
        number = str(landing.pull_request)
        return f"Open pull request #{number}", page(uow, branch.owner, branch.repository, "pull", number)
    return "Open the commit", page(uow, branch.owner, branch.repository, "commit", landing.commit)


def _message(branch: LandedBranch, landing: Landing, judged: Classified) -> str:
    pull = f" #{landing.pull_request}" if landing.pull_request else ""
    deed = DEEDS.get(landing.how, "changed").format(pull=pull)
    told = f"{landing.actor} {deed} {branch.full_name} while it was frozen (commit {landing.commit[:7]})"
    if judged.kind == "bypassed":
        return f"{told}, past the freeze."
    if judged.kind == "enforcement_gap":
        return f"{told}: our check said success by mistake."
    if not judged.delay:
        return f"{told}, within the second in which the freeze began."
    return f"{told}, {judged.delay} s after it had to be blocked and before our check said so."


_OVER = text(f"""
    UPDATE attention_items a SET cleared_at = :now
    FROM landings l
    WHERE a.cleared_at IS NULL AND a.since <= :before AND a.type = ANY(:types) AND l.id = split_part(a.key, ' ', 2)
      AND NOT EXISTS (
        SELECT FROM freezes f
        WHERE f.id IN (SELECT jsonb_array_elements_text(l.details -> 'freezeIds')) AND {IN_FORCE}
      )
""")  # noqa: S608 - a constant


def clear_what_is_over(uow: UnitOfWork) -> None:
    """Close the items of landings whose freezes have all ended and that were shown for a day."""
    types = [kind for kind, _severity in ITEMS.values()]
    uow.session.execute(_OVER, {"now": uow.now, "before": uow.now - SHOWN, "types": types})
