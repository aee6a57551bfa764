"""The types of Slack's package accept what the simulation accepts, and notice what they should."""

import re
from pathlib import Path

import pytest

from tests.harness.slack_types import type_errors
from tests.tools.fake_slack.blocks import BUTTONS, SECTION, form


@pytest.mark.check
def test_types_accept_what_the_simulation_accepts_and_notice_errors(tmp_path: Path) -> None:
    wrong = {"type": "section", "text": {"type": "markdown", "text": "x"}}
    errors = type_errors(tmp_path, [[SECTION, BUTTONS], [wrong]], [form(), {**form(), "title": "Freeze"}])
    assert set(re.findall(r"blocks\.ts\((\d+),", errors)) == {"3", "5"}
