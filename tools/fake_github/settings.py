"""What the control plane can set; written in JSON with camelCase names."""

from dataclasses import dataclass, field

from tools.simulation import settings


@dataclass(slots=True)
class Settings(settings.Settings):
    """Latency, webhooks and limits. Everything that hinders is off by default."""

    latency_ms: float = 0.0
    webhook_url: str | None = None
    webhook_secret: str | None = None
    webhook_events: list[str] | None = None  # only these events; None = all that installations subscribe to
    filters_deliveries: bool = True  # the log of deliveries knows the parameter `status`; older servers ignore it
    primary_limits: bool = False
    rest_points_per_hour: int | None = None  # None = GitHub's formula for the installation
    graphql_points_per_hour: int | None = None
    secondary_limits: bool = False
    endpoint_points_per_minute: int = 900
    graphql_points_per_minute: int = 2000
    concurrent_requests: int = 100
    ruleset_delay_seconds: float = 0.0  # after which a changed ruleset is enforced; at most 60
    ruleset_delays: dict[str, float] = field(default_factory=dict)  # the same by repository, `owner/name` in lower case
    content_limits: bool = False
    content_per_minute: int = 80
    content_per_hour: int = 500
    content_counts_aliases: bool = False  # whether each alias of a mutation counts, or the request once
    limit_status: int = 403  # 403 or 429
    retry_after_seconds: int = 60
    authorizing_person: str | None = None  # who authorises an OAuth client or installs; None = the maintainer
    setup_url: str | None = None  # where a person is sent who has installed the App
