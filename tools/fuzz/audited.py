"""The audit entries that a request has left, compared with what the contract says that it records (`x-audit`)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rules.audit.actions import EVENTS
from schemas.contract import Operation

MAY_CHANGE_NOTHING = {
    "bootstrap_organization": "there is one already",
    "setup_enforcement": "a plan is only shown",
    "enable_repositories": "they are enabled already",
    "disable_repositories": "they are disabled already",
    "update_compat_branch": "the branch is as the client wants it already",
    "update_my_notifications": "they are mailed of that already",
    "update_member": "the member has that role already",
    "update_repository": "it has those settings already",
    "update_branch": "it has those settings already",
    "update_current_organization": "it has that name and those settings already",
    "update_schedule": "it is so already",
    "update_exception_rule": "it is so already",
    "update_webhook": "it is so already",
    "skip_next_occurrence": "the named window is skipped already",
    "skip_occurrence": "the window is skipped already",
    "unskip_occurrence": "the window is planned",
    "claim_installation": "it is the organisation's already",
    "disconnect_slack": "no workspace is connected",
    "subscribe_slack_channel": "the channel is subscribed with these choices already",
    "update_slack_subscription": "it is so already",
    "link_slack_user": "the Slack user acts as the person already",
    "unlink_slack_user": "no Slack user acts as the person",
    "import_schedules": "a dry run, or a calendar that has not changed",
}
"""Operations that may succeed without a change, and when; then nothing is recorded."""
_WRONG_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+([+-][\d:]+)?")
"""An instant or local time that is not in the API's format: RFC 3339, UTC, ending in `Z`."""
QUERY = "SELECT action, organization_id, target ->> 'id', details FROM audit_entries WHERE request_id = "
"""The columns of `AuditedAction`; the placeholder for the id of the request follows."""


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """An audit entry that a request has left."""

    action: str
    organization_id: str
    target_id: str
    details: Mapping[str, Any]

    @property
    def shows_change(self) -> bool:
        """True if it says what was before and after, or if its action changes nothing."""
        rows = self.details.get("rows", [self.details])
        return self.action in EVENTS or all({"before", "after"} <= row.keys() for row in rows)


def audit_error(operation: Operation, entries: Sequence[AuditedAction]) -> str | None:
    """Return what is wrong with the audit entries of a success; None if they are as the operation's `x-audit` says.

    Each action is recorded once for each target. What people do to their own account is recorded in each of their
    organisations, and some have none.
    """
    if extra := sorted({entry.action for entry in entries} - set(operation.audit)):
        return f"{operation.id} recorded {', '.join(extra)}, which its x-audit does not name"
    if (
        not entries
        and operation.audit
        and operation.database_role == "organization"
        and operation.id not in MAY_CHANGE_NOTHING
    ):
        return f"{operation.id} succeeded and recorded nothing; its x-audit names {', '.join(operation.audit)}"
    times = Counter((entry.action, entry.organization_id, entry.target_id) for entry in entries)
    if repeated := [action for (action, _, _), count in times.items() if count > 1]:
        return f"{operation.id} recorded {', '.join(repeated)} of one target more than once"
    if silent := sorted({entry.action for entry in entries if not entry.shows_change}):
        return (
            f"{operation.id} recorded {', '.join(silent)} without before= and after=; "
            "what changes nothing is one of the EVENTS of rules/audit/actions.py"
        )
    if strange := [text for entry in entries for text in _texts(entry.details) if _WRONG_INSTANT.fullmatch(text)]:
        return f"{operation.id} recorded instants in another format than the API's: {', '.join(strange)}"
    return None


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings inside a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)
