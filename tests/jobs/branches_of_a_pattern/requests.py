"""What people do with branches and pull requests of a pattern."""

import requests

from tests.harness.github_harness import Harness
from tests.harness.pipeline import let_pass
from tools.fake_github.model.records import PullRequest

FROZEN, OPEN = "release/1.x", "release/2.x"


def frozen_branch(harness: Harness) -> str:
    return harness.freeze({"type": "branch", "branchId": harness.branches[f"acme/web:{FROZEN}"].id})


def proposed(harness: Harness, base: str) -> PullRequest:
    """Return a new pull request whose checks are written."""
    pull = harness.fake_github.organization("acme").repository("web").pull_request(base=base)
    settle(harness)
    return pull


def settle(harness: Harness) -> None:
    harness.make_due("wanted_generation = nextval('generations')")
    harness.run_until_idle()


def push(harness: Harness, branch: str, sha: str) -> requests.Response:
    """Move a branch forward to a commit, as a person does."""
    return harness.person("PATCH", f"/repos/acme/web/git/refs/heads/{branch}", {"sha": sha})


def propose_the_same(harness: Harness, pull: PullRequest, base: str) -> int:
    """Open another pull request with the head of one that is there."""
    body = {"title": "The same", "head": pull.head_ref, "base": base}
    answer = harness.person("POST", "/repos/acme/web/pulls", body)
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["number"]
    return number


def grant_exception(harness: Harness, pull: PullRequest, *, pin: bool) -> None:
    let_pass(harness, f"acme/web#{pull.number}", pin=pin)
    settle(harness)
