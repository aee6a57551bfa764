"""The page that a notification links to, and what its link says."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from rules import web_addresses


@dataclass(frozen=True, slots=True)
class LinkedPage:
    """A page that a notification links to."""

    path: str
    action: str
    """What following the link does, as a button says it."""


_OVERVIEW = LinkedPage(web_addresses.HOME, "Open the overview")
_OF_ONE = {
    "freeze": LinkedPage(web_addresses.FREEZE, "Open the freeze"),
    "branch": LinkedPage(web_addresses.BRANCH, "Open the branch"),
    "schedule": LinkedPage(web_addresses.SCHEDULE, "Open the schedule"),
}
_OF_SEVERAL = {
    "freeze": LinkedPage(web_addresses.FREEZES, "Open the freezes"),
    "branch": LinkedPage(web_addresses.BRANCHES, "Open the branches"),
    "schedule": LinkedPage(web_addresses.CALENDAR, "Open the calendar"),
    "exception": LinkedPage(web_addresses.EXCEPTIONS, "Open the exceptions"),
}


def page_of(action: str, target: Mapping[str, Any]) -> LinkedPage:
    """Return the page on the object of an audit entry, `{"type": …, "id": …, "name": …}`.

    A request for an exception has the list in which it is decided, another exception the page of its pull request.
    """
    if action == "exception.requested":
        return LinkedPage(f"{web_addresses.EXCEPTIONS}#{target['id']}", "Decide on the request")
    if target["type"] == "exception":
        address = f"{web_addresses.PULL_REQUEST}?{urlencode({'ref': target['name']})}#exceptions"
        return LinkedPage(address, "Open the pull request's exception")
    found = _OF_ONE.get(target["type"], _OVERVIEW)
    return LinkedPage(found.path.format(id=target["id"]), found.action)


def in_organization(path: str, organization_id: str) -> str:
    """Return the address of a page that is about an organisation, whichever the reader acts in when they open it."""
    address, mark, place = path.partition("#")
    named = urlencode({web_addresses.ORGANIZATION: organization_id})
    return f"{address}{'&' if '?' in address else '?'}{named}{mark}{place}"


def page_of_several(types: Collection[str]) -> LinkedPage:
    """Return the page that lists the objects of several notifications, by their types."""
    [only, *others] = set(types)
    return _OVERVIEW if others else _OF_SEVERAL.get(only, _OVERVIEW)
