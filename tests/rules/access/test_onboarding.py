"""The steps from nothing to the first freeze, and what the App has to be granted."""

from dataclasses import replace
from typing import Any

import pytest

from rules.access.onboarding import OnboardingState, steps
from rules.rulesets.app_permissions import NEEDED, missing_permissions

EVERYTHING = OnboardingState(
    "Acme", "active", "acme", (), covered=3, enabled=2, watched=4, unenforced=0, frozen_once=True
)
NAMES = ["organization", "installation", "repositories", "branches", "enforcement", "first_freeze"]


def test_onboarding_steps_are_always_in_order() -> None:
    for facts in (None, OnboardingState("Acme"), EVERYTHING):
        assert [step.name for step in steps(facts)] == NAMES


def test_onboarding_is_done_and_describes_the_setup_when_complete() -> None:
    found = steps(EVERYTHING)
    assert all(step.done and step.action is None for step in found)
    assert [step.message for step in found] == [
        "You are working in Acme.",
        "The GitHub App is installed in acme.",
        "2 repositories enabled.",
        "4 branches watched.",
        "Rules require our check on all watched branches.",
        "First freeze started.",
    ]


def test_onboarding_speaks_to_people_and_not_of_operations() -> None:
    for facts in (None, OnboardingState("Acme"), replace(EVERYTHING, frozen_once=False), EVERYTHING):
        assert [step.message for step in steps(facts) if "/v1/" in step.message or "URL" in step.message] == []


def test_onboarding_step_has_an_action_when_nothing_is_set_up() -> None:
    found = steps(None)
    assert [step.done for step in found] == [False] * 6
    assert [step.action and step.action.operation_id for step in found] == [
        "bootstrap_organization",
        "get_install_url",
        "sync_repositories",
        "watch_branch",
        "setup_enforcement",
        "create_freeze",
    ]


@pytest.mark.parametrize(
    ("changed", "undone", "operation", "words"),
    [
        ({"installation": "none"}, "installation", "get_install_url", "Install the GitHub App"),
        ({"installation": "pending"}, "installation", "claim_installation", "back to claim"),
        ({"installation": "suspended"}, "installation", "get_installation_status", "unsuspend it at GitHub"),
        ({"installation": "removed"}, "installation", "get_install_url", "uninstalled"),
        ({"missing_permissions": ["checks:write"]}, "installation", "get_installation_status", "checks:write"),
        ({"covered": 0, "enabled": 0}, "repositories", "sync_repositories", "Sync the repositories"),
        ({"enabled": 0}, "repositories", "enable_repositories", "covers 3"),
        ({"unenforced": 1}, "enforcement", "setup_enforcement", "1 branch is not known"),
        ({"unenforced": 4}, "enforcement", "setup_enforcement", "4 branches are not known"),
        ({"frozen_once": False}, "first_freeze", "create_freeze", "what it would cover"),
    ],
)
def test_only_the_missing_onboarding_step_is_open(
    changed: dict[str, Any], undone: str, operation: str, words: str
) -> None:
    [step] = [each for each in steps(replace(EVERYTHING, **changed)) if not each.done]
    assert (step.name, step.action and step.action.operation_id) == (undone, operation)
    assert words in step.message


def test_enforcement_step_is_open_without_watched_branches() -> None:
    undone = [step.name for step in steps(replace(EVERYTHING, watched=0)) if not step.done]
    assert undone == ["branches", "enforcement"]


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        (dict(NEEDED), []),
        ({**NEEDED, "checks": "admin", "contents": "write"}, []),
        ({**NEEDED, "statuses": "read"}, ["statuses:write"]),
        ({**NEEDED, "checks": "strange"}, ["checks:write"]),
        ({name: level for name, level in NEEDED.items() if name != "merge_queues"}, ["merge_queues:read"]),
        ({}, [f"{name}:{level}" for name, level in NEEDED.items()]),
    ],
)
def test_missing_permissions_are_those_required_and_not_granted(granted: dict[str, str], missing: list[str]) -> None:
    assert missing_permissions(granted) == missing
