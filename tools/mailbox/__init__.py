"""A mail server that delivers nothing: it keeps the mails it receives, and shows them.

`python -m tools.mailbox --smtp-port 1025 --port 8025` runs one; tests make a `Mailbox` and `serve` it.
"""

from tools.mailbox.mails import Mailbox, ReceivedMail
from tools.mailbox.server import Handle, serve

__all__ = ["Handle", "Mailbox", "ReceivedMail", "serve"]
