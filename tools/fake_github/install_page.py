"""GitHub's page where a person installs the App: they are taken to have chosen and pressed the button at once.

The person is the query's `login`, or who else comes; the account its `account`, or the first organisation of theirs
where the App is not installed yet. Sent back is what GitHub sends when an App requests authorisation during
installation: `code`, `installation_id`, `setup_action` and the `state` that came. A member who is no owner can only
ask for it (`setup_action=request`, without an id). Source: GitHub's pages "About the setup URL" and "Sharing your
GitHub App".
"""

import re
from urllib.parse import urlencode

from tools.fake_github.github import FakeGitHub
from tools.fake_github.model.installations import client_id_of, install
from tools.fake_github.model.records import Account
from tools.fake_github.model.refusals import Refusal, not_found
from tools.fake_github.model.world import Actor
from tools.simulation.answers import Answer

PAGE = re.compile(r"/apps/(?P<slug>[^/]+)/installations/new")


def install_page(github: FakeGitHub, slug: str, query: dict[str, str]) -> Answer:
    """Install the App as a person would, and send them back to its setup URL."""
    try:
        return _install(github, slug, query)
    except Refusal as refusal:
        return Answer(refusal.status, {"message": refusal.message})


def _install(github: FakeGitHub, slug: str, query: dict[str, str]) -> Answer:
    if slug != github.app.slug:
        raise not_found()
    world, login = github.world, query.get("login")
    person = world.add_account(login, "User") if login else github.oauth.visitor
    account = _chosen(github, person, query.get("account"))
    back = {"code": "", "setup_action": "request"}
    if _owns(github, person, account):
        found = world.installed.get(account.id)
        back["setup_action"] = "update" if found else "install"
        found = found or install(world, Actor(person), github.app, account)
        back["installation_id"] = str(found.id)
    target = github.settings.setup_url
    if target is None:
        return Answer(200, {"message": "Done. This App has no setup URL.", **back})
    back["code"] = github.oauth.give_code(client_id_of(github.app.id), person, target)
    if "state" in query:
        back["state"] = query["state"]
    return Answer(302, None, {"Location": f"{target}{'&' if '?' in target else '?'}{urlencode(sorted(back.items()))}"})


def _chosen(github: FakeGitHub, person: Account, login: str | None) -> Account:
    world = github.world
    if login is not None:
        named = world.logins.get(login.lower())
        candidates = [named] if named else []
    else:
        free = [each for each in world.accounts.values() if each.id not in world.installed]
        candidates = [each for each in free if each.type == "Organization" and each.id != github.app.owner_id]
    mine = [each for each in candidates if each.id == person.id or github.oauth.role(person, each.login) is not None]
    if not mine:
        raise not_found()
    return mine[0]


def _owns(github: FakeGitHub, person: Account, account: Account) -> bool:
    if account.type != "Organization":
        return account.id == person.id
    return github.oauth.role(person, account.login) == "admin"
