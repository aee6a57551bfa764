"""Messages in Slack: whatever people write, they mention no one, link nowhere, and stay within Slack's limits."""

import json
import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from rules.slack import answers, blocks, forms, markup, notices
from tests.rules.slack.messages import HOSTILE, NOW, PAGES, WEB, every_form, every_message, freeze, request

ENTITY = re.compile(r"&(?:amp|lt|gt);")
LATER = "2026-11-21T09:31:00Z"
OURS = re.compile(r"<(?:https://[^<>|\s]+\|[^<>|]*|!date\^\d+\^\{date_short_pretty\} \{time\}\|[^<>|]*)>")
texts = st.one_of(st.text(max_size=1200), st.sampled_from([HOSTILE, HOSTILE * 20, "&" * 5000, "", "<" * 700]))


def texts_of(value: Any) -> list[str]:
    """Return all mrkdwn in blocks."""
    if isinstance(value, dict):
        own = [value["text"]] if value.get("type") == "mrkdwn" else []
        return own + [text for item in value.values() for text in texts_of(item)]
    return [text for item in value for text in texts_of(item)] if isinstance(value, list | tuple) else []


def has_markup_of_people(text: str) -> bool:
    """True if a text has a mention, a link or a loose bracket or ampersand that is none of ours."""
    rest = ENTITY.sub("", OURS.sub("", text))
    return bool(re.search(r"[<&]", rest)) or bool(re.search(r"(?<!^)(?<!\n)>", rest))


@given(texts)
def test_messages_hold_no_markup_of_people(text: str) -> None:
    for message in every_message(text):
        for shown in [*texts_of(message.blocks), message.text]:
            assert not has_markup_of_people(shown), shown


