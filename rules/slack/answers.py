"""Answers that only the person who typed or clicked sees."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rules import web_addresses
from rules.slack import actions as names
from rules.slack.blocking import warnings_of_freeze, worst_of_freeze
from rules.slack.blocks import Block, Message, button, context, section
from rules.slack.markup import MAX_REASON, at, count, link, literal, words
from rules.slack.pages import Pages

MAX_SHOWN = 10
COMMANDS = (
    ("status", "what is frozen now; `status acme/web#main` for one branch"),
    ("start", "freeze merging, by a form; `start acme/web` fills in what"),
    ("lift", "the freezes in force, with a button each; `lift frz_…` lifts one"),
    ("request", "request an exception: `request acme/web#7`"),
    ("subscribe", "post here what happens: `subscribe freeze.started exception.requested acme/*`"),
    ("unsubscribe", "post nothing here any more"),
    ("link", "connect your Slack user with your account"),
    ("unlink", "end that"),
)


def said(text: str) -> Message:
    """Return an answer of our own words, with markup."""
    return Message(text, [section(text)])


def refusal(message: str) -> Message:
    """Return why something was not done; the API's words, which may repeat those of people."""
    return said(f":no_entry: {literal(message, 1500)}")


def help_text(command: str, unknown: str | None) -> Message:
    """Return what can be typed."""
    lines = [f"`{command} {verb}` {meaning}" for verb, meaning in COMMANDS]
    blocks = [section("\n".join(lines))]
    if unknown is not None:
        blocks.insert(0, section(f"There is no `{words(unknown, 50).replace('`', '')}`."))
    return Message("What you can type", blocks)


def linking(url: str) -> Message:
    """Return the one-time link with which a person says who they are."""
    text = (
        f":link: {link(url, 'Connect your Slack user')} with your account first. The link works once, for 10 minutes."
    )
    return said(text)


def freezes_in_force(freezes: Sequence[Mapping[str, Any]], pages: Pages, *, more: bool, liftable: bool) -> Message:
    """Return the freezes in force, each with a button that lifts it if it is `liftable`.

    `more`: there are others besides the given ones.
    """
    if not freezes:
        return said(":sunny: Nothing is frozen.")
    blocks: list[Block] = []
    for freeze in freezes[:MAX_SHOWN]:
        until = (
            f"until {at(datetime.fromisoformat(freeze['endsAt']))}" if freeze["endsAt"] else "until a person lifts it"
        )
        page = pages.at(web_addresses.FREEZE.format(id=freeze["id"]))
        shown = f":snowflake: {link(page, freeze['reason'])}, {until}\n`{freeze['id']}`"
        text = f"{worst_of_freeze(freeze) if 'gaps' in freeze else ''}\n{shown}".lstrip()
        question = "Merging becomes possible on branches that no other freeze covers."
        lift = button("Lift", names.LIFT, freeze["id"], style="danger", question=question) if liftable else None
        blocks.append(section(text, lift))
    if more or len(freezes) > MAX_SHOWN:
        blocks.append(context(link(pages.at(web_addresses.FREEZES), "All freezes")))
    return Message(f"{'More than ' if more else ''}{count(len(freezes), 'freeze')} in force", blocks)


def branch_state(state: Mapping[str, Any], pages: Pages) -> Message:
    """Return whether a repository or a branch is frozen, and by what."""
    subject = words(state["subject"]["name"])
    if not state["frozen"]:
        return said(f":sunny: *{subject}* is not frozen.")
    of_branches = count(state["watchedBranchCount"], "branch", "branches")
    some = f"is frozen on {state['frozenBranchCount']:,} of {of_branches}"
    covered = "is frozen" if state["coverage"] == "all" else some
    listed = freezes_in_force(state["freezes"], pages, more=state["freezesTruncated"], liftable=False)
    if state["enforced"]:
        lines = [f":snowflake: *{subject}* {covered}. GitHub refuses merges into all that is frozen."]
    else:
        lines = [":red_circle: *GitHub is not known to refuse merges into all that is frozen.*"]
        lines.append(f":snowflake: *{subject}* {covered}.")
    title = f"{subject} {covered}{'' if state['enforced'] else ', and not known to be blocked'}"
    return Message(title, [section("\n".join(lines)), *listed.blocks])


def started(freeze: Mapping[str, Any], pages: Pages) -> str:
    """Say, as mrkdwn, that a freeze has started."""
    page = pages.at(web_addresses.FREEZE.format(id=freeze["id"]))
    where = count(freeze["targets"]["total"], "branch", "branches")
    frozen = f":snowflake: {link(page, 'Merging is frozen')} on {where}.\n>{words(freeze['reason'], MAX_REASON)}"
    return "\n".join([*warnings_of_freeze(freeze), frozen, *_of_others(freeze, "alreadyFrozen", "already frozen")])


def requested(exceptions: Sequence[Mapping[str, Any]], pages: Pages) -> str:
    """Say, as mrkdwn, that exceptions were requested."""
    pull = exceptions[0]["pullRequest"]
    name = link(pull["url"], f"{pull['repository']}#{pull['number']}")
    page = link(pages.at(web_addresses.EXCEPTIONS), "Exceptions")
    return f":raised_hand: An exception for {name} is requested; another person decides. {page}"


def lifted(freeze: Mapping[str, Any]) -> Message:
    """Say that a freeze was lifted."""
    lines = [f":sunny: Lifted: {words(freeze['reason'])}", *_of_others(freeze, "stillFrozen", "still frozen")]
    return said("\n".join(lines))


def _of_others(freeze: Mapping[str, Any], name: str, how: str) -> list[str]:
    """Return the line that says how many branches of a freeze others cover; none if they cover none."""
    number = freeze.get(f"{name}Count")
    return [f"{count(number, 'branch is', 'branches are')} {how} by other freezes."] if number else []


def subscribed(subscription: Mapping[str, Any]) -> Message:
    """Say what a channel is subscribed to."""
    events = ", ".join(f"`{words(event, 50)}`" for event in subscription["events"])
    patterns = subscription["patterns"]
    where = (
        " in " + ", ".join(f"`{words(each, 100).replace('`', '')}`" for each in patterns[:MAX_SHOWN])
        if patterns
        else ""
    )
    return said(f":bell: This channel gets {events}{where}.")
