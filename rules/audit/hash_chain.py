"""The chain of the audit: what the hash of a seal is made of.

hash = SHA-256(hash of the seal before ‖ the entry as canonical JSON); before the first come 32 zero bytes. Canonical:
the entry's properties as the API shows them, `at` with microseconds, keys sorted by code point, no white space, UTF-8.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

NOTHING_BEFORE = bytes(32)
"""What the first seal of an organisation follows."""


def canonical(entry: Mapping[str, Any]) -> bytes:
    """Return the bytes that stand for an entry, given as the columns of `audit_entries`; ids as text, `at` aware."""
    at: datetime = entry["at"]
    shown = {
        "id": entry["id"],
        "organizationId": entry["organization_id"],
        "at": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "action": entry["action"],
        "actor": entry["actor"],
        "source": entry["source"],
        "target": entry["target"],
        "requestId": entry["request_id"],
        "details": entry["details"],
    }
    return json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def seal_hash(previous: bytes, entry: Mapping[str, Any]) -> bytes:
    """Return the hash of the seal of an entry that follows the seal with the hash `previous` (32 bytes)."""
    return sha256(previous + canonical(entry)).digest()
