"""Check suites and check runs in the graph."""

from tools.fake_github.graph.queries import Args
from tools.fake_github.graph.resolvers import Context, attributes, resolver
from tools.fake_github.graph.values import CommitOf, Connection, connect
from tools.fake_github.model.checks import suite_state
from tools.fake_github.model.records import CheckSuite


def _upper(text: str | None) -> str | None:
    return text.upper() if text else None


@resolver("Commit", "checkSuites")
def _suites(value: CommitOf, args: Args, context: Context) -> Connection:
    wanted = args.get("filterBy") or {}
    name, app_id = wanted.get("checkName"), wanted.get("appId")
    found = [
        suite
        for suite in context.world.suites_on.get((value.repository.id, value.commit.sha), {}).values()
        if (app_id is None or suite.app_id == app_id)
        and (name is None or any(run.name == name for run in context.world.runs_in[suite.id]))
    ]
    return connect("checkSuites", found, args, lambda suite: suite.id)


attributes("CheckSuite", id="node_id")
resolver("CheckSuite", "conclusion")(lambda suite, _args, context: _upper(suite_state(context.world, suite)[1]))


@resolver("CheckSuite", "checkRuns")
def _runs(suite: CheckSuite, args: Args, context: Context) -> Connection:
    """List a suite's runs, the newest of each name unless `checkType: ALL`, the oldest first."""
    wanted = args.get("filterBy") or {}
    found = context.world.runs_in[suite.id]
    if wanted.get("checkName") is not None:
        found = [run for run in found if run.name == wanted["checkName"]]
    if wanted.get("checkType") != "ALL":
        found = sorted({run.name: run for run in found}.values(), key=lambda run: run.id)
    if wanted.get("appId") is not None:
        found = [run for run in found if run.app_id == wanted["appId"]]
    statuses = wanted.get("statuses") or ([wanted["status"]] if wanted.get("status") else None)
    if statuses:
        found = [run for run in found if run.status.upper() in statuses]
    if wanted.get("conclusions"):
        found = [run for run in found if _upper(run.conclusion) in wanted["conclusions"]]
    return connect("checkRuns", list(found), args, lambda run: run.id)


attributes("CheckRun", id="node_id", databaseId="id", completedAt="completed_at")
resolver("CheckRun", "externalId")(lambda run, _args, _context: run.external_id or "")
resolver("CheckRun", "status")(lambda run, _args, _context: run.status.upper())
resolver("CheckRun", "conclusion")(lambda run, _args, _context: _upper(run.conclusion))
