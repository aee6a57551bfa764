"""The hash chain of the audit log: how the hash of a seal is computed.

hash = SHA-256(hash of the previous seal ‖ the entry as canonical JSON); 32 zero bytes precede the first seal. Canonical
JSON: the entry's properties as in the API, `at` with microseconds, keys sorted by code point, no white space, UTF-8.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

GENESIS = bytes(32)
"""The hash that precedes the first seal of an organisation."""


def canonical(entry: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of an entry, given as the columns of `audit_entries`; ids are text, `at` is aware."""
    at: datetime = entry["at"]
    properties = {
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
    return canonical_json(properties)


def canonical_json(properties: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of an entry, given as JSON."""
    return json.dumps(properties, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def seal_hash(previous: bytes, entry: Mapping[str, Any]) -> bytes:
    """Return the hash of an entry's seal, which follows the seal with hash `previous` (32 bytes)."""
    return next_hash(previous, canonical(entry))


def next_hash(previous: bytes, canonical_entry: bytes) -> bytes:
    """Return the hash of the seal of an entry, given as its canonical bytes."""
    return sha256(previous + canonical_entry).digest()
