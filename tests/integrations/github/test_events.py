"""Webhooks become requests to read something again, and nothing else."""

import re
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.github.events import (
    _READERS,
    BranchRefresh,
    FactsRefresh,
    InstallationRefresh,
    PullRequestState,
    RepositoryRefresh,
    RequestedAction,
    RulesetContent,
    read_event,
)
from rules.rulesets.frozen_branches import Stop, fingerprint, wanted_ruleset

SHA = "a" * 40
REPOSITORY = {"id": 9, "name": "web"}
BASE = {"repository": REPOSITORY, "installation": {"id": 7}}
PULL = {
    "number": 5,
    "title": "Change",
    "state": "open",
    "draft": False,
    "auto_merge": None,
    "user": {"login": "ann"},
    "head": {"sha": SHA, "ref": "topic"},
    "base": {"ref": "main"},
}
RUN = {"id": 1, "head_sha": SHA, "app": {"id": 42, "slug": "change-freeze"}}


def branches(*names: str, head_sha: str | None = None) -> BranchRefresh:
    return BranchRefresh(7, 9, frozenset(names), head_sha)


def pull(action: str, **extra: Any) -> dict[str, Any]:
    return {"action": action, "pull_request": PULL, **BASE, **extra}


@pytest.mark.parametrize("event", ["installation", "installation_repositories", "installation_target"])
def test_installation_event_is_an_installation_hint(event: str) -> None:
    assert read_event(event, {"action": "anything", "installation": {"id": 7}}) == [InstallationRefresh(7)]


@pytest.mark.parametrize("action", ["renamed", "transferred", "archived", "deleted", "edited", "publicized"])
def test_repository_event_is_a_repository_hint(action: str) -> None:
    assert read_event("repository", {"action": action, **BASE}) == [RepositoryRefresh(7, 9)]


def test_repository_event_may_lack_its_installation() -> None:
    assert read_event("repository", {"action": "renamed", "repository": REPOSITORY}) == [RepositoryRefresh(None, 9)]


@pytest.mark.parametrize(
    "action",
    [
        "opened",
        "reopened",
        "synchronize",
        "closed",
        "ready_for_review",
        "converted_to_draft",
        "enqueued",
        "dequeued",
        "auto_merge_enabled",
        "auto_merge_disabled",
    ],
)
def test_pull_request_hint_has_its_base(action: str) -> None:
    hints = read_event("pull_request", pull(action))
    assert hints == [branches("main"), PullRequestState(7, 9, 5, "main", SHA, True, False, False, "Change", "ann")]


def test_title_change_is_a_pull_request_hint_only() -> None:
    (hint,) = read_event("pull_request", pull("edited", changes={"title": {"from": "Old"}}))
    assert isinstance(hint, PullRequestState)


@pytest.mark.parametrize(("event", "action"), [("pull_request", "labeled"), ("pull_request_review", "submitted")])
def test_label_or_review_matters_to_rules_alone(event: str, action: str) -> None:
    [hint] = read_event(event, pull(action))
    assert isinstance(hint, BranchRefresh)
    assert (hint.names, hint.for_rules) == (frozenset({"main"}), True)


def test_other_changes_of_a_pull_request_are_ignored() -> None:
    assert read_event("pull_request", pull("assigned")) == []


@pytest.mark.parametrize(("event", "action"), [("membership", "removed"), ("team", "deleted")])
def test_change_of_a_team_is_told(event: str, action: str) -> None:
    payload = {"action": action, "team": {"id": 7}, "installation": {"id": 5}}
    assert read_event(event, payload) == [FactsRefresh(installation_id=5, team_id=7)]


def test_pull_request_title_of_an_event_is_sanitized() -> None:
    odd = PULL | {"title": "a\x00b\ud800" + "c" * 9000, "auto_merge": {"merge_method": "squash"}, "user": None}
    hint = read_event("pull_request", pull("opened") | {"pull_request": odd})[1]
    assert isinstance(hint, PullRequestState)
    assert hint.title.startswith("a b ccc")
    assert len(hint.title) == 500
    assert hint.auto_merge
    assert hint.author is None


