"""The table of routes, and how a path finds its own.

Templates are those of GitHub's documentation; `{name*}` takes several segments (branch names have slashes). A handler
is a plain function from a `Call` to an `Answer`; the route names the App permission it needs. As at GitHub, an
unknown path and a wrong method are both 404.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tools.fake_github.github import FakeGitHub
from tools.fake_github.identity import Caller
from tools.fake_github.model.records import Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor, World
from tools.fake_github.payloads.view import View
from tools.simulation.answers import Answer


@dataclass(slots=True)
class Call:
    """One request on its way through a handler."""

    github: FakeGitHub
    caller: Caller
    params: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]
    path: str
    found: Repository | None = None

    @property
    def world(self) -> World:
        """Return the state."""
        return self.github.world

    @property
    def view(self) -> View:
        """Return what shapes are made with."""
        return self.github.view

    @property
    def actor(self) -> Actor:
        """Return the one who changes things."""
        return self.caller.actor

    @property
    def repository(self) -> Repository:
        """Return the repository that the path names."""
        if self.found is None:
            raise Refusal(404, "Not Found")
        return self.found

    @property
    def url(self) -> str:
        """Return the address of the request, without its query."""
        return f"{self.github.base_url}{self.path}"

    def number(self, name: str) -> int:
        """Read a path parameter that is a number; anything else is not found."""
        text = self.params[name]
        if not (text.isascii() and text.isdigit()):
            raise Refusal(404, "Not Found")
        return int(text)


Handler = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """A template with what answers it."""

    method: str
    template: str
    handler: Handler
    permission: str | None
    credential: str  # any | app | installation | person
    pattern: re.Pattern[str]


TABLE: dict[tuple[str, str, str], list[Route]] = defaultdict(list)
ROUTES: list[Route] = []


def _bucket(method: str, path: str) -> tuple[str, str, str]:
    """Return the small group of routes that a path can belong to."""
    parts = path.split("/", 5)
    return method, parts[1], parts[4] if len(parts) > 4 and parts[1] == "repos" else ""


def _compile(template: str) -> re.Pattern[str]:
    text = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.+)", template)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", text))


def route(
    method: str, template: str, permission: str | None = None, credential: str = "any"
) -> Callable[[Handler], Handler]:
    """Put a handler into the table."""

    def register(handler: Handler) -> Handler:
        found = Route(method, template, handler, permission, credential, _compile(template))
        ROUTES.append(found)
        group = TABLE[_bucket(method, template)]
        group.append(found)
        group.sort(key=lambda each: each.template.endswith("*}"))  # the open-ended ones are tried last
        return handler

    return register


def match(method: str, raw_path: str) -> tuple[Route, dict[str, str]] | None:
    """Find the route of a path, still percent-encoded, with its decoded parameters."""
    for candidate in TABLE.get(_bucket(method, raw_path), ()):
        if found := candidate.pattern.fullmatch(raw_path):
            return candidate, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def check_credential(found: Route, caller: Caller) -> None:
    """Refuse the wrong kind of credential in GitHub's words."""
    if found.credential == "app" and caller.app is None:
        raise Refusal(401, "A JSON web token could not be decoded")
    if found.credential != "app" and caller.app is not None and found.template != "/repos/{owner}/{repo}/installation":
        raise Refusal(403, "Resource not accessible by integration")
    if found.credential == "installation" and caller.installation is None:
        raise Refusal(
            403,
            "You must authenticate with an installation access token in order to list repositories for an"
            " installation.",
        )
    if found.credential == "person" and caller.installation is not None:
        raise Refusal(403, "Resource not accessible by integration")
    if found.permission:
        caller.require(found.permission)


def locate(call: Call, method: str, permission: str | None) -> Answer | None:
    """Find the repository that the path names; an old name is answered with a redirect, an unknown one with 404."""
    name = f"{call.params['owner']}/{call.params['repo']}"
    repository = call.world.find_repository(name)
    if repository is None and (moved := call.world.moved.get(name.lower())) in call.world.repositories:
        target = call.world.repositories[moved]
        if call.caller.sees(target) or call.caller.app:
            rest = call.path.split("/", 4)
            url = f"{call.github.base_url}/repositories/{target.id}" + (f"/{rest[4]}" if len(rest) > 4 else "")
            body = {"message": "Moved Permanently", "url": url, "documentation_url": "https://docs.github.com/rest"}
            return Answer(301 if method in {"GET", "HEAD"} else 307, body, {"Location": url})
    if repository is None or not (call.caller.sees(repository) or call.caller.app):
        raise Refusal(404, "Not Found")
    call.found = repository
    if call.caller.installation is None and call.caller.app is None:
        _admit_person(call, repository, permission)
    return None


def _admit_person(call: Call, repository: Repository, permission: str | None) -> None:
    """Refuse a person what their own rights do not reach: the repository itself, and its administration."""
    level = call.github.oauth.level(call.caller.account, repository)
    if level is None:
        raise Refusal(404, "Not Found")
    if level != "admin" and permission == "administration:write":
        raise Refusal(403, "Must have admin rights to Repository.")
