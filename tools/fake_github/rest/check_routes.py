"""Check runs and check suites."""

from tools.fake_github.answers import paged
from tools.fake_github.model import checks
from tools.fake_github.model.records import CheckRun
from tools.fake_github.model.refusals import not_found
from tools.fake_github.payloads.checks import check_run_json
from tools.fake_github.rest.branch_routes import resolve
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer


def _run(call: Call) -> CheckRun:
    run = call.world.runs.get(call.number("check_run_id"))
    if run is None or run.repository_id != call.repository.id:
        raise not_found()
    return run


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


@route("POST", "/repos/{owner}/{repo}/check-runs/{check_run_id}/rerequest", "checks:write")
def rerequest_check_run(call: Call) -> Answer:
    """Ask the App to run a check again."""
    checks.rerequest_run(call.world, call.actor, call.repository, _run(call))
    return Answer(201, {})


@route("GET", "/repos/{owner}/{repo}/commits/{ref*}/check-runs", "checks:read")
def list_check_runs(call: Call) -> Answer:
    """List the runs on a commit."""
    sha = resolve(call.repository, call.params["ref"])
    suites = call.world.suites_on.get((call.repository.id, sha), {})
    return _listed(call, [run for suite in suites.values() for run in call.world.runs_in[suite.id]])
