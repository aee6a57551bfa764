"""Check suites and check runs in the graph."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tools.fake_github.graph.pull_fields import select_pulls
from tools.fake_github.graph.queries import Args, commit_of, ref_of, repository_of
from tools.fake_github.graph.resolvers import TYPE_OF, Context, attributes, resolver
from tools.fake_github.graph.values import CommitOf, Connection, RefOf, connect, show_connection
from tools.fake_github.model.checks import suite_state
from tools.fake_github.model.classic import find_protection
from tools.fake_github.model.protection import SATISFYING, required_checks
from tools.fake_github.model.records import CheckRun, CheckSuite
from tools.fake_github.model.rulesets import rules_for_branch


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


@dataclass(frozen=True, slots=True)
class RollupOf:
    """The newest runs of all names on a commit, together."""

    commit: CommitOf
    runs: list[CheckRun]

    @property
    def state(self) -> str:
        """Return the state of all: failed, unfinished or successful."""
        if any(run.status == "completed" and run.conclusion not in SATISFYING for run in self.runs):
            return "FAILURE"
        return "PENDING" if any(run.status != "completed" for run in self.runs) else "SUCCESS"


TYPE_OF[RollupOf] = lambda _: "StatusCheckRollup"


@resolver("Commit", "statusCheckRollup")
def _rollup(value: CommitOf, _args: Args, context: Context) -> RollupOf | None:
    suites = context.world.suites_on.get((value.repository.id, value.commit.sha), {})
    runs = {(run.app_id, run.name): run for suite in suites.values() for run in context.world.runs_in[suite.id]}
    return RollupOf(value, list(runs.values())) if runs else None


@resolver("StatusCheckRollup", "id")
def _rollup_id(value: RollupOf, _args: Args, _context: Context) -> str:
    return f"SCR_{value.commit.repository.id:x}x{value.commit.commit.sha}"


@resolver("StatusCheckRollup", "contexts")
def _contexts(value: RollupOf, args: Args, _context: Context) -> dict[str, Any]:
    """List the runs; commit statuses are not simulated."""
    counted = Counter(_upper(run.conclusion) or run.status.upper() for run in value.runs)
    return {
        "page": connect("contexts", value.runs, args, lambda run: run.id),
        "checkRunCount": len(value.runs),
        "checkRunCountsByState": [{"state": state, "count": count} for state, count in counted.items()],
        "statusContextCount": 0,
        "statusContextCountsByState": [],
    }


show_connection("StatusCheckRollupContext", lambda value: value["page"])
resolver("CheckSuite", "workflowRun")(lambda _suite, _args, _context: None)  # no suite is one of GitHub Actions
attributes("CheckSuite", id="node_id", databaseId="id", createdAt="created_at", updatedAt="updated_at")
resolver("CheckSuite", "app")(lambda suite, _args, context: context.world.apps.get(suite.app_id))
resolver("CheckSuite", "repository")(lambda suite, _args, context: repository_of(context, suite))
resolver("CheckSuite", "status")(lambda suite, _args, context: suite_state(context.world, suite)[0].upper())
resolver("CheckSuite", "conclusion")(lambda suite, _args, context: _upper(suite_state(context.world, suite)[1]))


@resolver("CheckSuite", "branch")
def _branch(suite: CheckSuite, _args: Args, context: Context) -> RefOf | None:
    return ref_of(repository_of(context, suite), suite.head_branch or "")


@resolver("CheckSuite", "commit")
def _commit(suite: CheckSuite, _args: Args, context: Context) -> CommitOf | None:
    return commit_of(repository_of(context, suite), suite.head_sha)


@resolver("CheckSuite", "matchingPullRequests")
def _matching(suite: CheckSuite, args: Args, context: Context) -> Connection:
    base = args.get("baseRefName")
    repository = repository_of(context, suite)
    pulls = list(context.world.open_at.get((suite.repository_id, suite.head_sha), {}).values())
    found = select_pulls([pull for pull in pulls if not base or pull.base_ref == base], args, repository)
    return connect("matchingPullRequests", found, args, lambda pull: pull.number)


def _suite_page(suite: CheckSuite, context: Context) -> str:
    return f"/{context.world.full_name(repository_of(context, suite))}/commit/{suite.head_sha}/checks"


resolver("CheckSuite", "resourcePath")(lambda suite, _args, context: _suite_page(suite, context))
resolver("CheckSuite", "url")(lambda suite, _args, context: f"{context.github.base_url}{_suite_page(suite, context)}")


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


attributes("CheckRun", id="node_id", databaseId="id", startedAt="started_at", completedAt="completed_at")
resolver("CheckRun", "externalId")(lambda run, _args, _context: run.external_id or "")
resolver("CheckRun", "status")(lambda run, _args, _context: run.status.upper())
resolver("CheckRun", "conclusion")(lambda run, _args, _context: _upper(run.conclusion))
resolver("CheckRun", "checkSuite")(lambda run, _args, context: context.world.suites[run.suite_id])
resolver("CheckRun", "repository")(lambda run, _args, context: repository_of(context, run))


def _output(name: str) -> None:
    resolver("CheckRun", name)(lambda run, _args, _context: run.output.get(name))


for _name in ("title", "summary", "text"):
    _output(_name)


def _run_page(run: CheckRun, context: Context) -> str:
    return f"/{context.world.full_name(repository_of(context, run))}/runs/{run.id}"


resolver("CheckRun", "resourcePath")(lambda run, _args, context: _run_page(run, context))
for _field in ("url", "permalink"):
    resolver("CheckRun", _field)(lambda run, _args, context: f"{context.github.base_url}{_run_page(run, context)}")


@resolver("CheckRun", "detailsUrl")
def _details(run: CheckRun, _args: Args, context: Context) -> str:
    return run.details_url or f"{context.github.base_url}{_run_page(run, context)}"


@resolver("CheckRun", "isRequired")
def _is_required(run: CheckRun, args: Args, context: Context) -> bool:
    repository = repository_of(context, run)
    pull = context.world.find_node(args["pullRequestId"]) if args.get("pullRequestId") else None
    pull = pull or repository.pulls.get(args.get("pullRequestNumber") or 0)
    if pull is None:
        return False
    classic = find_protection(context.world, repository, pull.base_ref)
    required = required_checks(rules_for_branch(context.world, repository, pull.base_ref), classic)
    return any(name == run.name and app_id in {None, run.app_id} for name, app_id in required)