def test_messages_show_instants_in_the_zone_of_each_reader() -> None:
    shown = [text for message in every_message("x") for text in [*texts_of(message.blocks), message.text]]
    assert any(f"<!date^{int(datetime.fromisoformat(NOW).timestamp())}^" in text for text in shown)
    assert [text for text in shown if re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d", OURS.sub("", text))] == []


@given(texts)
def test_messages_are_within_the_limits_of_slack(text: str) -> None:
    for message in every_message(text):
        assert len(message.text) <= 3000
        assert len(message.blocks) <= blocks.MAX_BLOCKS
        assert len(json.dumps(message.blocks, ensure_ascii=False)) <= blocks.MAX_ALL
        for block in message.blocks:
            parsed = Block.parse(block)
            assert parsed is not None
            parsed.to_dict()  # validates lengths
        assert all(0 < len(shown) <= blocks.MAX_SECTION for shown in texts_of(message.blocks))


@pytest.mark.parametrize(("more", "title"), [(False, "2 freezes in force"), (True, "More than 2 freezes in force")])
def test_list_of_freezes_says_whether_there_are_more(more: bool, title: str) -> None:
    listed = [{"id": "frz_1", "reason": "Release week", "endsAt": NOW}] * 2
    assert answers.freezes_in_force(listed, PAGES, more=more, liftable=False).text == title


@given(texts, texts)
def test_forms_are_within_the_limits_of_slack(scope: str, reason: str) -> None:
    made = every_form(scope, reason)
    for form in made:
        assert len(form.get("private_metadata", "")) <= 3000
        for part in ("title", "submit", "close"):
            assert len(form.get(part, {}).get("text", "")) <= blocks.MAX_TITLE
        parsed = [Block.parse(block) for block in form["blocks"]]
        View(**{**form, "blocks": parsed}).to_dict()
    carried = forms.confirmed_values(made[0]["private_metadata"])
    assert (carried["scope"], carried["reason"]) == (scope[: forms.MAX_SCOPE_LENGTH], reason[:1000])


@given(st.text(), st.integers(1, 60))
def test_words_are_cut_between_letters(text: str, length: int) -> None:
    cut = markup.words(text, length)
    assert len(cut) <= length
    assert not re.search(r"&(?!(?:amp|lt|gt);)", cut)


@pytest.mark.parametrize(
    ("text", "length", "shown"),
    [("a<b", 6, "a&lt;b"), ("a<bc", 5, "a…"), ("&&&", 11, "&amp;&amp;…"), ("one\ntwo\u202e", 20, "one two")],
)
def test_words_are_one_line_with_entities(text: str, length: int, shown: str) -> None:
    assert markup.words(text, length) == shown


def test_link_keeps_its_address_in_one_piece() -> None:
    assert markup.link("https://a.example/x|y>z", "a|b") == "<https://a.example/x%7Cy%3Ez|a¦b>"


def test_freeze_that_has_ended_has_no_buttons() -> None:
    for ended, row in enumerate((freeze("A reason"), freeze("A reason", endedAt=NOW))):
        shown = notices.render("freezes", {"total": 1, "enforced": 0, "ended": ended, "shown": [row]}, PAGES)
        assert any(block["type"] == "actions" for block in shown.blocks) is not bool(ended)


def test_freeze_without_exceptions_offers_none() -> None:
    facts = {"total": 1, "enforced": 0, "ended": 0, "shown": [freeze("A reason", exceptionsAllowed=False)]}
    buttons = next(block for block in notices.render("freezes", facts, PAGES).blocks if block["type"] == "actions")
    assert [each["action_id"] for each in buttons["elements"]] == ["freeze.lift"]


def blocking(*, passing: bool = False, gaps: tuple[tuple[str, str], ...] = (), **states: int) -> dict[str, Any]:
    """Return facts of branches: their numbers by state, and their gaps as state and code."""
    rows = [{"state": state, "code": code, "branchCount": 1} for state, code in gaps]
    return {"states": states, "passing": passing, "gaps": rows}


@pytest.mark.parametrize(
    ("facts", "enforced_at", "first", "progress"),
    [
        (blocking(blocked=5), NOW, ":snowflake:", "· fully enforced <"),
        (blocking(blocked=5), None, ":snowflake:", "· being enforced"),
        (
            blocking(passing=True, gaps=(("not_blocked", "writing"),), not_blocked=5),
            None,
            ":snowflake:",
            "being enforced",
        ),
        (
            blocking(gaps=(("partly", "deletion"),), partly=3, blocked=2),
            NOW,
            ":large_orange_circle: *3 of 5 branches are blocked only in part.* Everybody who may push can delete",
            "· enforced <",
        ),
        (
            blocking(gaps=(("not_blocked", "no_rule"), ("partly", "forgery")), not_blocked=3, partly=2),
            None,
            ":red_circle: *3 of 5 branches are not blocked.* No rule in force at GitHub requires our check",
            "· not enforced",
        ),
        (
            blocking(gaps=(("unknown", "not_read"),), unknown=5),
            None,
            ":large_orange_circle: *It is not known whether the 5 branches are blocked.* GitHub's rules were not read",
            "· not enforced",
        ),
    ],
)
def test_message_of_a_freeze_says_first_what_is_not_blocked(
    facts: dict[str, Any], enforced_at: str | None, first: str, progress: str
) -> None:
    row = freeze("A reason", blocking=facts, blockedAt=enforced_at, enforcedAt=enforced_at)
    message = notices.render("freezes", {"total": 1, "enforced": 0, "ended": 0, "shown": [row]}, PAGES)
    shown = texts_of(message.blocks)
    assert shown[0].startswith(first)
    assert progress in shown[-1]
    assert (":snowflake:" in first) == message.text.startswith("Merging is frozen")


@pytest.mark.parametrize(("enforced_at", "then"), [(None, "being enforced"), (LATER, "fully enforced <")])
def test_message_of_a_freeze_says_since_when_a_stop_blocks(enforced_at: str | None, then: str) -> None:
    row = freeze("A reason", blocking=blocking(blocked=5), blockedAt=NOW, enforcedAt=enforced_at)
    shown = texts_of(notices.render("freezes", {"total": 1, "enforced": 0, "ended": 0, "shown": [row]}, PAGES).blocks)
    assert re.search(rf"· blocked since <[^>]+> \(a stop\) · {then}", shown[-1])


@pytest.mark.parametrize(("enforced", "said"), [(1, "2 of 2 blocked, 1 of 2 enforced"), (2, "2 of 2 enforced")])
def test_message_of_several_freezes_says_how_many_stops_hold(enforced: int, said: str) -> None:
    facts = {"total": 2, "blocked": 2, "enforced": enforced, "ended": 0, "shown": [freeze("A"), freeze("B")]}
    assert texts_of(notices.render("freezes", facts, PAGES).blocks)[-1] == f"{said}, 0 ended"


def test_message_of_several_freezes_says_first_how_many_do_not_block() -> None:
    rows = [freeze("A", blocking=blocking(gaps=(("not_blocked", "no_rule"),), not_blocked=2)), freeze("B")]
    facts = {"total": 2, "enforced": 0, "ended": 0, "unprotected": 1, "unknown": 1, "shown": rows}
    message = notices.render("freezes", facts, PAGES)
    shown = texts_of(message.blocks)
    assert shown[0].splitlines() == [
        ":red_circle: *1 of 2 freezes does not block all branches.*",
        ":large_orange_circle: *It is not known whether 1 of 2 freezes blocks all branches.*",
    ]
    assert "• :red_circle: *None of the 2 branches is blocked.*" in shown[2]
    assert message.text == "1 of 2 freezes does not block all branches. Merging is frozen by 2 freezes"


def test_message_without_facts_of_blocking_claims_nothing() -> None:
    row = freeze("A reason")
    del row["blocking"]
    shown = texts_of(notices.render("freezes", {"total": 1, "enforced": 0, "ended": 0, "shown": [row]}, PAGES).blocks)
    assert shown[0].startswith(":snowflake:")
    assert "being enforced" in shown[-1]


def test_answer_on_a_branch_says_first_that_it_is_not_known_to_be_blocked() -> None:
    state = {
        "subject": {"name": "acme/web#main"},
        "frozen": True,
        "enforced": False,
        "coverage": "all",
        "frozenBranchCount": 1,
        "watchedBranchCount": 1,
        "freezes": [],
        "freezesTruncated": False,
    }
    [first, *_] = texts_of(answers.branch_state(state, PAGES).blocks)
    assert first.startswith(":red_circle: *GitHub is not known to refuse merges")
    [first, *_] = texts_of(answers.branch_state({**state, "enforced": True}, PAGES).blocks)
    assert first == ":snowflake: *acme/web#main* is frozen. GitHub refuses merges into all that is frozen."


@pytest.mark.parametrize(
    ("unprotected", "code", "first"),
    [(0, "", ":snowflake:"), (2, "no_rule", ":red_circle:"), (2, "writing", ":hourglass:")],
)
def test_answers_with_a_freeze_say_first_what_is_not_blocked(unprotected: int, code: str, first: str) -> None:
    counts = {"total": 5, "blocked": 5 - unprotected, "partly": 0, "unprotected": unprotected, "unknown": 0, "late": 0}
    gaps = [{"state": "not_blocked", "code": code, "branchCount": 2}] if code else []
    row = {"id": "frz_1", "reason": "Release week", "endsAt": None, "targets": counts, "gaps": gaps}
    assert answers.started(row, PAGES).startswith(first)
    [shown] = texts_of(answers.freezes_in_force([row], PAGES, more=False, liftable=False).blocks)
    assert shown.startswith(first)


def test_thousand_windows_make_one_message_with_a_link_to_the_rest() -> None:
    window = {"scheduleId": "sch_1", "scheduleName": "Weekend", "startsAt": NOW, "endsAt": NOW}
    message = notices.render("windows", {"total": 1000, "minutes": 30, "shown": [window] * 10}, PAGES)
    assert message.text == "1,000 freezes begin in 30 minutes"
    assert "and 990 more" in texts_of(message.blocks)[-1]


def test_message_of_a_request_opens_its_place_in_the_list() -> None:
    message = notices.render("request", request("acme/web#7"), PAGES)
    [opened] = [each["url"] for block in message.blocks for each in block.get("elements", ()) if "url" in each]
    assert opened == f"{WEB}/exceptions?organization=org_1#exc_1"


def test_every_link_to_a_page_names_the_organization() -> None:
    shown = [message.as_json() for message in every_message("Database migration")]
    links = {link for text in json.dumps(shown).split('"') for link in re.findall(rf"{WEB}[^|>\s]*", text)}
    assert len(links) > 5
    unnamed = {link for link in links if "organization=org_1" not in link and "/slack/link" not in link}
    assert unnamed == set()
