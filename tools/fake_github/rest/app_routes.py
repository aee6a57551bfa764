"""The App, its installations and its tokens."""

from urllib.parse import urlencode

from tools.fake_github.answers import page_size, paged
from tools.fake_github.identity import LEVELS
from tools.fake_github.model import teams
from tools.fake_github.model.installations import accessible
from tools.fake_github.model.records import Account, Installation
from tools.fake_github.model.refusals import Refusal, forbidden_to_integration, not_found, validation_failed
from tools.fake_github.payloads.accounts import (
    account_json,
    app_json,
    full_organization_json,
    installation_json,
    organization_json,
    person_json,
    team_json,
)
from tools.fake_github.payloads.repositories import repository_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer

MAX_TOKEN_REPOSITORIES = 500


def _own_installation(call: Call) -> Installation:
    found = call.world.installations.get(call.number("installation_id"))
    if found is None or call.caller.app is None or found.app_id != call.caller.app.id:
        raise not_found()
    return found


@route("GET", "/app", credential="app")
def get_app(call: Call) -> Answer:
    """Show the App itself."""
    assert call.caller.app is not None
    count = sum(1 for found in call.world.installations.values() if found.app_id == call.caller.app.id)
    return Answer(200, {**app_json(call.view, call.caller.app), "installations_count": count})


@route("GET", "/app/installations/{installation_id}", credential="app")
def get_installation(call: Call) -> Answer:
    """Show one installation."""
    return Answer(200, installation_json(call.view, _own_installation(call)))


