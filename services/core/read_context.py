"""What an asynchronous handler is given instead of a unit: reads only, on the event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString, Protocol

from rules.access.permissions import Principal

Probe = Callable[[], Awaitable[object]]
Parameters = Mapping[str, Any] | tuple[Any, ...]


class Reader(Protocol):
    """Runs single queries without leaving the event loop."""

    async def fetch(
        self, sql: LiteralString, parameters: Parameters = (), organization_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of one query that `organization_id` may see; None is for functions that look beyond it."""


class Download(Protocol):
    """A connection of its own, and one transaction that only reads one state of the database, for a long answer."""

    async def fetch(self, sql: LiteralString, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Return the rows of a short query."""

    def copy(self, statement: LiteralString, parameters: Parameters = ()) -> AsyncIterator[bytes]:
        """Run a `COPY … TO STDOUT` and return what it says, a row at a time, each with its line feed."""

    async def close(self) -> None:
        """Give the connection back, in the middle of a statement too."""


class Downloads(Protocol):
    """Opens downloads, a few at a time: they take no connection of anybody else's."""

    async def open(self, organization_id: str) -> Download:
        """Open one that sees the organisation's rows alone.

        Raises `rate_limited` when the organisation has too many running, and `database_unavailable` when all have.
        """


@dataclass(slots=True)
class ReadContext:
    """One request's reads, bound to its organisation by row-level security."""

    reader: Reader
    downloads: Downloads
    principal: Principal | None
    now: datetime
    headers: Mapping[str, str]
    """The request's headers, by lower-case name."""
    probes: Mapping[str, Probe] = field(default_factory=dict)
    """Checks of what the service leans on, by name; each raises when it is away."""

    @property
    def organization(self) -> str:
        """The organisation's id; operations that need none never ask."""
        if self.principal is None or self.principal.organization_id is None:
            raise RuntimeError("this request belongs to no organisation")
        return self.principal.organization_id

    @property
    def plan(self) -> str:
        """The organisation's plan."""
        return self.principal.plan if self.principal else "free"

    async def fetch(self, sql: LiteralString, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Run one query and return its rows as dictionaries."""
        organization_id = self.principal.organization_id if self.principal else None
        return await self.reader.fetch(sql, parameters, organization_id or "")
