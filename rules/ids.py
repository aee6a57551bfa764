"""Opaque ids: a prefix and 26 lower-case characters that sort by creation time.

The 128 bits are a UUIDv7 without version bits: 48 bits of Unix milliseconds and 80 random bits, in base32hex, whose
alphabet preserves the order of the bytes. Ids that one process makes in the same millisecond sort by creation as well:
each adds a random number to the one before (RFC 9562, 6.2, method 2), which leaves it as hard to guess.

A derived id is of what an owner has once at an instant: it has the milliseconds of that instant, and 80 bits of a hash
of the owner's id, so that it is known before the object is stored. The freeze of a window has the bits of the window's
id, so that it is known before it begins, and cannot begin twice; its targets have ids derived from it.
"""

import hashlib
import os
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_MILLISECONDS = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLISECOND
_SHAPE = re.compile(r"([a-z]{3})_[0-9a-v]{26}")


class _Sequence:
    """The bits of new ids, each greater than the one before in the same millisecond. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        with self._lock:
            milliseconds = time.time_ns() // 1_000_000
            if milliseconds == self._last >> 80:
                self._last += 1 + int.from_bytes(os.urandom(7))
            else:
                self._last = milliseconds << 80 | int.from_bytes(os.urandom(10)) >> 1  # adding leaves it below 2**80
            return self._last


_NEW = _Sequence()


def new_id(prefix: str) -> str:
    """Return a new id such as `frz_06aq1…`: `prefix`, an underscore and 26 characters."""
    return _text(prefix, _NEW.next())


def derive_id(prefix: str, owner: str, at: datetime) -> str:
    """Return the id of what the object `owner` has at an instant, in whole milliseconds since 1970."""
    return _text(prefix, (at - _EPOCH) // _MILLISECOND << 80 | _hash_of(owner))


def instant_of(value: str, prefix: str, owner: str) -> datetime | None:
    """Return the instant from which `derive_id` derived an id with this prefix for this owner; None if it did not."""
    bits = int(value[4:], 32) if has_prefix(value, prefix) else 0
    milliseconds, owner_hash = bits >> 80, bits & (1 << 80) - 1
    if owner_hash != _hash_of(owner) or milliseconds >= _MAX_MILLISECONDS:
        return None
    return _EPOCH + milliseconds * _MILLISECOND


def id_of_freeze(occurrence_id: str) -> str:
    """Return the id of the freeze that an occurrence starts."""
    return f"frz_{occurrence_id[4:]}"


def id_of_occurrence(freeze_id: str) -> str:
    """Return the id of the occurrence whose freeze has an id."""
    return f"occ_{freeze_id[4:]}"


def id_of_target(freeze_id: str, branch_id: str) -> str:
    """Return the id of the target that the freeze of an occurrence has on a branch."""
    bits = int(freeze_id[4:], 32)
    return _text("tgt", bits >> 80 << 80 | _digest(f"{freeze_id} {branch_id}"))


@lru_cache(maxsize=4096)
def _hash_of(owner: str) -> int:
    return _digest(owner)


def _digest(value: str) -> int:
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=10).digest())


def _text(prefix: str, bits: int) -> str:
    pairs = _PAIRS
    return f"{prefix}_" + "".join([pairs[bits >> shift & 1023] for shift in range(120, -1, -10)])


def has_prefix(value: str, prefix: str) -> bool:
    """True if `value` has the form of an id with this prefix."""
    match = _SHAPE.fullmatch(value)
    return match is not None and match[1] == prefix
