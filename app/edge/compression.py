"""Compression of answers: Brotli or gzip, for clients that accept it.

Short answers, and kinds that are compressed already, are sent as they are. The `ETag` of an answer names the state that
it shows and not its bytes, so that all forms have the same: clients send it back with a change, in `If-Match`.
Documents that are the same for everybody, whose `Cache-Control` is `public`, are compressed once.
Secrets that stand beside text of a request are masked in each answer (`web/forms.py`), so its length tells nothing.
"""

import asyncio
import gzip
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import brotli

MIN_BYTES = 1024
_KINDS = re.compile(rb"(text/|application/(json|javascript|problem\+json|yaml|xml)|image/svg)")
_WEIGHT = re.compile(rb"(q=(?P<weight>0(\.[0-9]*)?|1(\.0*)?))?")
_QUICK = {"br": 5, "gzip": 4}
"""Levels: about a fifth larger than at best, for a third of the work."""
_BEST = {"br": 10, "gzip": 9}
"""For what is compressed once. Brotli's 11 wins 2 % for twice the work, two seconds for the reference's script."""
_LARGE_BYTES = 65_536
"""From this size on, the event loop does other things meanwhile."""
_VARY = (b"vary", b"accept-encoding")

Headers = list[tuple[bytes, bytes]]


def coding_for(header: bytes | None) -> str:
    """Return what an `Accept-Encoding` prefers (RFC 9110, 12.5.3), of equals `br` before `gzip`; empty if neither."""
    weights = {}
    for part in (header or b"").lower().split(b","):
        name, _, parameter = part.partition(b";")
        weights[name.strip()] = _weight_of(parameter)
    other = weights.get(b"*", 0)
    best = max(_QUICK, key=lambda coding: weights.get(coding.encode(), other))
    return best if weights.get(best.encode(), other) else ""


def _weight_of(parameter: bytes) -> float:
    """Return a weight, `q=0.5` or nothing, from 0 to 1; 0 if it is none."""
    found = _WEIGHT.fullmatch(parameter.replace(b" ", b""))
    return float(found["weight"] or 1) if found else 0


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
    coding = coding_for(accepted)
    if not coding:
        return [*headers, _VARY], body
    packed = _compress_once(coding, body) if is_public(headers) else _pack(coding, body, _QUICK)
    return [*_with_length(headers, len(packed)), _VARY, (b"content-encoding", coding.encode())], packed


async def compress_on_loop(status: int, headers: Headers, body: bytes, accepted: bytes | None) -> tuple[Headers, bytes]:
    """Return headers and body as the client accepts them; a large body is compressed in a thread."""
    if len(body) < _LARGE_BYTES or not coding_for(accepted):
        return compress(status, headers, body, accepted)
    return await asyncio.to_thread(compress, status, headers, body, accepted)


def is_public(headers: Headers) -> bool:
    """True if an answer is the same for everybody."""
    return any(name == b"cache-control" and value.startswith(b"public") for name, value in headers)


@lru_cache(maxsize=64)
def _compress_once(coding: str, document: bytes) -> bytes:
    """Return a document that is the same for everybody, compressed as well as possible."""
    return _pack(coding, document, _BEST)


@lru_cache(maxsize=32)
def compress_file(tag: bytes, coding: str, body: bytes) -> bytes:  # noqa: ARG001 - the tag tells files apart faster
    """Return a file of ours, compressed once."""
    return _pack(coding, body, _BEST)


def _pack(coding: str, body: bytes, levels: Mapping[str, int]) -> bytes:
    if coding == "br":
        return bytes(brotli.compress(body, quality=levels[coding]))
    return gzip.compress(body, levels[coding], mtime=0)


def _with_length(headers: Headers, size: int) -> Headers:
    return [(name, b"%d" % size if name == b"content-length" else value) for name, value in headers]
