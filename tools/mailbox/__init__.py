"""A mail server that sends nothing on: it keeps what it is given, and shows it.

`python -m tools.mailbox --smtp-port 1025 --port 8025` runs one; tests make a `Mailbox` and `serve` it.
"""

from tools.mailbox.letters import Mailbox, ReceivedLetter
from tools.mailbox.server import Handle, serve

__all__ = ["Handle", "Mailbox", "ReceivedLetter", "serve"]
