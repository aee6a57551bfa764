"""What a draft of a rule would let in: GitHub is asked about the open pull requests of its scope."""

from typing import Any

import pytest

from models.repositories import Repository
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.exception_rules.rules import DOCS, EVERYWHERE, RULES, WANTED, opened
from tools.fake_github import FakeGitHub

pytestmark = pytest.mark.usefixtures("web")
PREVIEW = f"{RULES}/preview"
DRAFT: dict[str, Any] = {"appliesTo": EVERYWHERE, "allow": {"all": [DOCS]}}
LABEL = {"label": {"name": "hotfix", "setBy": {"teams": ["acme/captains"]}}}


def test_preview_says_what_is_let_in_and_what_is_missing(acme: Tenant, repository: Repository) -> None:
    docs = opened(acme, acme.session, repository, "docs/index.md", merge_rank=1)
    code = opened(acme, acme.session, repository, "src/app.py", merge_rank=2)
    opened(acme, acme.session, repository, "docs/old.md", state="closed")

    for caller in (acme.person("viewer"), acme.key("exception:read")):
        shown = caller.post(PREVIEW, DRAFT).json()

        counts = [shown[name] for name in ("openPullRequestCount", "judgedCount", "letInCount")]
        assert counts == [2, 2, 1]
        met, missed = shown["pullRequests"]
        assert (met["pullRequest"]["number"], met["outcome"], met["unknown"]) == (docs.number, "met", None)
        assert (missed["pullRequest"]["number"], missed["outcome"]) == (code.number, "missed")
        assert missed["conditions"] == [
            {
                "outcome": "missed",
                "requires": "only files that match docs/** or *.md",
                "found": "It changes src/app.py.",
            }
        ]
    assert acme.audit() == []


def test_pull_request_that_github_does_not_show_is_unknown(acme: Tenant, repository: Repository) -> None:
    factories.pull_request(acme.session, repository, 99, node_id="PR_gone", head_since=factories.now())

    shown = acme.person("admin").post(PREVIEW, DRAFT).json()

    [pull] = shown["pullRequests"]
    assert (shown["letInCount"], pull["outcome"], pull["conditions"]) == (0, "unknown", [])
    assert pull["unknown"]


def test_preview_takes_what_a_creation_takes_and_names_its_errors(acme: Tenant) -> None:
    acme.host.organization("acme").team_named("captains", "captain")
    admin = acme.person("admin")

    shown = admin.post(PREVIEW, {**WANTED, "allow": {"any": [LABEL]}}).json()
    refused = admin.post(PREVIEW, {**WANTED, "allow": {"all": [{"changedLines": {"atMost": 1}}]}})
    unknown = admin.post(PREVIEW, {**DRAFT, "allow": {"any": [{"author": {"accounts": ["nobody"]}}]}})

    assert [row["name"] for row in shown["identities"]] == ["acme/captains"]
    assert [row["path"] for row in refusal(refused, 422, "validation_failed")["details"]] == ["/allow"]
    paths = [row["path"] for row in refusal(unknown, 422, "validation_failed")["details"]]
    assert paths == ["/allow/any/0/author/accounts/0"]
    refusal(acme.key("freeze:read").post(PREVIEW, DRAFT), 403, "insufficient_scope")


def test_preview_spares_the_quota_that_is_kept_for_verdicts(
    acme: Tenant, repository: Repository, fake_github: FakeGitHub
) -> None:
    opened(acme, acme.session, repository, "docs/index.md")
    fake_github.settings.primary_limits, fake_github.settings.graphql_points_per_hour = True, 20
    admin, answers = acme.person("admin"), []
    try:
        answers += [admin.post(PREVIEW, DRAFT) for _ in range(18)]
    finally:
        fake_github.settings.primary_limits, fake_github.settings.graphql_points_per_hour = False, None

    refusal(answers[-1], 429, "github_rate_limited")
    assert sum(answer.status_code == 200 for answer in answers) in range(12, 18)  # GitHub gives 20
