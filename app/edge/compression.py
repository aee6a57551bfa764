"""Compression of answers: gzip, for clients that accept it.

Short answers, and kinds that are compressed already, are sent as they are. The `ETag` of an answer names the state that
it shows and not its bytes, so that both forms have the same: clients send it back with a change, in `If-Match`.
Documents that are the same for everybody, whose `Cache-Control` is `public`, are compressed once.
Secrets that stand beside text of a request are masked in each answer (`web/forms.py`), so its length tells nothing.
"""

import asyncio
import gzip
import re
from collections.abc import Sequence
from functools import lru_cache

MIN_BYTES = 1024
_KINDS = re.compile(rb"(text/|application/(json|javascript|problem\+json|yaml|xml)|image/svg)")
_LEVEL = 4
"""About a fifth larger than with 9, for a third of the work."""
_LARGE_BYTES = 65_536
"""From this size on, the event loop does other things meanwhile."""
_VARY = (b"vary", b"accept-encoding")
_ENCODING = (b"content-encoding", b"gzip")

Headers = list[tuple[bytes, bytes]]


def accepts_gzip(header: bytes | None) -> bool:
    """True if an `Accept-Encoding` allows gzip (RFC 9110, 12.5.3)."""
    weights = {}
    for part in (header or b"").lower().split(b","):
        name, _, parameters = part.partition(b";")
        weights[name.strip()] = parameters.replace(b" ", b"")
    weight = weights.get(b"gzip", weights.get(b"*", b"q=0"))
    return not re.fullmatch(rb"q=0(\.0*)?", weight)


def is_compressible(status: int, headers: Sequence[tuple[bytes, bytes]], size: int) -> bool:
    """True if an answer with a body of this size is worth compressing."""
    if size < MIN_BYTES or status in {204, 206, 304}:
        return False
    given = dict(headers)
    return b"content-encoding" not in given and bool(_KINDS.match(given.get(b"content-type", b"")))


def compress(status: int, headers: Headers, body: bytes, accepted: bytes | None) -> tuple[Headers, bytes]:
    """Return headers and body as the client accepts them; `content-length` is that of the body."""
    if not is_compressible(status, headers, len(body)):
        return headers, body
    if not accepts_gzip(accepted):
        return [*headers, _VARY], body
    packed = _compress_once(body) if is_public(headers) else gzip.compress(body, _LEVEL, mtime=0)
    return [*_with_length(headers, len(packed)), _VARY, _ENCODING], packed


async def compress_on_loop(status: int, headers: Headers, body: bytes, accepted: bytes | None) -> tuple[Headers, bytes]:
    """Return headers and body as the client accepts them; a large body is compressed in a thread."""
    if len(body) < _LARGE_BYTES or not accepts_gzip(accepted):
        return compress(status, headers, body, accepted)
    return await asyncio.to_thread(compress, status, headers, body, accepted)


def is_public(headers: Headers) -> bool:
    """True if an answer is the same for everybody."""
    return any(name == b"cache-control" and value.startswith(b"public") for name, value in headers)


@lru_cache(maxsize=64)
def _compress_once(document: bytes) -> bytes:
    """Return a document that is the same for everybody, compressed as well as possible."""
    return gzip.compress(document, mtime=0)


@lru_cache(maxsize=32)
def compress_file(tag: bytes, body: bytes) -> bytes:  # noqa: ARG001 - the tag tells files apart faster than they do
    """Return a file of ours, compressed once."""
    return gzip.compress(body, mtime=0)


def _with_length(headers: Headers, size: int) -> Headers:
    return [(name, b"%d" % size if name == b"content-length" else value) for name, value in headers]
