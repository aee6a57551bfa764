"""The routes of the control plane."""

from tools.fake_github.control.dump import dump_checks, dump_ways_in
from tools.fake_github.github import FakeGitHub
from tools.fake_github.model import checks, installations, roles
from tools.fake_github.model.pulls import pull_numbered
from tools.fake_github.model.records import Installation
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import seed
from tools.simulation import control
from tools.simulation.answers import Answer
from tools.simulation.control import Action, Json
from tools.simulation.wire import Incoming


def _put_settings(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    if "appPublicKey" in body:
        github.app.public_key = body.pop("appPublicKey")
    github.settings.update(body)
    github.world.changes += 1
    return Answer(200, github.settings.as_json())


def _get_calls(github: FakeGitHub, query: dict[str, str], body: Json) -> Answer:
    """Return the counters, and with `writes=true` the verdicts written; `reset=true` resets both."""
    writes = {"writes": github.calls.writes} if query.get("writes") == "true" else {}
    shown = control.get_calls(github, query, body)
    return Answer(200, {**shown.body, **writes})


def _get_writes(github: FakeGitHub, query: dict[str, str], _body: Json) -> Answer:
    """List the verdicts written since the last reset, without the first `after`, for polling."""
    return Answer(200, {"writes": github.calls.writes[int(query.get("after", 0)) :]})


def _put_person(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"login", "rights": {account or "owner/name": role} or null}`; null lets the person do everything."""
    world = github.world
    world.add_account(body["login"], "User", body.get("token"))
    login, rights = body["login"].lower(), body.get("rights")
    if rights is None:
        world.rights.pop(login, None)
    else:
        world.rights[login] = {place.lower(): roles.level_named(role) for place, role in rights.items()}
    return Answer(204)


def _put_team(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"id", "members": [login]}`, as bypass lists name a team, or `{"organization", "slug", "members"}`."""
    if "slug" in body:
        github.organization(body["organization"]).team_named(body["slug"], *body["members"])
        return Answer(204)
    members = [github.world.add_account(login, "User").login.lower() for login in body["members"]]
    github.world.teams[int(body["id"])] = members
    return Answer(204)


def _seed(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    return Answer(201, seed(github, body))


def _checks(github: FakeGitHub, query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, dump_checks(github, query))


def _ways_in(github: FakeGitHub, query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, dump_ways_in(github, query))


def _change_pull(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"repository", "number", "reviewDecision"?, "mergeable"?}`, which no caller of GitHub could."""
    repository = github.world.repository_named(body["repository"])
    pull = pull_numbered(repository, body["number"])
    if "reviewDecision" in body:
        pull.review_decision = body["reviewDecision"]
    if "mergeable" in body:
        pull.mergeable = body["mergeable"]
    github.world.changes += 1
    return Answer(204)


def _press(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"repository", "number", "name", "identifier", "login"?}`: press a button of a pull request's check."""
    repository = github.world.repository_named(body["repository"])
    pull = pull_numbered(repository, body["number"])
    run = github.world.newest_run(repository.id, pull.head_sha, body["name"], github.app_id)
    if run is None:
        raise Refusal(404, "No such check run")
    person = github.world.add_account(body["login"], "User") if "login" in body else github.maintainer
    checks.request_action(github.world, Actor(person), repository, run, body["identifier"])
    return Answer(204)


def _installation(github: FakeGitHub, body: Json) -> Installation:
    found = github.world.installations.get(body.get("id", 0))
    account = github.world.logins.get(str(body.get("account", "")).lower())
    found = found or (github.world.installed.get(account.id) if account else None)
    if found is None:
        raise Refusal(404, "No such installation")
    return found


def _change_installation(github: FakeGitHub, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"action": create|delete|suspend|unsuspend|repositories|permissions, "account" or "id", ...}`."""
    world, actor, action = github.world, Actor(github.maintainer), body.get("action", "create")
    names = body.get("repositories")
    if action == "create":
        account = world.add_account(body["account"], "Organization")
        chosen = None if names is None else [world.repository_named(f"{account.login}/{name}") for name in names]
        made = installations.install(
            world,
            actor,
            github.app,
            account,
            chosen,
            permissions=body.get("permissions"),
            installation_id=body.get("installationId"),
        )
        return Answer(201, {"id": made.id})
    found = _installation(github, body)
    if action == "delete":
        installations.uninstall(world, actor, found)
    elif action in {"suspend", "unsuspend"}:
        installations.suspend(world, actor, found, suspended=action == "suspend")
    elif action == "repositories":
        login = world.accounts[found.account_id].login
        chosen = None if names is None else [world.repository_named(f"{login}/{name}") for name in names]
        installations.choose_repositories(world, actor, found, chosen)
    elif action == "permissions":
        installations.accept_permissions(world, actor, found, body["permissions"])
    else:
        raise ValueError(f"unknown action {action}")
    return Answer(200, {"id": found.id})


ACTIONS: dict[tuple[str, str], Action[FakeGitHub]] = {
    ("PUT", "settings"): _put_settings,
    ("GET", "calls"): _get_calls,
    ("GET", "writes"): _get_writes,
    ("PUT", "persons"): _put_person,
    ("PUT", "teams"): _put_team,
    ("POST", "seed"): _seed,
    ("POST", "installations"): _change_installation,
    ("PUT", "pull-requests"): _change_pull,
    ("GET", "checks"): _checks,
    ("GET", "ways-in"): _ways_in,
    ("POST", "buttons"): _press,
}


def answer(github: FakeGitHub, incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400, a refusal as GitHub says it."""
    try:
        return control.answer(github, ACTIONS, incoming)
    except Refusal as refusal:
        return Answer(refusal.status, {"message": refusal.message, "errors": refusal.errors})
