"""Messages and forms of every kind, with a text in every field that people write."""

from typing import Any

from rules.freezes.blocking import CAUSES, WAYS
from rules.slack import answers, forms, notices
from rules.slack.blocks import Message
from rules.slack.pages import Pages

WEB = "https://freeze.example"
PAGES = Pages(WEB, "org_1")
NOW = "2026-11-21T09:30:00Z"
HOSTILE = (
    "<!channel> <!here|now> <@U1> <https://evil.example|our page> &lt;!channel&gt; a|b> ```\n*bold* "
    "\u202eright to left \x00\x07 <!subteam^S1> <#C1> "
)


GAPS = [
    {"state": state, "code": code, "branchCount": 12_000}
    for codes, state in ((CAUSES, "not_blocked"), (CAUSES, "unknown"), (WAYS, "partly"))
    for code in codes
]
BLOCKING = {
    "states": {"not_blocked": 3000, "unknown": 3000, "partly": 3000, "blocked": 3000},
    "passing": False,
    "gaps": GAPS,
}
COUNTS = {"unprotected": 3000, "unknown": 3000, "partly": 3000, "blocked": 3000, "late": 3000}


def freeze(text: str, **changes: Any) -> dict[str, Any]:
    """Return facts of a freeze with a text in every field of people."""
    facts = {
        "id": "frz_1",
        "reason": text,
        "by": text,
        "endsAt": NOW,
        "branches": 12_000,
        "repositories": 300,
        "names": [text] * 10,
        "blockedAt": None,
        "enforcedAt": None,
        "blocking": BLOCKING,
        "endedAt": None,
        "endReason": None,
        "endedBy": text,
        "exceptionsAllowed": True,
    }
    return facts | changes


def request(text: str, decided: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return facts of a request."""
    return {
        "id": "exc_1",
        "pullRequest": text,
        "title": text,
        "url": f"https://github.com/{text}",
        "branch": text,
        "by": text,
        "reason": text,
        "decided": decided,
    }


def every_message(text: str) -> list[Message]:
    """Return a message of each kind, with a text in every field of people."""
    decided = {"how": "denied", "by": text, "at": NOW, "reason": text}
    ended = freeze(text, endedAt=NOW, endReason="lifted", blockedAt=NOW, enforcedAt=NOW, blocking=None)
    window = {"scheduleId": "sch_1", "scheduleName": text, "startsAt": NOW, "endsAt": NOW}
    facts: list[tuple[str, dict[str, Any]]] = [
        ("freezes", {"total": 1, "enforced": 0, "ended": 0, "shown": [freeze(text)]}),
        ("freezes", {"total": 1, "enforced": 1, "ended": 1, "shown": [ended]}),
        ("freezes", {"total": 1000, "enforced": 3, "ended": 0, "shown": [freeze(text, endsAt=None)] * 10}),
        (
            "freezes",
            {"total": 9, "enforced": 3, "ended": 0, "unprotected": 3, "unknown": 1, "shown": [freeze(text)] * 9},
        ),
        ("ends", {"total": 1, "shown": [ended]}),
        ("ends", {"total": 1000, "shown": [ended] * 10}),
        ("windows", {"total": 1, "minutes": 30, "shown": [window]}),
        ("windows", {"total": 1000, "minutes": 30, "shown": [window] * 10}),
        ("request", request(text)),
        ("request", request(text, decided)),
        ("decision", request(text, decided)),
    ]
    for action in ("freeze.bypassed", "enforcement.lost", "an.unknown"):
        one = {"type": "branch", "id": "wbr_1", "name": text}
        facts.append(("note", {"action": action, "total": 1, "shown": [one]}))
        facts.append(("note", {"action": action, "total": 99, "shown": [one, {**one, "type": "other"}] * 5}))
    told = {"type": "freeze", "id": "frz_1", "name": text, "told": " ".join(CAUSES.values())}
    facts.append(("note", {"action": "freeze.unprotected", "total": 10, "shown": [told] * 10}))
    messages = [notices.render(kind, each, PAGES) for kind, each in facts]
    listed = [{"id": "frz_1", "reason": text, "endsAt": NOW, "targets": {**COUNTS, "total": 12_000}, "gaps": GAPS}] * 20
    state = {
        "subject": {"name": text},
        "frozen": True,
        "enforced": False,
        "coverage": "some",
        "frozenBranchCount": 1,
        "watchedBranchCount": 2,
        "freezes": listed,
        "freezesTruncated": True,
    }
    return [
        *messages,
        answers.freezes_in_force(listed, PAGES, more=True, liftable=True),
        answers.branch_state(state, PAGES),
        answers.branch_state(state | {"enforced": True}, PAGES),
        answers.said(answers.started(listed[0], PAGES)),
        answers.refusal(text),
        answers.help_text("/freeze", text),
        answers.linking(f"{WEB}/slack/link?token=x"),
    ]


def every_form(scope: str, reason: str) -> list[forms.Form]:
    """Return a form of each kind, with what a person wrote."""
    wanted = {"scope": scope[: forms.MAX_SCOPE_LENGTH], "until": 1_800_000_000, "reason": reason[:1000]}
    preview = {"branchCount": 1, "repositoryCount": 1, "openPullRequestCount": 0, "unenforcedBranchCount": 2}
    return [
        forms.confirm_form(wanted, preview),
        forms.start_form(scope),
        forms.request_form(scope),
        forms.deny_form("exc_1"),
        forms.done_form("Done", answers.said("ok").text),
    ]
