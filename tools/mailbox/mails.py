"""What a mailbox holds, and how its server behaves."""

import re
from collections import defaultdict, deque
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from threading import Condition
from typing import Any

_LINK = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class ReceivedMail:
    """A mail as a mail program would show it."""

    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    html: str
    headers: dict[str, str]
    received_at: str

    @property
    def links(self) -> list[str]:
        """Return the addresses in its text."""
        return _LINK.findall(self.text)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**asdict(self), "links": self.links}


@dataclass(slots=True)
class Mailbox:
    """Every mail received, the oldest first."""

    mails: list[ReceivedMail] = field(default_factory=list)
    replies: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    """The next replies to a command (`SENT`: to the mail itself), instead of the right ones; "" ends the connection."""
    password: tuple[str, str] | None = None
    """Who may send: name and password; None: everybody."""
    commands: list[str] = field(default_factory=list)
    """The commands received, in order, with `TLS` where it began."""
    silent_after: str = ""
    """The command that gets no reply."""
    _changed: Condition = field(default_factory=Condition)

    def receive(self, sender: str, recipients: tuple[str, ...], content: bytes) -> None:
        """Store a mail."""
        message = message_from_bytes(content, policy=policy.default)
        mail = ReceivedMail(
            sender,
            recipients,
            str(message["Subject"] or ""),
            _body(message, "plain"),
            _body(message, "html"),
            {name: str(value) for name, value in message.items()},
            datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        with self._changed:
            self.mails.append(mail)
            self._changed.notify_all()

    def to(self, address: str) -> list[ReceivedMail]:
        """Return the mails to one address."""
        return [mail for mail in list(self.mails) if address in mail.recipients]

    def wait_for(self, address: str, count: int = 1, *, timeout: float = 10.0) -> list[ReceivedMail]:
        """Return the mails to an address once there are `count` of them. Raise TimeoutError if there are fewer."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.to(address)) >= count, timeout):
                raise TimeoutError(f"{address} has {len(self.to(address))} mails, not {count}")
        return self.to(address)


def _body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    return str(part.get_content()).replace("\r\n", "\n") if part is not None else ""
