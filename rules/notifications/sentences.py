"""What happened, in one sentence of plain text.

Names and reasons that people typed are cut to one line, in which no program recognizes an address.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rules.access.permissions import shown_actor
from rules.freezes.blocking_words import first_gap, first_way, meaning_of
from rules.plain_text import one_line, without_links

MAX_TEXT = 120
"""Characters of a name or reason."""

_SENTENCES = {
    "freeze.started": "{actor} started a freeze: {name}.",
    "freeze.blocked": (
        "A stop blocks merges into all branches of a freeze ({targets}{partly}) until its checks are written: "
        "{name}.{way}"
    ),
    "freeze.enforced": "A freeze blocks merges into all of its branches ({targets}{partly}): {name}.{way}",
    "freeze.unprotected": "{whether} all of its branches ({unprotected}): {name}.{late}{gap}",
    "freeze.lifted": "{actor} lifted a freeze: {name}.",
    "freeze.overridden": "{actor} lifted the running freeze of a schedule: {name}.",
    "freeze.expired": "A freeze reached its planned end: {name}.",
    "freeze.ended": "A freeze ended with its installation or organisation: {name}.",
    "exception.requested": "{actor} requested an exception for {name}: {reason}.",
    "exception.granted": "{actor} granted an exception for {name}.",
    "exception.denied": "{actor} denied an exception for {name}.",
    "exception.revoked": "{actor} revoked an exception for {name}.",
    "exception.used": "{name} was merged with an exception.",
    "freeze.bypassed": "{name} was changed in spite of a freeze, by {who}.",
    "freeze.enforcement_gap": "{name} was changed in spite of a freeze, because our check was green by mistake.",
    "enforcement.lost": "GitHub's rules no longer require our check on {name}: freezes do not block it.",
    "enforcement.restored": "GitHub's rules require our check on {name} again.",
    "enforcement.late": "A freeze is late: checks of {pendingTargets} branches are not written yet: {name}.",
    "freeze.target_failed": "Checks of a freeze could not be written for {targets} branches: {name}. {error}",
}


def sentence_of_entry(entry: Mapping[str, Any], meaning: str) -> str:
    """Return a sentence on any audit entry of the contract; `meaning` is that of its action."""
    actor, target, details = entry["actor"], entry["target"] or {}, entry["details"] or {}
    if entry["action"] in _SENTENCES:
        return sentence_of(entry["action"], actor, target, details)
    name = plain(target.get("name"))
    return f"{meaning.rstrip('.')}: {name}." if name else meaning


def sentence_of(action: str, actor: Mapping[str, Any], target: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """Return a sentence on an audit entry of an action that people are notified of."""
    rule = (details.get("rule") or {}).get("name")
    values = {
        "actor": f"The rule “{plain(rule)}”" if rule else plain(shown_actor(actor)),
        "name": plain(target.get("name")),
        "reason": plain(details.get("reason")),
        "who": plain(details.get("who") or "an unknown person"),
        "targets": details.get("targets"),
        "pendingTargets": details.get("pendingTargets"),
        "error": plain((details.get("error") or {}).get("message")),
    }
    return _SENTENCES[action].format(**values, **_blocking(details))


def _blocking(details: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the parts of a sentence that say what GitHub blocks, and why not more; empty where it is not known."""
    gaps, causes, total = details.get("gaps") or {}, details.get("causes") or (), details.get("targets")
    partly, unknown, late = (details.get(name) or 0 for name in ("partly", "unknown", "late"))
    way, gap = first_way(gaps), first_gap(gaps, causes)
    not_blocked = details.get("unprotected") or 0
    known = [f"{_of(not_blocked, total)} not blocked"] if not_blocked or not unknown else []
    not_known = [f"{_of(unknown, total)} not known to be{'' if known else ' blocked'}"] if unknown else []
    return {
        "partly": f", {partly} only in part" if partly else "",
        "way": f" {meaning_of(way)}" if partly and way else "",
        "whether": "A freeze does not block" if known else "It is not known whether a freeze blocks",
        "unprotected": ", ".join([*known, *not_known]),
        "late": f" Checks of {late} are late." if late and "late" in causes else "",
        "gap": f" {meaning_of(gap)}" if gap else "",
    }


def _of(branches: int | None, total: int | None) -> str:
    return f"{branches or 0} of {total or 0} {'is' if branches == 1 else 'are'}"


def sentence_of_window(window: Mapping[str, Any]) -> str:
    """Return a sentence on a planned window."""
    starts_at = datetime.fromisoformat(window["startsAt"]).astimezone(UTC)
    when = f"{starts_at:%-d %B %Y, %H:%M} UTC"
    return f"{plain(window['scheduleName'])} begins on {when}: {plain(window['reason'])}."


def plain(text: object) -> str:
    """Return a text of people as a part of a sentence."""
    return without_links(one_line(str(text or ""), MAX_TEXT)).rstrip(".")
