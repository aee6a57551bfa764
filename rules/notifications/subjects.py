"""The subject of a mail of events: what happened, to what.

Things have the names of GitHub, such as `acme/shop#123`, and not what people typed about them: a freeze has the words
of its scope, and a pull request no title.
"""

from collections.abc import Mapping
from typing import Any

from rules.freezes.scope_words import describe_scope
from rules.notifications.kinds import UPCOMING
from rules.plain_text import one_line

MAX_SUBJECT = 80
"""Characters of a subject, without the organisation that follows."""
_WHAT = {
    "freeze.started": "Freeze started",
    "freeze.blocked": "Freeze blocks by a stop",
    "freeze.enforced": "Freeze blocks",
    "freeze.unprotected": "Freeze does not block",
    "freeze.lifted": "Freeze lifted",
    "freeze.overridden": "Freeze lifted",
    "freeze.expired": "Freeze ended",
    "freeze.ended": "Freeze ended",
    UPCOMING: "Freeze begins soon",
    "exception.requested": "Exception requested",
    "exception.granted": "Exception granted",
    "exception.denied": "Exception denied",
    "exception.revoked": "Exception revoked",
    "exception.used": "Merged with an exception",
    "freeze.bypassed": "Changed in spite of a freeze",
    "freeze.enforcement_gap": "Changed in spite of a freeze",
    "enforcement.lost": "Freezes no longer block",
    "enforcement.restored": "Freezes can block again",
    "enforcement.late": "Freeze is late",
    "freeze.target_failed": "Checks could not be written",
}
_NOT_KNOWN = "Freeze may not block"


def name_of(target: Mapping[str, Any], scope: Mapping[str, Any] | None) -> str:
    """Return what a subject calls the object of an audit entry; `scope` is that of a freeze, with names of GitHub."""
    return describe_scope(scope) if scope is not None else str(target.get("name") or "")


def subject_of(action: str, details: Mapping[str, Any], name: str, others: int) -> str:
    """Return the subject of a mail of an event, the most important one, and of so many others.

    The name is cut where it is long; the number of a pull request stays.
    """
    known = action != "freeze.unprotected" or details.get("unprotected") or not details.get("unknown")
    what = _WHAT[action] if known else _NOT_KNOWN
    rest = f" and {others:,} more" if others else ""
    return f"{what}: {_cut(name, MAX_SUBJECT - len(f'{what}: {rest}'))}{rest}"


def _cut(name: str, length: int) -> str:
    repository, mark, number = name.rpartition("#")
    if mark and number.isdecimal() and len(number) < length // 2:
        return f"{one_line(repository, length - len(mark + number))}{mark}{number}"
    return one_line(name, length)
