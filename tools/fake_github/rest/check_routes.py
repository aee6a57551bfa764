"""Check runs and check suites."""

from tools.fake_github.answers import paged
from tools.fake_github.model import checks
from tools.fake_github.model.records import CheckRun, CheckSuite
from tools.fake_github.model.refusals import not_found
from tools.fake_github.payloads.checks import annotation_json, check_run_json, check_suite_json
from tools.fake_github.payloads.repositories import repository_json, repository_url
from tools.fake_github.rest.branch_routes import resolve
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer


def _run(call: Call) -> CheckRun:
    run = call.world.runs.get(call.number("check_run_id"))
    if run is None or run.repository_id != call.repository.id:
        raise not_found()
    return run


def _suite(call: Call) -> CheckSuite:
    suite = call.world.suites.get(call.number("check_suite_id"))
    if suite is None or suite.repository_id != call.repository.id:
        raise not_found()
    return suite


def select_runs(runs: list[CheckRun], query: dict[str, str]) -> list[CheckRun]:
    """Apply `check_name`, `status`, `app_id` and `filter` (the newest of each name and App, or all); newest first."""
    name, status, app_id = query.get("check_name"), query.get("status"), query.get("app_id")
    found = [run for run in runs if not name or run.name == name]
    found = [run for run in found if not app_id or str(run.app_id) == app_id]
    if query.get("filter", "latest") == "latest":
        found = list({(run.app_id, run.name): run for run in found}.values())
    return sorted((run for run in found if not status or run.status == status), key=lambda run: -run.id)


def _listed(call: Call, runs: list[CheckRun]) -> Answer:
    found = select_runs(runs, call.query)
    return paged(
        call.url,
        call.query,
        found,
        lambda run: check_run_json(call.view, call.repository, run),
        lambda total, page: {"total_count": total, "check_runs": page},
    )


@route("POST", "/repos/{owner}/{repo}/check-runs", "checks:write", "installation")
def create_check_run(call: Call) -> Answer:
    """Report a check on a commit; only Apps may."""
    assert call.actor.app_id is not None
    run = checks.create_check_run(call.world, call.actor, call.actor.app_id, call.repository, call.body)
    return Answer(201, check_run_json(call.view, call.repository, run))


@route("PATCH", "/repos/{owner}/{repo}/check-runs/{check_run_id}", "checks:write", "installation")
def update_check_run(call: Call) -> Answer:
    """Change a run of the calling App."""
    run = _run(call)
    if run.app_id != call.actor.app_id:
        raise not_found()
    checks.update_check_run(call.world, call.actor, call.repository, run, call.body)
    return Answer(200, check_run_json(call.view, call.repository, run))


@route("GET", "/repos/{owner}/{repo}/check-runs/{check_run_id}", "checks:read")
def get_check_run(call: Call) -> Answer:
    """Show a check run."""
    return Answer(200, check_run_json(call.view, call.repository, _run(call)))


@route("GET", "/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations", "checks:read")
def list_annotations(call: Call) -> Answer:
    """List the annotations of a run."""
    run = _run(call)
    annotations = run.output.get("annotations", ())
    return paged(call.url, call.query, annotations, lambda each: annotation_json(call.view, call.repository, run, each))


@route("POST", "/repos/{owner}/{repo}/check-runs/{check_run_id}/rerequest", "checks:write")
def rerequest_check_run(call: Call) -> Answer:
    """Ask the App to run a check again."""
    checks.rerequest_run(call.world, call.actor, call.repository, _run(call))
    return Answer(201, {})


@route("GET", "/repos/{owner}/{repo}/check-suites/{check_suite_id}", "checks:read")
def get_check_suite(call: Call) -> Answer:
    """Show a check suite."""
    return Answer(200, check_suite_json(call.view, call.repository, _suite(call)))


@route("GET", "/repos/{owner}/{repo}/check-suites/{check_suite_id}/check-runs", "checks:read")
def list_suite_runs(call: Call) -> Answer:
    """List the runs of a suite."""
    return _listed(call, call.world.runs_in[_suite(call).id])


@route("POST", "/repos/{owner}/{repo}/check-suites/{check_suite_id}/rerequest", "checks:write")
def rerequest_check_suite(call: Call) -> Answer:
    """Ask the App to run all checks of a suite again."""
    checks.rerequest_suite(call.world, call.actor, call.repository, _suite(call))
    return Answer(201, {})


@route("GET", "/repos/{owner}/{repo}/commits/{ref*}/check-runs", "checks:read")
def list_check_runs(call: Call) -> Answer:
    """List the runs on a commit."""
    sha = resolve(call.repository, call.params["ref"])
    suites = call.world.suites_on.get((call.repository.id, sha), {})
    return _listed(call, [run for suite in suites.values() for run in call.world.runs_in[suite.id]])


@route("GET", "/repos/{owner}/{repo}/commits/{ref*}/check-suites", "checks:read")
def list_check_suites(call: Call) -> Answer:
    """List the suites on a commit, by App or by the name of a run."""
    sha = resolve(call.repository, call.params["ref"])
    app_id, name = call.query.get("app_id"), call.query.get("check_name")
    found = [
        suite
        for suite in call.world.suites_on.get((call.repository.id, sha), {}).values()
        if (not app_id or str(suite.app_id) == app_id)
        and (not name or any(run.name == name for run in call.world.runs_in[suite.id]))
    ]
    return paged(
        call.url,
        call.query,
        found,
        lambda suite: check_suite_json(call.view, call.repository, suite),
        lambda total, page: {"total_count": total, "check_suites": page},
    )


@route("GET", "/repos/{owner}/{repo}/commits/{ref*}/status", "statuses:read")
def get_combined_status(call: Call) -> Answer:
    """Show the commit statuses of a commit: there are none, which GitHub calls pending."""
    sha = resolve(call.repository, call.params["ref"])
    commit = f"{repository_url(call.view, call.repository)}/commits/{sha}"
    shown = {
        "state": "pending",
        "statuses": [],
        "sha": sha,
        "total_count": 0,
        "repository": repository_json(call.view, call.repository),
        "commit_url": commit,
        "url": f"{commit}/status",
    }
    return Answer(200, shown)


@route("GET", "/repos/{owner}/{repo}/commits/{ref*}/statuses", "statuses:read")
def list_statuses(call: Call) -> Answer:
    """List the commit statuses of a commit: there are none."""
    resolve(call.repository, call.params["ref"])
    return paged(call.url, call.query, [], lambda status: status)
