"""What the control plane can set; written in JSON with camelCase names."""

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(slots=True)
class Settings:
    """Latency, webhooks and limits. Everything that hinders is off by default."""

    latency_ms: float = 0.0
    webhook_url: str | None = None
    webhook_secret: str | None = None
    webhook_events: list[str] | None = None  # only these events; None = all that installations subscribe to
    primary_limits: bool = False
    rest_points_per_hour: int | None = None  # None = GitHub's formula for the installation
    graphql_points_per_hour: int | None = None
    secondary_limits: bool = False
    endpoint_points_per_minute: int = 900
    graphql_points_per_minute: int = 2000
    concurrent_requests: int = 100
    content_limits: bool = False
    content_per_minute: int = 80
    content_per_hour: int = 500
    content_counts_aliases: bool = False  # whether each alias of a mutation counts, or the request once
    limit_status: int = 403  # 403 or 429
    retry_after_seconds: int = 60
    authorizing_person: str | None = None  # who authorises an OAuth client or installs; None = the maintainer
    setup_url: str | None = None  # where a person is sent who has installed the App

    def as_json(self) -> dict[str, Any]:
        """Return all settings with camelCase names."""
        return {camel(name): value for name, value in asdict(self).items()}

    def update(self, given: dict[str, Any]) -> None:
        """Take over what is given; raise ValueError for an unknown name."""
        known = {camel(each.name): each.name for each in fields(self)}
        for name, value in given.items():
            if name not in known:
                raise ValueError(f"unknown setting {name}")
            setattr(self, known[name], value)


def camel(name: str) -> str:
    """`webhook_url` → `webhookUrl`."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
