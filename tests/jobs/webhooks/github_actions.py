"""What people do at GitHub, and webhooks report."""

from tests.harness.github_harness import Harness


def push(harness: Harness, repository: str, branch: str) -> None:
    body = {"message": "more", "content": "bW9yZQ==", "branch": branch}
    name = len(harness.fake_github.world.find_repository(repository).commits)  # type: ignore[union-attr]
    answer = harness.person("PUT", f"/repos/{repository}/contents/{name}.txt", body)
    assert answer.status_code in {200, 201}, answer.text


def cut(harness: Harness, repository: str, branch: str, base: str = "main") -> None:
    sha = harness.person("GET", f"/repos/{repository}/branches/{base}").json()["commit"]["sha"]
    answer = harness.person("POST", f"/repos/{repository}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
    assert answer.status_code == 201, answer.text


def propose(harness: Harness, repository: str, base: str = "main") -> int:
    head = f"change-{len(harness.fake_github.world.find_repository(repository).branches)}"  # type: ignore[union-attr]
    cut(harness, repository, head, base)
    push(harness, repository, head)
    answer = harness.person("POST", f"/repos/{repository}/pulls", {"title": "More", "head": head, "base": base})
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["number"]
    return number


def change(harness: Harness, repository: str, number: int, **changes: str) -> None:
    answer = harness.person("PATCH", f"/repos/{repository}/pulls/{number}", changes)
    assert answer.status_code == 200, answer.text


def head_of(harness: Harness, repository: str, number: int) -> str:
    branch: str = harness.person("GET", f"/repos/{repository}/pulls/{number}").json()["head"]["ref"]
    return branch
