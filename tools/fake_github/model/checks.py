"""Check suites and check runs.

A completed run never changes its status or conclusion again; another verdict is another run of the same name, and the
newest of a name and App is the one that counts.
"""

from typing import Any

from tools.fake_github.model.branches import refuse_when_archived
from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import CheckRun, CheckSuite, Repository
from tools.fake_github.model.refusals import Refusal, invalid_request
from tools.fake_github.model.world import Actor, Event, World

STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out")
OUTPUT_LIMIT = 65535
ANNOTATIONS_PER_REQUEST = 50
ANNOTATION_FIELDS = ("path", "start_line", "end_line", "annotation_level", "message")
ANNOTATION_LEVELS = ("notice", "warning", "failure")
ACTION_LIMITS = {"label": 20, "description": 40, "identifier": 20}


def _check_output(output: Any) -> dict[str, Any]:
    if not isinstance(output, dict):
        raise invalid_request("For 'properties/output', not an object.")
    if not isinstance(output.get("title"), str) or not isinstance(output.get("summary"), str):
        raise invalid_request('"summary" and "title" weren\'t supplied.')
    for name in ("summary", "text"):
        if len(output.get(name) or "") > OUTPUT_LIMIT:
            raise invalid_request(f"Only {OUTPUT_LIMIT} characters are allowed; {len(output[name])} were supplied.")
    _check_annotations(output.get("annotations") or [])
    return output


def _check_annotations(annotations: list[Any]) -> None:
    if len(annotations) > ANNOTATIONS_PER_REQUEST:
        raise invalid_request("No more than 50 items are allowed; more were supplied.")
    for each in annotations:
        if not isinstance(each, dict) or any(name not in each for name in ANNOTATION_FIELDS):
            raise invalid_request(f"For 'properties/annotations', {', '.join(ANNOTATION_FIELDS)} are required.")
        if each["annotation_level"] not in ANNOTATION_LEVELS:
            raise invalid_request(
                f"For 'properties/annotation_level', {each['annotation_level']} is not a member of"
                f" {list(ANNOTATION_LEVELS)}."
            )


def _check_actions(actions: Any) -> list[dict[str, str]]:
    if not isinstance(actions, list) or len(actions) > 3:
        raise invalid_request("No more than 3 items are allowed in actions.")
    for action in actions:
        for name, limit in ACTION_LIMITS.items():
            if not isinstance(action.get(name), str) or len(action[name]) > limit:
                raise invalid_request(f"For 'properties/actions', {name} is required and at most {limit} characters.")
    return actions


def _check_state(fields: dict[str, Any]) -> None:
    if fields.get("status") not in (None, *STATUSES):
        raise invalid_request(f"For 'properties/status', {fields['status']} is not a member of {list(STATUSES)}.")
    if fields.get("conclusion") not in (None, *CONCLUSIONS):
        raise invalid_request(
            f"For 'properties/conclusion', {fields['conclusion']} is not a member of {list(CONCLUSIONS)}."
        )
    if fields.get("status") == "completed" and not fields.get("conclusion"):
        raise invalid_request("Missing conclusion: it is required when the status is completed.")


def suite_for(world: World, repository: Repository, sha: str, app_id: int) -> CheckSuite:
    """Return the suite of an App on a commit, made when it is not there yet."""
    found = world.suites_on[repository.id, sha].get(app_id)
    if found is None:
        number, now = world.next_id(), world.now()
        branch = next((name for name, tip in repository.branches.items() if tip == sha), None)
        found = CheckSuite(number, node_id("CS", number), repository.id, app_id, sha, branch, now, now)
        world.index_suite(found)
    return found


def _assign(world: World, run: CheckRun, fields: dict[str, Any]) -> None:
    """Take over the optional fields that were given."""
    for name in ("external_id", "details_url", "started_at"):
        if fields.get(name) is not None:
            setattr(run, name, fields[name])
    if fields.get("output") is not None:
        given = _check_output(fields["output"])
        annotations = [*run.output.get("annotations", ()), *(given.get("annotations") or ())]
        run.output = {name: given.get(name) for name in ("title", "summary", "text")} | {"annotations": annotations}
    if fields.get("actions") is not None:
        run.actions = _check_actions(fields["actions"])
    if fields.get("status"):
        run.status = fields["status"]
    if fields.get("conclusion"):
        run.status, run.conclusion = "completed", fields["conclusion"]
        run.completed_at = fields.get("completed_at") or world.now()


def create_check_run(
    world: World, actor: Actor, app_id: int, repository: Repository, fields: dict[str, Any]
) -> CheckRun:
    """Report a check on a commit. `fields` are those of the REST API."""
    refuse_when_archived(repository)
    for name in ("name", "head_sha"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise invalid_request(f'"{name}" wasn\'t supplied.')
    _check_state(fields)
    sha = fields["head_sha"]
    if sha not in repository.commits:
        raise Refusal(422, f"No commit found for SHA: {sha}")
    number = world.next_id()
    run = CheckRun(
        id=number,
        node_id=node_id("CR", number),
        repository_id=repository.id,
        suite_id=0,
        app_id=app_id,
        name=fields["name"],
        head_sha=sha,
        status="queued",
        conclusion=None,
        started_at=world.now(),
        completed_at=None,
    )
    _assign(world, run, fields)
    run.suite_id = suite_for(world, repository, sha, app_id).id
    world.index_run(run)
    _announce(world, actor, repository, run, "created")
    if run.status == "completed":
        _announce(world, actor, repository, run, "completed")
    return run


def suite_state(world: World, suite: CheckSuite) -> tuple[str, str | None]:
    """Return status and conclusion of a suite, from the newest run of each name."""
    newest = list({run.name: run for run in world.runs_in[suite.id]}.values())
    if not newest:
        return "queued", None
    if any(run.status != "completed" for run in newest):
        return "in_progress", None
    order = ("action_required", "timed_out", "cancelled", "failure", "success", "neutral", "skipped")
    conclusions = {run.conclusion for run in newest}
    return "completed", next((name for name in order if name in conclusions), None)


def rerequest_run(world: World, actor: Actor, repository: Repository, run: CheckRun) -> None:
    """Ask the App to run one check again."""
    _announce(world, actor, repository, run, "rerequested")


def request_action(world: World, actor: Actor, repository: Repository, run: CheckRun, identifier: str) -> None:
    """Press one of the buttons of a completed run."""
    if run.status != "completed" or all(action["identifier"] != identifier for action in run.actions):
        raise Refusal(422, "Validation Failed", ["No such action"])
    _announce(world, actor, repository, run, "requested_action", identifier=identifier)


def _announce(world: World, actor: Actor, repository: Repository, run: CheckRun, action: str, **facts: object) -> None:
    world.emit(Event("check_run", action, actor.account, repository, {"run": run, **facts}))