def test_merge_group_hint_has_its_base_without_the_prefix() -> None:
    group = {
        "head_sha": SHA,
        "head_ref": "refs/heads/gh-readonly-queue/release/9/pr-5-abc",
        "base_ref": "refs/heads/release/9",
    }
    assert read_event("merge_group", {"action": "checks_requested", "merge_group": group, **BASE}) == [
        branches("release/9")
    ]


@pytest.mark.parametrize(
    ("ref", "hints"),
    [
        ("refs/heads/main", [branches("main")]),
        ("refs/heads/release/9", [branches("release/9")]),
        ("refs/heads/gh-readonly-queue/release/9/pr-5-abc", [branches("release/9")]),
        ("refs/heads/日本", [branches("日本")]),
        ("refs/tags/v1", []),
        ("refs/heads/", []),
        ("refs/heads/" + "x" * 300, []),
    ],
)
def test_push_hint_has_its_branch(ref: str, hints: list[Any]) -> None:
    assert read_event("push", {"ref": ref, **BASE}) == hints


@pytest.mark.parametrize("event", ["create", "delete"])
def test_created_or_deleted_branch_is_a_hint_and_a_tag_is_not(event: str) -> None:
    assert read_event(event, {"ref": "release/9", "ref_type": "branch", **BASE}) == [branches("release/9")]
    assert read_event(event, {"ref": "v1", "ref_type": "tag", **BASE}) == []


@pytest.mark.parametrize("action", ["rerequested", "requested_action"])
def test_rerequested_check_is_a_hint_for_its_head(action: str) -> None:
    assert read_event("check_run", {"action": action, "check_run": RUN, **BASE}) == [branches(head_sha=SHA)]


def test_button_press_hint_has_its_user_and_place() -> None:
    run = RUN | {"name": "change-freeze/main"}
    pressed = {"action": "requested_action", "check_run": run, "requested_action": {"identifier": "request_exception"}}
    found = read_event("check_run", {**pressed, **BASE, "sender": {"id": 5, "login": "octocat"}}, app_id=42)
    button = RequestedAction(7, 9, "change-freeze/main", SHA, "request_exception", 5, "octocat")
    assert found == [branches(head_sha=SHA), button]
    for sender in (None, {"login": "octocat"}, {"id": "5", "login": "octocat"}):
        assert read_event("check_run", {**pressed, **BASE, "sender": sender}, app_id=42) == []


def test_button_of_a_check_of_another_app_is_no_button_press() -> None:
    pressed = {"action": "requested_action", "requested_action": {"identifier": "request_exception"}}
    whose = {**BASE, **pressed, "sender": {"login": "octocat"}}
    named = RUN | {"name": "change-freeze/main"}
    for app in ({"id": 43, "slug": "change-freeze"}, None):
        body = {**whose, "check_run": named | {"app": app}}
        assert read_event("check_run", body, app_id=42) == [branches(head_sha=SHA)]


def test_rerequested_check_suite_is_a_hint_for_its_head() -> None:
    suite = {"head_sha": SHA}
    assert read_event("check_suite", {"action": "rerequested", "check_suite": suite, **BASE}) == [
        branches(head_sha=SHA)
    ]
    assert read_event("check_suite", {"action": "requested", "check_suite": suite, **BASE}) == []


@pytest.mark.parametrize("action", ["created", "completed"])
def test_own_check_is_a_hint_only_when_written_by_another(action: str) -> None:
    payload = {"action": action, "check_run": RUN, **BASE}
    by_hand = payload | {"sender": {"login": "mallory"}}
    assert read_event("check_run", by_hand, app_id=42) == [branches(head_sha=SHA)]
    assert read_event("check_run", by_hand) == []
    assert read_event("check_run", by_hand, app_id=43) == []
    assert read_event("check_run", payload | {"sender": {"login": "change-freeze[bot]"}}, app_id=42) == []


