"""Messages of channels: what happened, as the facts of a message say it.

Facts are JSON, with instants as texts: they are stored with the message, which is rendered from them whenever it is
posted or updated. Facts of several things hold the first MAX_SHOWN of them and their number, so that a message has a
limit however much happens in a minute.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rules import web_addresses
from rules.freezes.blocking_words import BranchNumbers
from rules.slack import actions as names
from rules.slack.blocking import warnings
from rules.slack.blocks import MAX_SECTION, MAX_TEXT, Block, Message, actions, button, context, open_button, section
from rules.slack.markup import MAX_REASON, at, count, link, words
from rules.slack.pages import Pages

MAX_SHOWN = 10
_MAX_TITLE = 120
_MAX_REST = 100
"""Of the link to the rest of a list, without its address."""

Facts = Mapping[str, Any]


def render(kind: str, facts: Facts, pages: Pages) -> Message:
    """Return the message of one of KINDS."""
    return KINDS[kind](facts, pages)


def _freezes(facts: Facts, pages: Pages) -> Message:
    """Freezes that have started: one, or all windows of a minute."""
    if facts["total"] == 1:
        return _freeze(facts["shown"][0], pages)
    over, enforced = facts["ended"] >= facts["total"], facts["enforced"]
    warned = _warned_freezes(facts)
    title = f"{'Merging was frozen' if over else 'Merging is frozen'} by {count(facts['total'], 'freeze')}"
    lines = [_freeze_line(freeze, pages) for freeze in facts["shown"]]
    blocks = [
        *([section("\n".join(warned))] if warned else []),
        section(f":snowflake: *{link(pages.at(web_addresses.FREEZES), title)}*"),
        _list(lines, facts["total"], pages.at(web_addresses.FREEZES)),
        context(f"{_held_by_stops(facts)}{enforced:,} of {facts['total']:,} enforced, {facts['ended']:,} ended"),
    ]
    return Message(f"{_unmarked(warned[0])} {title}" if warned else title, blocks)


def _warned_freezes(facts: Facts) -> list[str]:
    """Say how many of several freezes do not block, or are not known to."""
    of = f"of {facts['total']:,} freezes"
    found = []
    if facts.get("unprotected"):
        verb = "does" if facts["unprotected"] == 1 else "do"
        found.append(f":red_circle: *{facts['unprotected']:,} {of} {verb} not block all branches.*")
    if facts.get("unknown"):
        verb = "blocks" if facts["unknown"] == 1 else "block"
        found.append(f":large_orange_circle: *It is not known whether {facts['unknown']:,} {of} {verb} all branches.*")
    return found


def _freeze(freeze: Facts, pages: Pages) -> Message:
    url = _page(pages, web_addresses.FREEZE, freeze["id"])
    over = freeze["endedAt"] is not None
    title = "Merging was frozen" if over else "Merging is frozen"
    branches = count(freeze["branches"], "branch", "branches")
    where = f"{branches} of {count(freeze['repositories'], 'repository', 'repositories')}"
    numbers, gaps = _blocking(freeze)
    warned = warnings(numbers, gaps)
    blocks = [section("\n".join(warned))] if warned else []
    blocks.append(section(f":snowflake: *{link(url, title)}* on {where}{'' if over else ', ' + _until(freeze)}"))
    blocks.append(section(f">{words(freeze['reason'], MAX_REASON)}"))
    if freeze["names"]:
        blocks.append(_list([words(name) for name in freeze["names"]], freeze["branches"], url))
    blocks.append(context(_progress(freeze)))
    if not over:
        blocks.append(actions(_freeze_buttons(freeze)))
    worst = next((f"{each.text}. " for each in numbers.statements if each.state != "blocked" and not each.passing), "")
    return Message(_text(f"{worst}{title}: ", freeze["reason"]), blocks)


def _blocking(freeze: Facts) -> tuple[BranchNumbers, Sequence[Facts]]:
    """Return the numbers and gaps of a freeze in force; none of one that has ended, or that is not known."""
    found = freeze.get("blocking") or {"states": {}, "passing": False, "gaps": ()}
    return BranchNumbers(found["states"], found["passing"]), found["gaps"]


def _freeze_line(freeze: Facts, pages: Pages) -> str:
    url = _page(pages, web_addresses.FREEZE, freeze["id"])
    where = count(freeze["branches"], "branch", "branches")
    worst = next(iter(warnings(_blocking(freeze)[0], ())), "")
    return f"{worst} {link(url, freeze['reason'], _MAX_TITLE)}, {where}, {_until(freeze)}".lstrip()


def _until(freeze: Facts) -> str:
    return f"until {_at(freeze['endsAt'])}" if freeze["endsAt"] else "until a person lifts it"


def _progress(freeze: Facts) -> str:
    """Say who started a freeze, and whether it is blocked and enforced."""
    by = f"by {words(freeze['by'])}"
    if freeze["endedAt"] is not None:
        return f"{by} · {_how_ended(freeze)} {_at(freeze['endedAt'])}"
    states = [statement for statement in _blocking(freeze)[0].statements if statement.state != "blocked"]
    blocked_at = freeze.get("blockedAt")
    if blocked_at and blocked_at != freeze["enforcedAt"]:
        by += f" · blocked since {_at(blocked_at)} (a stop)"
    if freeze["enforcedAt"]:
        return f"{by} · {'enforced' if states else 'fully enforced'} {_at(freeze['enforcedAt'])}"
    return f"{by} · {'being enforced' if all(each.passing for each in states) else 'not enforced'}"


def _held_by_stops(facts: Facts) -> str:
    """Say how many of several freezes are blocked, if stops hold some of them; messages of before have no number."""
    blocked = facts.get("blocked", 0)
    return f"{blocked:,} of {facts['total']:,} blocked, " if blocked > facts["enforced"] else ""


def _how_ended(freeze: Facts) -> str:
    if freeze["endReason"] in {"lifted", "overridden"}:
        return f"lifted by {words(freeze['endedBy'])}"
    return "ended"


def _freeze_buttons(freeze: Facts) -> list[Block]:
    made = [button("Request an exception", names.REQUEST, freeze["id"])] if freeze["exceptionsAllowed"] else []
    question = "Merging becomes possible on branches that no other freeze covers."
    return [*made, button("Lift", names.LIFT, freeze["id"], style="danger", question=question)]


def _ends(facts: Facts, pages: Pages) -> Message:
    """Freezes that have ended within a minute."""
    lines = [_end_line(freeze, pages) for freeze in facts["shown"]]
    if facts["total"] == 1:
        freeze = facts["shown"][0]
        return Message(
            _text("A freeze has ended: ", freeze["reason"]), [section(f":sunny: *A freeze has ended* · {lines[0]}")]
        )
    title = f"{count(facts['total'], 'freeze')} have ended"
    return Message(
        title, [section(f":sunny: *{title}*"), _list(lines, facts["total"], pages.at(web_addresses.FREEZES))]
    )


def _end_line(freeze: Facts, pages: Pages) -> str:
    url = _page(pages, web_addresses.FREEZE, freeze["id"])
    return f"{link(url, freeze['reason'], _MAX_TITLE)}: {_how_ended(freeze)}"


def _windows(facts: Facts, pages: Pages) -> Message:
    """Windows that begin at the same time, announced in advance."""
    shown, total = facts["shown"], facts["total"]
    when = f"at {_at(shown[0]['startsAt'])}, in {count(facts['minutes'], 'minute')}"
    lines = [_window_line(window, pages) for window in shown]
    if total == 1:
        title = f"A freeze begins in {count(facts['minutes'], 'minute')}"
        return Message(
            _text(f"{title}: ", shown[0]["scheduleName"]), [section(f":calendar: *A freeze begins* {when}\n{lines[0]}")]
        )
    title = f"{count(total, 'freeze')} begin in {count(facts['minutes'], 'minute')}"
    begin = section(f":calendar: *{count(total, 'freeze')} begin* {when}")
    return Message(title, [begin, _list(lines, total, pages.at(web_addresses.CALENDAR))])


def _window_line(window: Facts, pages: Pages) -> str:
    url = _page(pages, web_addresses.SCHEDULE, window["scheduleId"])
    return f"{link(url, window['scheduleName'])} until {_at(window['endsAt'])}"


def _request(facts: Facts, pages: Pages) -> Message:
    """A request for an exception, and what became of it."""
    pull = link(facts["url"], f"{facts['pullRequest']}: {facts['title']}")
    blocks = [
        section(
            f":raised_hand: *Exception requested* for {pull} into {words(facts['branch'])} by {words(facts['by'])}"
        ),
        section(f">{words(facts['reason'], MAX_REASON)}"),
    ]
    decided = facts["decided"]
    if decided is None:
        buttons = [
            button("Grant", names.GRANT, facts["id"], style="primary"),
            button("Deny", names.DENY, facts["id"], style="danger"),
            open_button(pages.at(f"{web_addresses.EXCEPTIONS}#{facts['id']}")),
        ]
        blocks.append(actions(buttons))
        return Message(_text(f"Exception requested for {words(facts['pullRequest'])}: ", facts["reason"]), blocks)
    blocks.append(context(_decision(decided)))
    return Message(f"Exception {decided['how']} for {words(facts['pullRequest'])}", blocks)


def _decision(decided: Facts) -> str:
    mark = ":white_check_mark:" if decided["how"] == "granted" else ":no_entry:"
    by = f" by {words(decided['by'])}" if decided["by"] else ""
    reason = f": {words(decided['reason'], 300)}" if decided["reason"] else ""
    return f"{mark} {decided['how'].capitalize()}{by} {_at(decided['at'])}{reason}"


def _decisions(facts: Facts, pages: Pages) -> Message:
    """A decision in a channel that had no message about the request."""
    pull = link(facts["url"], f"{facts['pullRequest']}: {facts['title']}")
    title = f"Exception {facts['decided']['how']} for {words(facts['pullRequest'])}"
    open_page = link(pages.at(web_addresses.EXCEPTIONS), "All exceptions")
    return Message(title, [section(f"*Exception* for {pull}\n{_decision(facts['decided'])}"), context(open_page)])


_NOTES = {
    "freeze.blocked": (":lock:", "Blocked by a stop", "freezes are blocked by stops"),
    "freeze.enforced": (":lock:", "Enforced", "freezes are enforced"),
    "freeze.unprotected": (
        ":red_circle:",
        "A freeze does not block all of its branches",
        "freezes do not block all of their branches",
    ),
    "unknown": (
        ":large_orange_circle:",
        "It is not known whether a freeze blocks all of its branches",
        "freezes are not known to block all of their branches",
    ),
    "exception.used": (":white_check_mark:", "Merged with an exception", "pull requests merged with an exception"),
    "freeze.bypassed": (":warning:", "Changed in spite of a freeze", "changes in spite of a freeze"),
    "freeze.enforcement_gap": (
        ":warning:",
        "Changed because our check was wrong",
        "changes because our check was wrong",
    ),
    "enforcement.lost": (":rotating_light:", "Freezes no longer block", "branches are no longer blocked by freezes"),
    "enforcement.restored": (":lock:", "A rule requires our check again", "branches have a rule again"),
    "enforcement.late": (":hourglass:", "A freeze is enforced late", "freezes are enforced late"),
    "freeze.target_failed": (":warning:", "A check could not be written", "checks could not be written"),
}


def _note(facts: Facts, pages: Pages) -> Message:
    """Events of one action within a minute."""
    about = "unknown" if all(one.get("unknown") for one in facts["shown"]) else facts["action"]
    mark, title, plural = _NOTES.get(about, (":information_source:", about, about))
    lines = [_note_line(one, pages) for one in facts["shown"]]
    if facts["total"] == 1:
        name = facts["shown"][0]["name"]
        return Message(_text(f"{title}: ", name), [section(f"{mark} *{title}*: {lines[0]}")])
    title = f"{facts['total']:,} {plural}"
    return Message(
        title, [section(f"{mark} *{title}*"), _list(lines, facts["total"], pages.at(web_addresses.ATTENTION))]
    )


def _note_line(one: Facts, pages: Pages) -> str:
    """Return what an event is about, with what is told of it."""
    name = words(one["name"])
    if one["type"] in _PAGES:
        name = link(_page(pages, _PAGES[one["type"]], one["id"]), one["name"])
    return f"{name}. {words(one['told'], MAX_REASON)}" if one.get("told") else name


_PAGES = {"freeze": web_addresses.FREEZE, "branch": web_addresses.BRANCH}

KINDS: Mapping[str, Callable[[Facts, Pages], Message]] = {
    "freezes": _freezes,
    "ends": _ends,
    "windows": _windows,
    "request": _request,
    "decision": _decisions,
    "note": _note,
}


def _list(lines: Sequence[str], total: int, url: str) -> Block:
    """Return lines as one paragraph: as many as fit, and a link to the rest."""
    shown: list[str] = []
    left = MAX_SECTION - len(url) - _MAX_REST
    for line in lines[:MAX_SHOWN]:
        left -= len(line) + 3
        if left < 0:
            break
        shown.append(f"• {line}")
    if total > len(shown):
        shown.append(link(url, f"… and {total - len(shown):,} more"))
    return section("\n".join(shown))


def _text(label: str, reason: str) -> str:
    return label + words(reason, MAX_TEXT - len(label))


def _unmarked(line: str) -> str:
    """Return a line of mrkdwn without its mark and asterisks."""
    return line.partition(" ")[2].replace("*", "")


def _page(pages: Pages, address: str, thing_id: str) -> str:
    return pages.at(address.format(id=thing_id))


def _at(instant: str) -> str:
    return at(datetime.fromisoformat(instant))