@route("POST", "/app/installations/{installation_id}/access_tokens", credential="app")
def create_token(call: Call) -> Answer:
    """Mint an installation token, optionally narrowed to repositories and permissions."""
    installation = _own_installation(call)
    if installation.suspended_at:
        raise Refusal(403, "This installation has been suspended")
    permissions = call.body.get("permissions") or installation.permissions
    for name, level in permissions.items():
        if LEVELS.get(level, 9) > LEVELS.get(installation.permissions.get(name, ""), 0):
            raise Refusal(422, "The permissions requested are not granted to this installation.")
    owned = {repository.id: repository for repository in accessible(call.world, installation)}
    names = {repository.name: repository.id for repository in owned.values()}
    wanted = call.body.get("repository_ids")
    if call.body.get("repositories") is not None:
        wanted = [*(wanted or []), *(names.get(name, -1) for name in call.body["repositories"])]
    if wanted is not None and (len(wanted) > MAX_TOKEN_REPOSITORIES or any(number not in owned for number in wanted)):
        message = (
            "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
        raise Refusal(422, message)
    token, expires_at = call.github.credentials.mint(installation, permissions, wanted)
    body = {
        "token": token,
        "expires_at": expires_at,
        "permissions": permissions,
        "repository_selection": "selected" if wanted is not None else installation.repository_selection,
    }
    if wanted is not None:
        body["repositories"] = [repository_json(call.view, owned[number]) for number in wanted]
    return Answer(201, body)


@route("GET", "/installation/repositories", credential="installation")
def list_accessible_repositories(call: Call) -> Answer:
    """List what the installation's token reaches."""
    installation = call.caller.installation
    assert installation is not None
    seen = [repository for repository in accessible(call.world, installation) if call.caller.sees(repository)]

    def envelope(total: int, page: list[object]) -> dict[str, object]:
        selection = installation.repository_selection
        return {"total_count": total, "repository_selection": selection, "repositories": page}

    return paged(call.url, call.query, seen, lambda found: repository_json(call.view, found), envelope)


@route("GET", "/app/hook/config", credential="app")
def get_hook_config(call: Call) -> Answer:
    """Show where webhooks are sent; the secret is masked."""
    settings = call.github.settings
    shown = {"content_type": "json", "insecure_ssl": "0", "url": settings.webhook_url or ""}
    return Answer(200, {**shown, "secret": "********"} if settings.webhook_secret else shown)


@route("GET", "/app/hook/deliveries", credential="app")
def list_deliveries(call: Call) -> Answer:
    """List the deliveries of the log, newest first: a page from `cursor` on, of one `status` where that is known."""
    log, query = call.github.sender.log(), call.query
    if call.github.settings.filters_deliveries and (status := query.get("status")) is not None:
        if status not in {"success", "failure"}:
            raise validation_failed("Hook", "status")
        low, high = (200, 399) if status == "success" else (400, 599)
        log = [found for found in log if low <= found.status_code <= high]
    if (cursor := query.get("cursor")) is not None:
        number = cursor.removeprefix("v1_")
        if not (number.isascii() and number.isdigit()):
            raise validation_failed("Hook", "cursor")
        log = [found for found in log if found.id <= int(number)]
    size = page_size(query)
    headers = {}
    if len(log) > size:
        following = urlencode({**query, "cursor": f"v1_{log[size].id}"})
        headers["Link"] = f'<{call.url}?{following}>; rel="next"'
    return Answer(200, [found.summary() for found in log[:size]], headers)


@route("GET", "/app/hook/deliveries/{delivery_id}", credential="app")
def get_delivery(call: Call) -> Answer:
    """Show a delivery with its request and response."""
    delivery = call.github.sender.deliveries.get(call.number("delivery_id"))
    if delivery is None:
        raise not_found()
    return Answer(200, delivery.whole())


@route("GET", "/user", credential="person")
def get_user(call: Call) -> Answer:
    """Show the person whose token this is."""
    return Answer(200, person_json(call.view, call.caller.account))


@route("GET", "/user/installations", credential="person")
def list_own_installations(call: Call) -> Answer:
    """List the App's installations that the person can reach; for tokens of the App alone."""
    people = call.github.oauth
    if call.caller.token not in people.app_tokens:
        message = "You must authenticate with an access token authorized to a GitHub App in order to list installations"
        raise Refusal(403, message)
    mine = [found for found in call.world.installations.values() if people.reaches(call.caller.account, found)]

    def envelope(total: int, page: list[object]) -> dict[str, object]:
        return {"total_count": total, "installations": page}

    return paged(call.url, call.query, mine, lambda found: installation_json(call.view, found), envelope)


@route("GET", "/user/memberships/orgs/{org}", credential="person")
def get_membership(call: Call) -> Answer:
    """Show the person's own membership of an organisation; to the App, where it is installed with that permission."""
    account = call.world.logins.get(call.params["org"].lower())
    role = call.github.oauth.role(call.caller.account, account.login) if account else None
    if account is None or account.type != "Organization" or role is None:
        raise not_found()
    if call.caller.token in call.github.oauth.app_tokens:
        installed = call.world.installed.get(account.id)
        if installed is None or "members" not in installed.permissions:
            raise forbidden_to_integration()
    url = f"{call.github.base_url}/orgs/{account.login}"
    shown = {
        "url": f"{url}/memberships/{call.caller.account.login}",
        "state": "active",
        "role": role,
        "organization_url": url,
        "organization": organization_json(call.view, account),
        "user": account_json(call.view, call.caller.account.id),
    }
    return Answer(200, shown)


@route("GET", "/orgs/{org}")
def get_organization(call: Call) -> Answer:
    """Show an organisation."""
    account = call.world.logins.get(call.params["org"].lower())
    if account is None or account.type != "Organization":
        raise not_found()
    return Answer(200, full_organization_json(call.view, account))


@route("GET", "/users/{login}")
def get_account(call: Call) -> Answer:
    """Show an account by its login."""
    account = call.world.logins.get(call.params["login"].lower())
    if account is None:
        raise not_found()
    return Answer(200, person_json(call.view, account))


def _with_teams(call: Call, account: Account | None) -> Account:
    """Return an organisation, unless the caller is an installation somewhere else: it sees no team of it."""
    installation = call.caller.installation
    if account is None or (installation is not None and installation.account_id != account.id):
        raise not_found()
    return account


@route("GET", "/orgs/{org}/teams/{slug}", "members:read")
def get_team(call: Call) -> Answer:
    """Show a team by its slug."""
    account = _with_teams(call, call.world.logins.get(call.params["org"].lower()))
    number = teams.find_team(call.world, account, call.params["slug"])
    if number is None:
        raise not_found()
    shown = team_json(call.view, account, number, call.params["slug"])
    counts = {"members_count": len(call.world.teams[number]), "repos_count": 0}
    times = {"created_at": account.created_at, "updated_at": account.created_at}
    return Answer(200, {**shown, **counts, **times, "organization": full_organization_json(call.view, account)})


@route("GET", "/organizations/{org_id}/team/{team_id}/members", "members:read")
def list_team_members(call: Call) -> Answer:
    """List the members of a team, by the ids of its organisation and its own."""
    account, number = _with_teams(call, call.world.accounts.get(call.number("org_id"))), call.number("team_id")
    if not teams.belongs(call.world, number, account):
        raise not_found()
    found = [call.world.logins[login] for login in call.world.teams[number]]
    return paged(call.url, call.query, found, lambda each: account_json(call.view, each.id))
