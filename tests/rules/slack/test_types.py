"""Messages and forms have the types of Slack's own package."""

from pathlib import Path

import pytest

from tests.harness.slack_types import type_errors
from tests.rules.slack.messages import HOSTILE, every_form, every_message


@pytest.mark.check
def test_messages_and_forms_have_the_types_of_slacks_package(tmp_path: Path) -> None:
    messages = [list(message.blocks) for message in every_message(HOSTILE)]
    assert type_errors(tmp_path, messages, every_form("acme/web", HOSTILE)) == ""
