"""Search: pull requests and repositories, by qualifiers and by words of their title or name."""

import re
from collections.abc import Callable
from typing import Any

from tools.fake_github.graph.queries import Args
from tools.fake_github.graph.resolvers import Context, resolver
from tools.fake_github.graph.values import connect, show_connection
from tools.fake_github.model.records import PullRequest, Repository

Found = PullRequest | Repository
TERM = re.compile(r'(?:[^\s"]|"[^"]*")+')
COUNTS = dict.fromkeys(("codeCount", "discussionCount", "issueCount", "repositoryCount", "userCount", "wikiCount"), 0)
COUNT_OF_TYPE = {"ISSUE": "issueCount", "REPOSITORY": "repositoryCount"}


def _is(_context: Context, found: Found, value: str) -> bool:
    if isinstance(found, Repository):
        return {"public": not found.private, "private": found.private, "archived": found.archived}.get(value, False)
    states = {"open": found.state == "open", "closed": found.state == "closed", "merged": found.merged_at is not None}
    return {"pr": True, "draft": found.draft, **states}.get(value, False)


def _by(context: Context, found: Found, value: str) -> bool:
    login = context.caller.account.login if value == "@me" else value
    account = context.world.logins.get(login.lower())
    return isinstance(found, PullRequest) and account is not None and found.author_id == account.id


def _in_account(context: Context, found: Found, value: str) -> bool:
    login = context.caller.account.login if value == "@me" else value
    return context.world.owner(_place(context, found)).login.lower() == login.lower()


def _on(attribute: str) -> Callable[[Context, Found, str], bool]:
    return lambda _context, found, value: getattr(found, attribute, None) == value


QUALIFIERS: dict[str, Callable[[Context, Found, str], bool]] = {
    "archived": lambda context, found, value: str(_place(context, found).archived).lower() == value,
    "author": _by,
    "base": _on("base_ref"),
    "draft": lambda _context, found, value: isinstance(found, PullRequest) and str(found.draft).lower() == value,
    "fork": lambda _context, _found, value: value in {"true", "false"},  # there are no forks to add or to leave out
    "head": _on("head_ref"),
    "is": _is,
    "org": _in_account,
    "repo": lambda context, found, value: context.world.full_name(_place(context, found)).lower() == value.lower(),
    "sort": lambda _context, _found, _value: True,
    "state": _is,
    "type": _is,
    "user": _in_account,
}


def _place(context: Context, found: Found) -> Repository:
    return found if isinstance(found, Repository) else context.world.repositories[found.repository_id]


def _matches(context: Context, found: Found, term: str) -> bool:
    """True if a term matches; a qualifier that is not simulated, such as `review-requested`, matches nothing."""
    name, colon, value = term.partition(":")
    if colon:
        qualifier = QUALIFIERS.get(name)
        return qualifier is not None and qualifier(context, found, value)
    shown = found.name if isinstance(found, Repository) else found.title
    return term.lower() in shown.lower()


@resolver("Query", "search")
def _search(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    """Find what all terms match, the newest first."""
    seen = [each for each in context.world.repositories.values() if context.caller.sees(each)]
    candidates: list[Found] = []
    if args["type"] == "REPOSITORY":
        candidates.extend(seen)
    elif args["type"] == "ISSUE":
        candidates.extend(pull for repository in seen for pull in repository.pulls.values())
    terms = [term.replace('"', "") for term in TERM.findall(args["query"])]
    found = [each for each in candidates if all(_matches(context, each, term) for term in terms)]
    page = connect("search", sorted(found, key=lambda each: -each.id), args, lambda each: each.id)
    return {"page": page, **COUNTS, COUNT_OF_TYPE.get(args["type"], ""): page.total}


show_connection("SearchResultItem", lambda value: value["page"])
