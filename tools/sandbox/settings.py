"""What the environment says about the sandbox."""

import os
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HOST = "127.0.0.1"
ENVIRONMENT = "service.env"


class SandboxError(Exception):
    """The sandbox cannot go on; the message is for the person who started it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Ports, places and the sandbox's few switches."""

    directory: Path
    port: int
    fake_github_port: int
    fake_stripe_port: int
    fake_slack_port: int
    mailbox_port: int
    smtp_port: int
    demonstrate: bool
    session_ttl_seconds: int

    @property
    def base_url(self) -> str:
        """Where the API answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def github_url(self) -> str:
        """Where the simulated GitHub answers."""
        return f"http://{HOST}:{self.fake_github_port}"

    @property
    def stripe_url(self) -> str:
        """Where the simulated Stripe answers."""
        return f"http://{HOST}:{self.fake_stripe_port}"

    @property
    def slack_url(self) -> str:
        """Where the simulated Slack answers."""
        return f"http://{HOST}:{self.fake_slack_port}"

    @property
    def mailbox_url(self) -> str:
        """Where the mails that were sent are shown."""
        return f"http://{HOST}:{self.mailbox_port}"


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the environment; raise SandboxError."""
    return Settings(
        directory=Path(environment.get("SANDBOX_DIR") or ROOT / ".sandbox").absolute(),
        port=any_port(number("PORT", environment.get("PORT") or "8080", 65535)),
        fake_github_port=any_port(number("FAKE_GITHUB_PORT", environment.get("FAKE_GITHUB_PORT") or "9000", 65535)),
        fake_stripe_port=any_port(number("FAKE_STRIPE_PORT", environment.get("FAKE_STRIPE_PORT") or "9001", 65535)),
        fake_slack_port=any_port(number("FAKE_SLACK_PORT", environment.get("FAKE_SLACK_PORT") or "9002", 65535)),
        mailbox_port=any_port(number("MAILBOX_PORT", environment.get("MAILBOX_PORT") or "8025", 65535)),
        smtp_port=any_port(0),
        demonstrate=environment.get("DEMO", "1") != "0",
        session_ttl_seconds=number("SESSION_JWT_TTL", environment.get("SESSION_JWT_TTL") or "43200", 86400),
    )


def number(variable: str, text: str, most: int) -> int:
    """Read a whole number."""
    if not text.isascii() or not text.isdecimal() or int(text) > most:
        raise SandboxError(f"{variable} must be a whole number up to {most}, not {text!r}.")
    return int(text)


def any_port(port: int) -> int:
    """Return the port, or for 0 an unused one."""
    if port:
        return port
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def claim_ports(settings: Settings) -> None:
    """Raise SandboxError if another process listens on one of our ports."""
    ports = {
        "PORT": settings.port,
        "FAKE_GITHUB_PORT": settings.fake_github_port,
        "FAKE_STRIPE_PORT": settings.fake_stripe_port,
        "FAKE_SLACK_PORT": settings.fake_slack_port,
        "MAILBOX_PORT": settings.mailbox_port,
    }
    if len(set(ports.values())) < len(ports):
        raise SandboxError("PORT, FAKE_GITHUB_PORT, FAKE_STRIPE_PORT, FAKE_SLACK_PORT and MAILBOX_PORT must differ.")
    for variable, port in ports.items():
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                message = f"Port {port} cannot be used: {error.strerror}. Set another, {variable}=…"
                raise SandboxError(message) from error
