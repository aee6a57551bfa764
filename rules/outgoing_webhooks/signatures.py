"""Signatures of webhooks, by the specification Standard Webhooks: HMAC-SHA256 of id, timestamp and body."""

import base64
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
_BYTES = 32


def new_secret() -> str:
    """Return a new secret: the prefix and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def signed_headers(secrets_in_force: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message; `timestamp` is that of this attempt, in seconds since 1970.

    During a rotation there is a signature by each secret, separated by spaces.
    """
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(secret, signed) for secret in secrets_in_force),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
