"""Messages in Slack: whatever people write, they mention no one, link nowhere, and stay within Slack's limits."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from rules.slack import answers, blocks, forms, markup, notices
from tests.rules.slack.messages import HOSTILE, NOW, WEB, every_form, every_message, freeze

ENTITY = re.compile(r"&(?:amp|lt|gt);")
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
    assert answers.freezes_in_force(listed, WEB, more=more, liftable=False).text == title


@given(texts, texts)
def test_forms_are_within_the_limits_of_slack(scope: str, reason: str) -> None:
    made = every_form(scope, reason)
    for form in made:
        assert len(form.get("private_metadata", "")) <= 3000
        for part in ("title", "submit", "close"):
            assert len(form.get(part, {}).get("text", "")) <= blocks.MAX_TITLE
        parsed = [Block.parse(block) for block in form["blocks"]]
        View(**{**form, "blocks": parsed}).to_dict()
    carried = forms.confirmed_values(made[0])
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
        shown = notices.render("freezes", {"total": 1, "enforced": 0, "ended": ended, "shown": [row]}, WEB)
        assert any(block["type"] == "actions" for block in shown.blocks) is not bool(ended)


def test_freeze_without_exceptions_offers_none() -> None:
    facts = {"total": 1, "enforced": 0, "ended": 0, "shown": [freeze("A reason", exceptionsAllowed=False)]}
    buttons = next(block for block in notices.render("freezes", facts, WEB).blocks if block["type"] == "actions")
    assert [each["action_id"] for each in buttons["elements"]] == ["freeze.lift"]


def test_thousand_windows_make_one_message_with_a_link_to_the_rest() -> None:
    window = {"scheduleId": "sch_1", "scheduleName": "Weekend", "startsAt": NOW, "endsAt": NOW}
    message = notices.render("windows", {"total": 1000, "minutes": 30, "shown": [window] * 10}, WEB)
    assert message.text == "1,000 freezes begin in 30 minutes"
    assert "and 990 more" in texts_of(message.blocks)[-1]
