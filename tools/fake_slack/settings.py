"""What the control plane can set; written in JSON with camelCase names."""

from dataclasses import dataclass

from tools.simulation import settings

CLIENT_ID = "1000000000.2000000000"
CLIENT_SECRET = "a client secret of the simulated Slack"  # noqa: S105 - of a simulation
SIGNING_SECRET = "a signing secret of the simulated Slack"  # noqa: S105 - of a simulation


@dataclass(slots=True)
class Settings(settings.Settings):
    """The app as its manifest describes it, and the limits that are kept."""

    client_id: str = CLIENT_ID
    client_secret: str = CLIENT_SECRET
    signing_secret: str = SIGNING_SECRET
    command: str = "/freeze"
    request_url: str | None = None  # where events, commands and interactions are sent
    redirect_url: str | None = None  # the only one that is accepted; None = any
    latency_ms: float = 0.0
    seconds_per_message: float = 1.0  # in a channel; 0 = no limit
    token_rotation: bool = False
    granted_scopes: list[str] | None = None  # instead of those that are requested
    request_timeout: float = 3.0  # seconds that Slack waits for an answer
