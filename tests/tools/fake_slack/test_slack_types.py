"""The types of Slack's packages accept what the simulation accepts and answers, and notice what they should."""

import re
from pathlib import Path

import pytest
from slack_sdk import WebClient

from tests.harness.slack_types import type_errors
from tests.tools.fake_slack.blocks import BUTTONS, SECTION, form


@pytest.mark.check
def test_types_accept_what_the_simulation_accepts_and_notice_errors(tmp_path: Path, client: WebClient) -> None:
    wrong = {"type": "section", "text": {"type": "markdown", "text": "x"}}
    listed = client.conversations_list().data
    assert isinstance(listed, dict)
    wrongly_listed = {**listed, "channels": [{**listed["channels"][0], "private": False}]}
    errors = type_errors(
        tmp_path, [[SECTION, BUTTONS], [wrong]], [form(), {**form(), "title": "Freeze"}], [listed, wrongly_listed]
    )
    assert set(re.findall(r"blocks\.ts\((\d+),", errors)) == {"4", "6", "8"}
