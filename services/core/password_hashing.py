"""Hashing passwords: Argon2id, about 100 ms each, two at a time per process, at a lower priority than requests.

The two threads do nothing else and have a lower priority, so that a machine full of sign-ins answers other requests
first. No more callers wait for them than can be served within about two seconds, and fewer than there are threads of
the identity pool (`app/main.py`), so that requests which hash no password are served too. Each network gets a share
of the slots, and some are kept for people at origins where they have signed in before.

A hash needs 64 MiB; RFC 9106, section 4 recommends these costs where memory is not plentiful, with one lane here, since
more of them would be more threads.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from threading import Lock

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

from rules.access.passwords import normalize
from rules.errors import ServiceError

TIME_COST = 3
MEMORY_COST = 64 * 1024
"""In KiB."""
MAX_CONCURRENT = 2
MAX_WAITING = 24
MAX_STRANGERS = 20
"""Of those waiting, callers from origins that are not known for the account."""
MAX_WAITING_PER_NETWORK = 14
NICENESS = 10


class PasswordHasher:
    """The threads that hash passwords, and the slots of the callers that wait for them; one per process."""

    def __init__(self, *, time_cost: int = TIME_COST, memory_cost: int = MEMORY_COST) -> None:
        self._hasher = argon2.PasswordHasher(time_cost=time_cost, memory_cost=memory_cost, parallelism=1)
        self._lock = Lock()
        self._known = 0
        self._strangers: Counter[str] = Counter()
        # Starts its threads when they are first needed, and so in the process that needs them.
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="password", initializer=_lower_priority)

    @contextmanager
    def slot(self, network: str, *, known: bool = False) -> Iterator[None]:
        """Hold one of the slots of callers that need a hash.

        Raise `rate_limited` if all are taken, or those of a network or of strangers, unless the caller is `known`.
        """
        with self._lock:
            strangers = sum(self._strangers.values())
            full = self._known + strangers >= MAX_WAITING
            if not known:
                full = full or strangers >= MAX_STRANGERS or self._strangers[network] >= MAX_WAITING_PER_NETWORK
            if full:
                raise ServiceError("rate_limited", "Too many people are signing in. Try again.", retry_after=1)
            self._count(network, 1, known=known)
        try:
            yield
        finally:
            with self._lock:
                self._count(network, -1, known=known)

    def _count(self, network: str, change: int, *, known: bool) -> None:
        if known:
            self._known += change
        else:
            self._strangers[network] += change
            if not self._strangers[network]:
                del self._strangers[network]

    def hash(self, password: str) -> str:
        """Return the Argon2id hash of a password with its salt and costs, as a PHC string."""
        return self._threads.submit(self._hasher.hash, normalize(password)).result()

    def verify(self, stored: str | None, password: str) -> bool:
        """True if a password has this hash; without a hash it takes as long, and the result is False."""
        compared = self.dummy_hash if stored is None else stored
        return self._threads.submit(self._verify, compared, normalize(password)).result() and stored is not None

    def is_outdated(self, stored: str) -> bool:
        """True if a hash was made with other costs than those of this hasher."""
        return self._hasher.check_needs_rehash(stored)

    @cached_property
    def dummy_hash(self) -> str:
        """A hash of the same costs that no password is known to have."""
        return self._hasher.hash(os.urandom(32).hex())

    def _verify(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False


def _lower_priority() -> None:
    """Let other threads of the machine run first, on Linux, where each thread has a priority of its own."""
    if sys.platform == "linux":
        os.nice(NICENESS)
