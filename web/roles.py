"""What the roles may do, in the words of the pages; the contract has the rule (`x-least-role`)."""

from rules.access.permissions import ROLES

_ADDS = {
    "viewer": "View freezes, schedules, repositories, branches, enforcement status and the audit log; "
    "request exceptions.",
    "member": "Start, change and lift freezes; create and change schedules; enable repositories and watch branches; "
    "decide on exceptions where the organisation allows it.",
    "admin": "Manage members, invitations, API keys, settings and rulesets at GitHub; decide on exceptions.",
    "owner": "Grant and revoke the owner role, and delete the organisation.",
}


def describe_role(role: str) -> list[str]:
    """Return what a role may do, beginning with what every lower role may do."""
    return [_ADDS[each] for each in ROLES[: ROLES.index(role) + 1]] if role in ROLES else []
