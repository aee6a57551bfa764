"""Opaque ids: a prefix and 26 lower-case characters that sort by creation time.

The 128 bits are a UUIDv7 without version bits: 48 bits of Unix milliseconds and 80 random bits, in base32hex, whose
alphabet preserves the order of the bytes.
"""

import os
import re
import time

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_SHAPE = re.compile(r"([a-z]{3})_[0-9a-v]{26}")


def new_id(prefix: str) -> str:
    """Return a new id such as `frz_06aq1…`: `prefix`, an underscore and 26 characters."""
    bits = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    pairs = _PAIRS
    return f"{prefix}_" + "".join([pairs[bits >> shift & 1023] for shift in range(120, -1, -10)])


def has_prefix(value: str, prefix: str) -> bool:
    """True if `value` has the form of an id with this prefix."""
    match = _SHAPE.fullmatch(value)
    return match is not None and match[1] == prefix
