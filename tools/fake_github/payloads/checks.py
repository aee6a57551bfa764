"""Check runs and check suites."""

from tools.fake_github.model.checks import suite_state
from tools.fake_github.model.records import CheckRun, CheckSuite, Repository
from tools.fake_github.payloads.accounts import app_json
from tools.fake_github.payloads.pulls import reference_json
from tools.fake_github.payloads.repositories import git_commit_json, repository_json, repository_url
from tools.fake_github.payloads.view import Json, View


def _pull_references(view: View, repository: Repository, sha: str) -> list[Json]:
    pulls = view.world.open_at.get((repository.id, sha), {})
    return [reference_json(view, repository, pull) for pull in pulls.values()]


def check_run_json(view: View, repository: Repository, run: CheckRun) -> Json:
    """Shape a check run."""
    url = f"{repository_url(view, repository)}/check-runs/{run.id}"
    page = f"{view.base}/{view.world.full_name(repository)}/runs/{run.id}"
    output = {name: run.output.get(name) for name in ("title", "summary", "text")}
    return {
        "id": run.id,
        "name": run.name,
        "node_id": run.node_id,
        "head_sha": run.head_sha,
        "external_id": run.external_id or "",
        "url": url,
        "html_url": page,
        "details_url": run.details_url or page,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
        "output": {
            **output,
            "annotations_count": len(run.output.get("annotations", ())),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": run.suite_id},
        "app": app_json(view, view.app(run)),
        "pull_requests": _pull_references(view, repository, run.head_sha),
    }


def _head_commit(view: View, repository: Repository, sha: str) -> Json:
    commit = repository.commits.get(sha)
    if commit is None:
        return {}
    git = git_commit_json(view, repository, commit)
    return {
        "id": sha,
        "tree_id": git["tree"]["sha"],
        "message": git["message"],
        "timestamp": git["author"]["date"],
        "author": {name: git["author"][name] for name in ("name", "email")},
        "committer": {name: git["committer"][name] for name in ("name", "email")},
    }


def check_suite_json(view: View, repository: Repository, suite: CheckSuite) -> Json:
    """Shape a check suite."""
    url = f"{repository_url(view, repository)}/check-suites/{suite.id}"
    status, conclusion = suite_state(view.world, suite)
    commit = repository.commits.get(suite.head_sha)
    runs = view.world.runs_in[suite.id]
    app = view.world.apps.get(suite.app_id)
    return {
        "id": suite.id,
        "node_id": suite.node_id,
        "head_branch": suite.head_branch,
        "head_sha": suite.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": url,
        "before": commit.parents[0] if commit and commit.parents else None,
        "after": suite.head_sha,
        "pull_requests": _pull_references(view, repository, suite.head_sha),
        "app": app_json(view, app) if app else None,
        "repository": repository_json(view, repository),
        "created_at": suite.created_at,
        "updated_at": suite.updated_at,
        "head_commit": _head_commit(view, repository, suite.head_sha),
        "latest_check_runs_count": len({run.name for run in runs}),
        "check_runs_url": f"{url}/check-runs",
        "rerequestable": True,
        "runs_rerequestable": True,
    }
