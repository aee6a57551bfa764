"""What an installation may still spend, learnt from GitHub's own headers, and whether it has to be quiet."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from integrations.github.errors import ErrorKind, GitHubError

Resource = Literal["rest", "graphql"]
_LONGEST_PAUSE = 3600.0
_FIRST_PAUSE = 60.0
_MOST_DOUBLINGS = 4


@dataclass(frozen=True, slots=True)
class Allowance:
    """The hourly allowance of one resource: requests for REST, points for GraphQL; None before the first answer."""

    limit: int | None = None
    remaining: int | None = None
    reset_at: float | None = None
    """Unix seconds of GitHub's clock."""
    paused_until: float | None = None
    """Unix seconds of our clock until which this resource is not asked."""


@dataclass(frozen=True, slots=True)
class Budget:
    """One installation's allowances at a moment."""

    rest: Allowance
    graphql: Allowance
    paused_until: float | None
    """Unix seconds of our clock until which nothing is sent (secondary limit)."""


class Meter:
    """Learns and remembers one installation's `Budget`; safe for many threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowances: dict[Resource, Allowance] = {"rest": Allowance(), "graphql": Allowance()}
        self._paused_until: float | None = None
        self._refusals = 0

    def budget(self) -> Budget:
        """Return what is known now; pauses that are over are not told."""
        with self._lock:
            now = self._clock()
            rest, graphql = (_awake(self._allowances[resource], now) for resource in ("rest", "graphql"))
            paused = self._paused_until if self._paused_until is not None and self._paused_until > now else None
            return Budget(rest, graphql, paused)

    def check(self, resource: Resource) -> None:
        """Raise the limit's error at once, with the time left, while this installation has to be quiet."""
        with self._lock:
            now = self._clock()
            if self._paused_until is not None and self._paused_until > now:
                raise _paused(ErrorKind.SECONDARY_RATE_LIMIT, self._paused_until - now)
            until = self._allowances[resource].paused_until
            if until is not None and until > now:
                raise _paused(ErrorKind.RATE_LIMIT, until - now)

    def observe(self, headers: Mapping[str, str]) -> None:
        """Learn from the `x-ratelimit-*` headers of any answer."""
        limit, remaining, reset = (_number(headers.get(f"x-ratelimit-{name}")) for name in _HEADERS)
        kind = headers.get("x-ratelimit-resource", "core")
        resource = _RESOURCES.get(kind)
        if limit is None or remaining is None or reset is None or resource is None:
            return
        with self._lock:
            known = self._allowances[resource]
            if known.reset_at == reset and known.remaining is not None:
                remaining = min(remaining, known.remaining)  # answers of parallel calls arrive in any order
            self._allowances[resource] = Allowance(limit, remaining, reset, known.paused_until)

    def succeeded(self) -> None:
        """Note an answer that was no refusal: the next secondary limit starts at the shortest pause again."""
        if self._refusals:
            with self._lock:
                self._refusals = 0

    def refused(self, error: GitHubError, resource: Resource) -> None:
        """Remember the pause that a limit's answer asks for, and tell it in the error."""
        with self._lock:
            now = self._clock()
            seconds = error.retry_after
            if error.kind is ErrorKind.SECONDARY_RATE_LIMIT:
                doubled = _FIRST_PAUSE * 2 ** min(self._refusals, _MOST_DOUBLINGS)
                self._refusals += 1
                seconds = _bounded(doubled if seconds is None else seconds)
                self._paused_until = max(self._paused_until or 0.0, now + seconds)
            else:
                seconds = _bounded(_FIRST_PAUSE if seconds is None else seconds)
                known = self._allowances[resource]
                until = max(known.paused_until or 0.0, now + seconds)
                self._allowances[resource] = Allowance(known.limit, known.remaining, known.reset_at, until)
        error.retry_after = seconds


_HEADERS = ("limit", "remaining", "reset")
_RESOURCES: dict[str, Resource] = {"core": "rest", "graphql": "graphql"}


def _awake(allowance: Allowance, now: float) -> Allowance:
    if allowance.paused_until is None or allowance.paused_until > now:
        return allowance
    return Allowance(allowance.limit, allowance.remaining, allowance.reset_at)


def _paused(kind: ErrorKind, seconds: float) -> GitHubError:
    return GitHubError(kind, "GitHub asked this installation to wait", retry_after=seconds)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 1.0), _LONGEST_PAUSE)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None
