"""The kinds of notification, and the actions of the audit that each comes from.

A notification follows from a sealed audit entry, so that what is notified is what happened. Only `window.upcoming` has
no action: it announces what has not happened yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

UPCOMING = "window.upcoming"
"""The kind that comes from planned windows, a number of minutes before they begin."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of notification."""

    actions: tuple[str, ...]
    meaning: str
    """One sentence for people who choose what they are notified of."""


KINDS: Mapping[str, Kind] = {
    "freeze.started": Kind(("freeze.started",), "A freeze started."),
    "freeze.blocked": Kind(
        ("freeze.blocked",), "A stop blocks merges into all branches of a freeze, until its checks are written."
    ),
    "freeze.enforced": Kind(("freeze.enforced",), "A freeze blocks merges into all of its branches."),
    "freeze.ended": Kind(
        ("freeze.lifted", "freeze.overridden", "freeze.expired", "freeze.ended"),
        "A freeze ended: it was lifted, reached its planned end, or ended with its installation.",
    ),
    UPCOMING: Kind((), "A planned window begins soon."),
    "exception.requested": Kind(("exception.requested",), "An exception for a pull request was requested."),
    "exception.decided": Kind(
        ("exception.granted", "exception.denied", "exception.revoked"),
        "An exception was granted, denied or revoked.",
    ),
    "exception.used": Kind(("exception.used",), "A pull request with an exception was merged."),
    "freeze.bypassed": Kind(
        ("freeze.bypassed", "freeze.enforcement_gap"), "A frozen branch was changed in spite of the freeze."
    ),
    "enforcement.lost": Kind(("enforcement.lost",), "GitHub's rules no longer require our check on a branch."),
    "enforcement.restored": Kind(("enforcement.restored",), "GitHub's rules require our check on a branch again."),
    "enforcement.late": Kind(
        ("freeze.unprotected", "enforcement.late", "freeze.target_failed"),
        "A freeze does not block all of its branches, or that is not known: a rule is missing, checks are late or "
        "could not be written, or rules could not be read.",
    ),
}
"""Each kind by its name, in the order in which people choose them."""

BY_IMPORTANCE = (
    "freeze.bypassed",
    "enforcement.lost",
    "enforcement.late",
    "exception.requested",
    "exception.decided",
    "freeze.started",
    UPCOMING,
    "freeze.ended",
    "freeze.blocked",
    "freeze.enforced",
    "exception.used",
    "enforcement.restored",
)
"""Each kind by its name: first what somebody has to act on. A message of several events names the first."""

_KIND_OF = {action: name for name, kind in KINDS.items() for action in kind.actions}
NOTIFIED_ACTIONS = frozenset(_KIND_OF)
"""The actions that people are notified of."""


def kind_of(action: str) -> str | None:
    """Return the kind of notification that an audit action leads to; None if people are not notified of it."""
    return _KIND_OF.get(action)
