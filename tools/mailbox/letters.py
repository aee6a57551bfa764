"""What a mailbox holds, and how it was told to behave."""

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
class ReceivedLetter:
    """A letter as a mail program would show it."""

    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    html: str
    headers: dict[str, str]
    received_at: str

    @property
    def links(self) -> list[str]:
        """The addresses in its text."""
        return _LINK.findall(self.text)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**asdict(self), "links": self.links}


@dataclass(slots=True)
class Mailbox:
    """Every letter that came, the oldest first."""

    letters: list[ReceivedLetter] = field(default_factory=list)
    replies: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    """Command in capitals → what it is answered next, instead of what is right; empty: the connection ends."""
    password: tuple[str, str] | None = None
    """Who may send: name and password; None: everybody."""
    commands: list[str] = field(default_factory=list)
    """The commands that came, in order, `TLS` where it began."""
    silent_after: str = ""
    """The command that is answered by nothing at all."""
    _changed: Condition = field(default_factory=Condition)

    def be_silent(self, command: str) -> bool:
        """Wait for `hang_up` if that command is not to be answered; tells whether it was so."""
        with self._changed:
            silent = command == self.silent_after
            self._changed.wait_for(lambda: not silent or self.silent_after != command)
        return silent

    def take(self, sender: str, recipients: tuple[str, ...], content: bytes) -> None:
        """Keep a letter."""
        message = message_from_bytes(content, policy=policy.default)
        letter = ReceivedLetter(
            sender,
            recipients,
            str(message["Subject"] or ""),
            _body(message, "plain"),
            _body(message, "html"),
            {name: str(value) for name, value in message.items()},
            datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        with self._changed:
            self.letters.append(letter)
            self._changed.notify_all()

    def hang_up(self) -> None:
        """End the conversations that wait in silence."""
        with self._changed:
            self.silent_after = ""
            self._changed.notify_all()

    def to(self, address: str) -> list[ReceivedLetter]:
        """Return the letters to one address."""
        return [letter for letter in list(self.letters) if address in letter.recipients]

    def wait_for(self, address: str, count: int = 1, *, patience: float = 10.0) -> list[ReceivedLetter]:
        """Return the letters to an address once there are so many; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.to(address)) >= count, patience):
                raise TimeoutError(f"{address} has {len(self.to(address))} letters, not {count}")
        return self.to(address)


def _body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    return str(part.get_content()).replace("\r\n", "\n") if part is not None else ""
