"""The context of an asynchronous handler: like a unit of work, but read-only and on the event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString, Protocol

from rules.access.permissions import Principal
from rules.billing.plans import Plan

HealthCheck = Callable[[], Awaitable[object]]
Parameters = Mapping[str, Any] | tuple[Any, ...]


class Reader(Protocol):
    """Runs single queries on the event loop."""

    async def fetch(
        self, sql: LiteralString, parameters: Parameters = (), organization_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows that `organization_id` may see; None is for functions that check access themselves."""


class Download(Protocol):
    """A dedicated connection with one read-only transaction, for a streamed response."""

    async def fetch(self, sql: LiteralString, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Return the rows of a short query."""

    def copy(self, statement: LiteralString, parameters: Parameters = ()) -> AsyncIterator[bytes]:
        """Run a `COPY … TO STDOUT` and yield its rows, each with its line feed."""

    async def close(self) -> None:
        """Close the connection, also while a statement runs."""


class Downloads(Protocol):
    """Opens downloads, a limited number at a time; they use no connection of the pool."""

    async def open(self, organization_id: str) -> Download:
        """Open a download that sees only the organisation's rows.

        Raise `rate_limited` if the organisation has too many running, `busy` if the process has.
        """


@dataclass(slots=True)
class ReadContext:
    """The read access of one request, restricted to its organisation by row-level security."""

    reader: Reader
    downloads: Downloads
    principal: Principal | None
    now: datetime
    headers: Mapping[str, str]
    """The request's headers, by lower-case name."""
    health_checks: Mapping[str, HealthCheck] = field(default_factory=dict)
    """By the name of the service that we depend on; each raises if its service is unavailable."""
    cursor_secrets: tuple[bytes, ...] = (b"",)
    """The secrets under which cursors are accepted; the first one signs."""
    receive_slack: Callable[[bytes], Awaitable[object]] | None = None
    """Verifies and answers a request of Slack with this body."""

    render_metrics: Callable[[], bytes] = bytes
    """Returns the metrics of all processes of this API."""

    @property
    def organization(self) -> str:
        """The organisation's id; raises if the operation has no organisation."""
        if self.principal is None or self.principal.organization_id is None:
            raise RuntimeError("request without an organisation")
        return self.principal.organization_id

    @property
    def plan(self) -> Plan:
        """The organisation's plan in force."""
        if self.principal is None:
            raise RuntimeError("request without an organisation")
        return self.principal.grants.at(self.now).plan

    async def fetch(self, sql: LiteralString, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Run one query and return its rows as dictionaries."""
        organization_id = self.principal.organization_id if self.principal else None
        return await self.reader.fetch(sql, parameters, organization_id or "")
