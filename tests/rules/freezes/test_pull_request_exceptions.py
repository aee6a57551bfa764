"""Why a granted exception may have no effect."""

from dataclasses import replace
from typing import Any

import pytest

from rules.freezes.pull_request_exceptions import GrantedException, ineffective_reason

GOOD = GrantedException(
    open=True,
    on_its_base=True,
    on_its_head=True,
    covering={"frz_1"},
    excepted={"frz_1", "frz_2"},
    sharing_blocked=False,
    pattern_blocked=False,
    written=True,
)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, None),
        ({"covering": ()}, None),
        ({"open": False}, "closed"),
        ({"on_its_base": False}, "other_base"),
        ({"on_its_head": False}, "head_moved"),
        ({"excepted": {"frz_2"}}, "other_freeze"),
        ({"sharing_blocked": True}, "shared_head"),
        ({"pattern_blocked": True}, "pattern_blocked"),
        ({"pattern_blocked": True, "sharing_blocked": True}, "shared_head"),
        ({"written": False}, "not_written"),
        ({"written": False, "covering": ("frz_1", "frz_3")}, "other_freeze"),
        ({"written": False, "sharing_blocked": True}, "shared_head"),
    ],
    ids=str,
)
def test_granted_exception_is_effective_unless_facts_are_against_it(facts: dict[str, Any], reason: str | None) -> None:
    assert ineffective_reason(replace(GOOD, **facts)) == reason
