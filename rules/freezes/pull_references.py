"""References to a pull request: its address, `owner/repo#7`, `#7`, or a bare number; and the address of its page."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlencode, urlsplit

from rules.web_addresses import PULL_REQUEST

MAX_NUMBER = 2**31 - 1
"""No pull request has a higher number; GitHub's are 32-bit."""

MAX_LISTED = 10
"""Pull requests that one address names."""

_NUMBER = r"(?P<number>[0-9]{1,10})"
_OWNER_AND_NAME = r"(?P<repository>[A-Za-z0-9._-]+/[A-Za-z0-9._-]+)"
_BARE = re.compile(rf"#?{_NUMBER}")
_SHORT = re.compile(rf"{_OWNER_AND_NAME}#{_NUMBER}")
_PATH = re.compile(rf"/(?:[^/]+/)*?{_OWNER_AND_NAME}/pulls?/{_NUMBER}(?:/.*)?")


def page_of_pulls(web_url: str, repository_id: str, numbers: Sequence[int]) -> str:
    """Return the address of the page about pull requests of a repository, or about its blocked ones if none is given.

    It has the id of the repository, so that it is the same after the repository was renamed.
    """
    query = [("repo", repository_id), *(("ref", str(number)) for number in numbers[:MAX_LISTED])]
    return f"{web_url}{PULL_REQUEST}?{urlencode(query)}"


@dataclass(frozen=True, slots=True)
class PullReference:
    """A repository (`owner/name`, None if it was not given) and a number in it."""

    repository: str | None
    number: int


def read_reference(text: str, origins: Iterable[str]) -> PullReference | None:
    """Return the reference that the text is, or None if it has none of the forms.

    An address must have the host of one of GitHub's `origins`, and `…/owner/repo/pull/7` with anything after it.
    """
    match = _BARE.fullmatch(text) or _SHORT.fullmatch(text) or _in_address(text, origins)
    if match is None or not 0 < int(match["number"]) <= MAX_NUMBER:
        return None
    return PullReference(match.groupdict().get("repository"), int(match["number"]))


def _in_address(text: str, origins: Iterable[str]) -> re.Match[str] | None:
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    hosts = {urlsplit(origin).netloc.lower() for origin in origins}
    if parts.scheme not in {"http", "https"} or parts.netloc.lower() not in hosts:
        return None
    return _PATH.fullmatch(unquote(parts.path))
