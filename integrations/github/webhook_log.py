"""GitHub's log of the App's webhooks, read with the App's own token.

https://docs.github.com/en/rest/apps/webhooks#list-deliveries-for-an-app-webhook
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from integrations.github.budget import Allowance, RateLimitTracker
from integrations.github.events import content_of
from integrations.github.responses import next_page, parsing, read_list, read_object
from integrations.github.tokens import AppCalls
from integrations.github.transport import Response
from integrations.github.values import parse_instant
from rules.webhook_log import LogEntry

PAGE_SIZE = 100
"""The most that GitHub gives."""
_PATH = "/app/hook/deliveries"


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries of the log, newest first, and where the next page begins; None on the last one."""

    entries: list[LogEntry]
    next_cursor: str | None


class DeliveryLog:
    """The log. Every method may raise `GitHubError`; one call each."""

    def __init__(self, calls: AppCalls, limits: RateLimitTracker) -> None:
        self._calls = calls
        self._limits = limits

    @property
    def allowance(self) -> Allowance:
        """The hourly limit of the App's own token, as of the last call."""
        return self._limits.budget().rest

    def page(self, cursor: str | None = None, *, failures: bool = False) -> LogPage:
        """Return a page from a cursor on, or the newest one; `failures` leaves out others, if GitHub can do that."""
        query = {"per_page": str(PAGE_SIZE)}
        if failures:
            query["status"] = "failure"
        if cursor is not None:
            query["cursor"] = cursor
        response = self._calls.send("GET", f"{_PATH}?{urlencode(query)}")
        self._limits.observe(response.headers)
        listed = read_list(response)
        with parsing():
            return LogPage([_entry(each) for each in listed], _cursor_of(response))

    def payload(self, entry_id: int) -> dict[str, Any] | None:
        """Return the payload of a delivery; None if it is no JSON object."""
        response = self._calls.send("GET", f"{_PATH}/{entry_id}")
        self._limits.observe(response.headers)
        request = read_object(response).get("request")
        payload = request.get("payload") if isinstance(request, Mapping) else None
        return payload if isinstance(payload, dict) else None


def _entry(listed: Mapping[str, Any]) -> LogEntry:
    delivered_at = parse_instant(listed["delivered_at"])
    if delivered_at is None or delivered_at.tzinfo is None:
        raise ValueError("a delivery without a time")
    event, action = str(listed["event"]), listed.get("action")
    return LogEntry(
        id=int(listed["id"]),
        guid=str(listed["guid"]),
        delivered_at=delivered_at,
        failed=not 200 <= int(listed["status_code"]) < 400,
        event=event,
        content=content_of(event, action if isinstance(action, str) else None),
        installation_id=_number(listed.get("installation_id")),
        repository_id=_number(listed.get("repository_id")),
    )


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _cursor_of(response: Response) -> str | None:
    """Return where the next page begins."""
    following = parse_qs(urlsplit(next_page(response) or "").query)
    return following["cursor"][0] if "cursor" in following else None
