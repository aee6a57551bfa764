"""What webhooks request is stored, and read as it was."""

import json
from dataclasses import replace

import pytest

from integrations.github.events import (
    BranchRefresh,
    InstallationRefresh,
    PullRequestState,
    RefreshRequest,
    RepositoryRefresh,
    RequestedAction,
    RulesetContent,
)
from services.webhooks.stored_requests import from_stored, to_stored

SHA = "a" * 40
REQUESTS: list[RefreshRequest] = [
    InstallationRefresh(7, rules_changed=True),
    RepositoryRefresh(None, 9),
    RepositoryRefresh(7, 9, rules_changed=True, written=RulesetContent(5, "ab12")),
    BranchRefresh(7, 9, frozenset({"main", "release/1"}), SHA),
    BranchRefresh(7, 9, frozenset()),
    RequestedAction(7, 9, "change-freeze/main", SHA, "request", 5, "ann"),
]


def reread(requests: list[RefreshRequest]) -> list[RefreshRequest]:
    return from_stored(json.loads(json.dumps(to_stored(requests))))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_request_is_read_as_it_was_stored(request_: RefreshRequest) -> None:
    assert reread([request_]) == [request_]


def test_requests_keep_their_order() -> None:
    whole = [each for each in REQUESTS if getattr(each, "written", None) is None]
    assert reread(whole) == whole


def test_former_release_is_asked_to_read_what_an_app_has_written() -> None:
    request = RepositoryRefresh(7, 9, rules_changed=True, written=RulesetContent(5, "ab12"))
    assert to_stored([request])["refresh_requests"] == to_stored([replace(request, written=None)])["refresh_requests"]


def test_state_of_a_pull_request_is_not_stored() -> None:
    state = PullRequestState(7, 9, 5, "main", SHA, True, False, False, "Change", "ann")
    assert to_stored([state]) == {}
