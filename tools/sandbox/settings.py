"""What the environment says about the sandbox."""

import os
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tools.embedded.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
HOST = "127.0.0.1"
MAX_PORT = 65535
ENVIRONMENT = "service.env"
REPORT = "sandbox.json"
"""The file with the configuration of the service, for a shell."""


class SandboxError(Exception):
    """The sandbox cannot go on; the message is for the person who started it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Directory, ports and options of the sandbox."""

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
    """Return what the environment says. Raise SandboxError if a value is not valid."""
    return Settings(
        directory=Path(environment.get("SANDBOX_DIR") or ROOT / ".sandbox").absolute(),
        port=read_port(environment, "PORT", "8080"),
        fake_github_port=read_port(environment, "FAKE_GITHUB_PORT", "9000"),
        fake_stripe_port=read_port(environment, "FAKE_STRIPE_PORT", "9001"),
        fake_slack_port=read_port(environment, "FAKE_SLACK_PORT", "9002"),
        mailbox_port=read_port(environment, "MAILBOX_PORT", "8025"),
        smtp_port=free_port(),
        demonstrate=environment.get("DEMO", "1") != "0",
        session_ttl_seconds=read_number("SESSION_JWT_TTL", environment.get("SESSION_JWT_TTL") or "43200", 86400),
    )


def read_port(environment: Mapping[str, str], variable: str, default: str) -> int:
    """Return the port that a variable names; for 0, an unused one."""
    return read_number(variable, environment.get(variable) or default, MAX_PORT) or free_port()


def read_number(variable: str, text: str, maximum: int) -> int:
    """Return the whole number that a variable has. Raise SandboxError if it is none, or too large."""
    if not text.isascii() or not text.isdecimal() or int(text) > maximum:
        raise SandboxError(f"{variable} must be a whole number up to {maximum}, not {text!r}.")
    return int(text)


def reserve_ports(settings: Settings) -> list[socket.socket]:
    """Return sockets that keep our ports from other sandboxes while they are open.

    Raise SandboxError if another sandbox has reserved one of the ports, or another process listens on it.

    Our processes listen seconds after their ports were found free. Another sandbox that starts meanwhile would find
    them free, too, and send its keys to our API. So a sandbox first takes a name for each port, an abstract Unix
    socket: the kernel gives it to one process, and takes it back at its end.
    """
    ports = {
        "PORT": settings.port,
        "FAKE_GITHUB_PORT": settings.fake_github_port,
        "FAKE_STRIPE_PORT": settings.fake_stripe_port,
        "FAKE_SLACK_PORT": settings.fake_slack_port,
        "MAILBOX_PORT": settings.mailbox_port,
    }
    if len(set(ports.values())) < len(ports):
        raise SandboxError("PORT, FAKE_GITHUB_PORT, FAKE_STRIPE_PORT, FAKE_SLACK_PORT and MAILBOX_PORT must differ.")
    reservations: list[socket.socket] = []
    for variable, port in ports.items():
        reservations.append(socket.socket(socket.AF_UNIX))
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                reservations[-1].bind(f"\0change-freeze-sandbox:{port}")
                probe.bind((HOST, port))
            except OSError as error:
                for reservation in reservations:
                    reservation.close()
                message = f"Port {port} cannot be used: {error.strerror}. Set another, {variable}=…"
                raise SandboxError(message) from error
    return reservations
