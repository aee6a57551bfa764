"""What people do at the simulated GitHub over its API, as webhooks report it."""

import requests

from tests.harness.github_harness import Harness
from tools.fake_github.model import installations
from tools.fake_github.model.pulls import set_auto_merge
from tools.fake_github.model.records import AutoMerge, Installation, PullRequest


def cut(harness: Harness, repository: str, branch: str, base: str = "main") -> None:
    """Create a branch."""
    sha = harness.record(repository).branches[base]
    answer = harness.person("POST", f"/repos/{repository}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
    assert answer.status_code == 201, answer.text


def push(harness: Harness, repository: str, branch: str) -> requests.Response:
    """Push straight to a branch."""
    body = {"message": "More", "content": "bW9yZQ==", "branch": branch}
    name = len(harness.record(repository).commits)
    return harness.person("PUT", f"/repos/{repository}/contents/{name}.txt", body)


def push_to_head(harness: Harness, repository: str = "acme/web", number: int = 1) -> None:
    """Push another commit to the head of a pull request."""
    answer = push(harness, repository, harness.record(repository).pulls[number].head_ref)
    assert answer.status_code == 201, answer.text


def propose(harness: Harness, repository: str, base: str = "main") -> int:
    """Open a pull request with a commit of its own; returns its number."""
    head = f"change-{len(harness.record(repository).branches)}"
    cut(harness, repository, head, base)
    assert push(harness, repository, head).status_code == 201
    answer = harness.person("POST", f"/repos/{repository}/pulls", {"title": "More", "head": head, "base": base})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["number"])


def edit(harness: Harness, number: int, repository: str = "acme/web", **changes: str) -> None:
    """Change a pull request: its base or its state."""
    answer = harness.person("PATCH", f"/repos/{repository}/pulls/{number}", changes)
    assert answer.status_code == 200, answer.text


def install(harness: Harness, installation_id: int | None = None) -> Installation:
    """Install the App in acme, under this number or another one; no organisation has claimed it."""
    github = harness.fake_github
    return harness.act(installations.install, github.app, github.world.logins["acme"], installation_id=installation_id)


def uninstall(harness: Harness) -> int:
    """Uninstall the App; return the number of its installation."""
    number = harness.installed.id
    harness.act(installations.uninstall, harness.installed)
    return number


def suspend(harness: Harness, *, suspended: bool) -> None:
    """Suspend the only installation of the App, or let it work again."""
    harness.act(installations.suspend, harness.installed, suspended=suspended)


def choose_repositories(harness: Harness, *names: str) -> None:
    """Let the App into these repositories of acme, or into all of them."""
    chosen = [harness.record(f"acme/{name}") for name in names] or None
    harness.act(installations.choose_repositories, harness.installed, chosen)


def arm_auto_merge(harness: Harness, repository: str, number: int) -> PullRequest:
    """Have a pull request merge by itself as soon as it may; a webhook tells the service."""
    record, maintainer = harness.record(repository), harness.fake_github.maintainer
    armed = AutoMerge(harness.fake_github.world.now(), maintainer.id, "merge")
    harness.act(set_auto_merge, record, record.pulls[number], armed)
    harness.sql("UPDATE pull_requests SET merge_rank = 1 WHERE number = :number", number=number)
    return record.pulls[number]
