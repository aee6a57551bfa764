"""Hashing passwords: Argon2id, some 100 ms each, two at a time per process, and after everything else.

The two threads do nothing else and have a lower priority, so that a machine full of sign-ins answers other requests
first. No more wait for them than can have their turn within some two seconds, and fewer than there are threads for
people (`app/main.py`), so that whoever wants no password hashed is served too.

A hash needs 64 MiB; RFC 9106, 4 recommends these costs where memory is not plentiful, with one lane here, since more
of them would be more threads.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from rules.access.passwords import readable
from rules.errors import ServiceError

AT_A_TIME = 2
PLACES = 24
_POLITENESS = 10
_hasher = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)
_places = BoundedSemaphore(PLACES)


@contextmanager
def room() -> Iterator[None]:
    """Take a place among those who wait for a hash; raises `rate_limited` when there is none."""
    if not _places.acquire(blocking=False):
        raise ServiceError("rate_limited", "Too many people sign in at this moment. Try again.", retry_after=1)
    try:
        yield
    finally:
        _places.release()


def hash_password(password: str) -> str:
    """Return what is kept of a password: Argon2id with its salt and its costs, as a PHC string."""
    return _threads.submit(_hasher.hash, readable(password)).result()


def is_right(stored: str | None, password: str) -> bool:
    """Tell whether a password has this hash; without one it takes as long, and the answer is no."""
    nobodys = _nobodys()
    return _threads.submit(_is_right, stored or nobodys, readable(password)).result() and stored is not None


def is_outdated(stored: str) -> bool:
    """Tell whether a hash was made with other costs than are usual now."""
    return _hasher.check_needs_rehash(stored)


def _is_right(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    """Return a hash that no password is known to have, made with the usual costs."""
    return _hasher.hash(os.urandom(32).hex())


def _give_way() -> None:
    """Let other threads of the machine run first, on Linux, where a thread has a priority of its own."""
    if sys.platform == "linux":
        os.nice(_POLITENESS)


_threads = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="password", initializer=_give_way)
"""Started when they are first needed, and so in the process that needs them."""