@pytest.mark.parametrize("event", ["repository_ruleset", "branch_protection_rule", "branch_protection_configuration"])
def test_rule_changes_are_hints(event: str) -> None:
    assert read_event(event, {"action": "edited", **BASE}) == [RepositoryRefresh(7, 9, rules_changed=True)]


def test_organization_ruleset_event_is_an_installation_hint() -> None:
    payload = {"action": "edited", "installation": {"id": 7}, "organization": {"login": "acme"}}
    assert read_event("repository_ruleset", payload) == [InstallationRefresh(7, rules_changed=True)]


RULESET = wanted_ruleset(["main"], stop=Stop("change-freeze/stop:1", 42)) | {"id": 5}
BY_AN_APP = {"action": "edited", **BASE, "repository_ruleset": RULESET, "sender": {"type": "Bot"}}


def test_event_about_a_ruleset_of_frozen_branches_says_what_an_app_wrote() -> None:
    [found] = read_event("repository_ruleset", BY_AN_APP)
    assert found == RepositoryRefresh(7, 9, rules_changed=True, written=RulesetContent(5, fingerprint(RULESET)))


@pytest.mark.parametrize(
    "changes",
    [
        {"sender": {"type": "User"}},
        {"sender": None},
        {"action": "deleted"},
        {"repository_ruleset": RULESET | {"name": "Ours"}},
        {"repository_ruleset": RULESET | {"rules": [1]}},
        {"repository_ruleset": RULESET | {"conditions": "all"}},
        {"repository_ruleset": RULESET | {"id": None}},
    ],
)
def test_event_about_another_ruleset_or_by_people_does_not(changes: dict[str, Any]) -> None:
    assert read_event("repository_ruleset", BY_AN_APP | changes) == [RepositoryRefresh(7, 9, rules_changed=True)]


@pytest.mark.parametrize("event", ["ping", "issues", "star", "", "__class__"])
def test_other_events_are_ignored(event: str) -> None:
    assert read_event(event, {"action": "created", **BASE}) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["refs/heads/main", SHA]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = sorted(_READERS)
FULL: dict[str, Any] = {
    "action": "created",
    "ref": "refs/heads/main",
    "ref_type": "branch",
    "pull_request": PULL,
    "merge_group": {"base_ref": "refs/heads/main"},
    "check_run": RUN,
    "check_suite": {"head_sha": SHA},
    "requested_action": {"identifier": "request"},
    "sender": {"login": "ann"},
    "changes": {"base": {"ref": {"from": "old"}}},
    **BASE,
}


def is_storable(value: str) -> bool:
    """True if PostgreSQL can store a text: it has neither zero characters nor lone surrogates."""
    return re.search("[\\x00\\ud800-\\udfff]", value) is None


@given(
    event=st.sampled_from(PLACES),
    place=st.sampled_from(
        [(), *[(name,) for name in FULL], *[("pull_request", name) for name in PULL], ("check_run", "app")]
    ),
    odd=JSON,
    action=st.sampled_from(["created", "opened", "edited", "rerequested", "requested_action", "checks_requested"]),
)
def test_malformed_payloads_raise_no_error_and_give_valid_hints(
    event: str, place: tuple[str, ...], odd: Any, action: str
) -> None:
    payload: Any = FULL | {"action": action}
    if not place:
        payload = odd
    elif len(place) == 1:
        payload = payload | {place[0]: odd}
    else:
        payload = payload | {place[0]: payload[place[0]] | {place[1]: odd}}
    for hint in read_event(event, payload, app_id=42):
        for name, value in asdict(hint).items():
            if name in {"installation_id", "github_id", "number"}:
                assert (value is None and name == "installation_id") or 0 < value < 2**63
            elif name == "names":
                assert all(each and is_storable(each) for each in value)
            elif isinstance(value, str):
                assert is_storable(value)
                assert value or name == "title"
