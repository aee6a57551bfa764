"""Who gets a mail of what: what a person chose, or else what their role is given."""

from collections.abc import Collection
from dataclasses import dataclass

from rules.access.permissions import Role, role_reaches
from rules.notifications.kinds import KINDS, UPCOMING

MAILED_KINDS = tuple(kind for kind in KINDS if kind != UPCOMING)
"""The kinds that a person can choose; upcoming windows follow from their minutes."""
_OF_EVERYONE = ("exception.requested", "exception.decided")
_OF_ADMINISTRATORS = ("freeze.bypassed", "enforcement.lost", "enforcement.late")


def default_kinds(role: Role | None) -> tuple[str, ...]:
    """Return the kinds that a person gets mails of who has not chosen: what only they can act on."""
    chosen = _OF_EVERYONE + (_OF_ADMINISTRATORS if role_reaches(role, "admin") else ())
    return tuple(kind for kind in MAILED_KINDS if kind in chosen)


@dataclass(frozen=True, slots=True)
class MailReader:
    """A member who may get mails."""

    user_id: str
    role: Role
    kinds: Collection[str]
    """The kinds of notification that they get mails of."""
    approval: Role
    """The least role that decides on exceptions in their organisation."""

    def wants(self, kind: str, actor_id: str | None, requesters: Collection[str]) -> bool:
        """True if they get a mail of an event: one they chose, that another person caused, and that concerns them.

        Requests concern those who may decide, decisions the person who requested the exception.
        """
        if kind not in self.kinds or actor_id == self.user_id:
            return False
        if kind == "exception.requested":
            return role_reaches(self.role, self.approval)
        return kind != "exception.decided" or self.user_id in requesters
