"""What people do at the code host, of which webhooks tell."""

from tests.jobs.conftest import Town


def push(town: Town, repository: str, branch: str) -> None:
    body = {"message": "more", "content": "bW9yZQ==", "branch": branch}
    name = len(town.host.world.find_repository(repository).commits)  # type: ignore[union-attr]
    answer = town.person("PUT", f"/repos/{repository}/contents/{name}.txt", body)
    assert answer.status_code in {200, 201}, answer.text


def cut(town: Town, repository: str, branch: str, base: str = "main") -> None:
    sha = town.person("GET", f"/repos/{repository}/branches/{base}").json()["commit"]["sha"]
    answer = town.person("POST", f"/repos/{repository}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
    assert answer.status_code == 201, answer.text


def propose(town: Town, repository: str, base: str = "main") -> int:
    head = f"change-{len(town.host.world.find_repository(repository).branches)}"  # type: ignore[union-attr]
    cut(town, repository, head, base)
    push(town, repository, head)
    answer = town.person("POST", f"/repos/{repository}/pulls", {"title": "More", "head": head, "base": base})
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["number"]
    return number


def change(town: Town, repository: str, number: int, **changes: str) -> None:
    answer = town.person("PATCH", f"/repos/{repository}/pulls/{number}", changes)
    assert answer.status_code == 200, answer.text


def head_of(town: Town, repository: str, number: int) -> str:
    branch: str = town.person("GET", f"/repos/{repository}/pulls/{number}").json()["head"]["ref"]
    return branch
