"""The location and content of a ruleset at GitHub, and the snippet that is made of it."""

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from rules.rulesets.needs import Level

Tool = Literal["gh", "curl", "terraform", "ruleset_json"]
Purpose = Literal["enable", "disable", "restore"]

ENFORCEMENT: dict[Purpose, str] = {"enable": "active", "disable": "disabled", "restore": "active"}
"""What each purpose sets a ruleset's enforcement to."""

SWITCHES: tuple[Purpose, ...] = ("disable", "restore")
"""Purposes that only change the enforcement of a ruleset that is there."""

API_VERSION = "2022-11-28"


@dataclass(frozen=True, slots=True)
class PlacedRuleset:
    """The desired ruleset of a repository or of its owner, and its location in GitHub's API."""

    level: Level
    owner: str
    repository: str
    ruleset: dict[str, Any]
    """As JSON of GitHub's API."""
    found_as: str
    """The name of the existing ruleset; that of `ruleset` if none was found."""
    api_url: str
    """Base URL of GitHub's REST API, without a slash at the end."""

    @property
    def path(self) -> str:
        """Path of the place's rulesets below the API's address, percent-encoded."""
        if self.level == "organization":
            return f"orgs/{quote(self.owner, safe='')}/rulesets"
        return f"repos/{quote(self.owner, safe='')}/{quote(self.repository, safe='')}/rulesets"

    @property
    def listing(self) -> str:
        """Path and query of the list of the place's own rulesets; a place can have 75 of them."""
        own = "includes_parents=false&" if self.level == "repository" else ""
        return f"{self.path}?{own}per_page=100"

    @property
    def title(self) -> str:
        """The place as people say it."""
        if self.level == "organization":
            return f"the organisation {self.owner}"
        return f"{self.owner}/{self.repository}"

    @property
    def missing(self) -> str:
        """What a command says when the place has no ruleset of that name; safe between double quotes of a shell."""
        if self.level == "organization":
            return "the organisation has no such ruleset, see whether the repository has"
        return "the repository has no such ruleset, see whether its organisation has"

    @property
    def host(self) -> str | None:
        """GitHub's host name as `gh` expects it; None for github.com."""
        address = urlsplit(self.api_url)
        name = address.netloc.removeprefix("api.") if not address.path else address.netloc
        return None if name == "github.com" else name

    @property
    def found_by_name(self) -> bool:
        """Whether `gh` finds the API by the name of its host: it takes no port, no plain HTTP, and no other path."""
        address = urlsplit(self.api_url)
        usual = address.netloc.startswith("api.") if not address.path else address.path == "/api/v3"
        return address.scheme == "https" and ":" not in address.netloc and usual


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to be pasted: `tool` takes it as it stands, in `language`."""

    tool: Tool
    level: Level
    purpose: Purpose
    language: Literal["shell", "hcl", "json"]
    title: str
    content: str


def title(place: PlacedRuleset, purpose: Purpose, means: str) -> str:
    """Return a snippet's title: what it does, where, and what it needs."""
    titles = {
        "enable": f"Require the check in {place.title}",
        "disable": f"Break glass: stop requiring the check in {place.title}",
        "restore": f"After a break glass: require the check in {place.title} again",
    }
    return f"{titles[purpose]}, {means}"
