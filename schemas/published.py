"""The contract as it is published: prepared once, sent as bytes."""

import hashlib
from dataclasses import dataclass
from functools import cache

import orjson

from schemas.contract import load_contract


@dataclass(frozen=True, slots=True)
class Published:
    """The document with its references, in both notations, and the tag of this version."""

    json: bytes
    yaml: bytes
    tag: str


@cache
def published() -> Published:
    """Return the product's contract as it is written, references included."""
    contract = load_contract()
    tag = hashlib.sha256(contract.source).hexdigest()[:32]
    return Published(orjson.dumps(contract.document), contract.source, f'"{tag}"')
