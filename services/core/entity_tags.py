"""Entity tags of objects that clients change: `ETag` and `If-Match` of RFC 9110, 8.8.3 and 13.1.1.

A tag is strong: it changes whenever anything changes that the object shows. `If-Match` is compared under the lock with
which the object is then changed.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import orjson

from rules import base64url
from rules.errors import ServiceError

_TAG = re.compile(r'(?:W/)?"[^"]*"')


def tag_of(content: bytes) -> str:
    """Return the strong entity tag of bytes."""
    return f'"{base64url.encode(hashlib.blake2b(content, digest_size=16).digest())}"'


def entity_tag(shown: Any) -> str:
    """Return the entity tag of an object as handlers return it."""
    return tag_of(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS))


def require_match(if_match: str | None, show: Callable[[], Any]) -> None:
    """Raise `precondition_failed` if a valid header `If-Match` does not list the tag of an object; None: no header.

    `show` returns the object, which is locked, as handlers return it. `*` matches every object that exists. Tags are
    compared strongly, so a weak one matches nothing.
    """
    if if_match is None or if_match.strip() == "*" or entity_tag(show()) in _TAG.findall(if_match):
        return
    raise ServiceError("precondition_failed", "It has changed since the response with this ETag. Read it again.")
