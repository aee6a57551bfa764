"""Plain HTTP to the service and to GitHub, as their users would speak it."""

from collections.abc import Iterator
from typing import Any

import requests

TIMEOUT = 30.0


class Refused(Exception):  # noqa: N818 - an answer, not a fault of the program
    """An answer outside 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Client:
    """JSON requests with one credential to one origin."""

    def __init__(self, base_url: str, token: str | None = None) -> None:
        self.base_url = base_url
        self.session = requests.Session()
        self.session.trust_env = False  # no proxy, no .netrc: both origins are on this machine
        if token is not None:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the decoded answer; raise Refused, or requests' own error when there is no response."""
        answer = self.session.request(method, self.base_url + path, json=body, timeout=TIMEOUT)
        if not answer.ok:
            raise Refused(answer.status_code, message_of(answer))
        return answer.json() if answer.content else None

    def pages(self, path: str) -> Iterator[Any]:
        """Return every item of one of the service's lists."""
        cursor, mark = "", "&" if "?" in path else "?"
        while cursor is not None:
            page = self.call("GET", f"{path}{mark}limit=100" + (f"&cursor={cursor}" if cursor else ""))
            yield from page["data"]
            cursor = page["nextCursor"]

    def answers(self, path: str) -> bool:
        """Return whether `path` answers with 2xx."""
        try:
            return self.session.get(self.base_url + path, timeout=2).ok
        except requests.RequestException:
            return False


def message_of(answer: requests.Response) -> str:
    """Return what an error answer says, in one line: the service and GitHub wrap it differently."""
    try:
        body = answer.json()
        error = body.get("error")
        message = str(error["message"] if isinstance(error, dict) else body["message"])
        return ": ".join(line for line in message.splitlines() if line)
    except (ValueError, KeyError, AttributeError):
        return answer.text
