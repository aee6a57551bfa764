"""What the roles mean, in the words of the pages; what they may do is said by the contract (`x-least-role`)."""

from rules.access.permissions import ROLES

_ADDS = {
    "viewer": "See freezes, schedules, repositories, branches, whether rules really block, and who did what; "
    "ask for exceptions.",
    "member": "Start, change and lift freezes; make and change schedules; enable repositories and watch branches; "
    "decide on exceptions where the organisation lets members.",
    "admin": "Manage members, invitations, API keys, settings, the rules at GitHub; decide on exceptions.",
    "owner": "Make and unmake owners, and delete the organisation.",
}


def powers(role: str) -> list[str]:
    """Return what a role may do, what the lesser ones may do first."""
    return [_ADDS[each] for each in ROLES[: ROLES.index(role) + 1]] if role in ROLES else []
