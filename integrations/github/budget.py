"""GitHub's rate limits for an installation, read from response headers, and pauses after a limit was exceeded."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from integrations.github.errors import ErrorKind, GitHubError

Resource = Literal["rest", "graphql"]
_MAX_PAUSE = 3600.0
_MIN_PAUSE = 60.0
_MAX_DOUBLINGS = 4


@dataclass(frozen=True, slots=True)
class Allowance:
    """The hourly limit of one resource: requests for REST, points for GraphQL; None before the first response."""

    limit: int | None = None
    remaining: int | None = None
    reset_at: float | None = None
    """Unix seconds of GitHub's clock."""
    paused_until: float | None = None
    """Unix seconds of our clock until which no requests for this resource are sent."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The allowances of an installation at one moment."""

    rest: Allowance
    graphql: Allowance
    paused_until: float | None
    """Unix seconds of our clock until which no requests are sent (secondary limit)."""


class RateLimitTracker:
    """Tracks the `Budget` of one installation; thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowances: dict[Resource, Allowance] = {"rest": Allowance(), "graphql": Allowance()}
        self._paused_until: float | None = None
        self._consecutive_limits = 0
        self._limited_at: float | None = None
        """When the newest pause began, as long as there may be one."""

    def budget(self) -> Budget:
        """Return the current budget, without pauses that are over."""
        with self._lock:
            now = self._clock()
            rest, graphql = (_without_past_pause(self._allowances[resource], now) for resource in ("rest", "graphql"))
            paused = self._paused_until if self._paused_until is not None and self._paused_until > now else None
            return Budget(rest, graphql, paused)

    def check(self, resource: Resource) -> None:
        """Raise the error of the limit, with the remaining time, while the installation or resource is paused."""
        with self._lock:
            now = self._clock()
            if self._paused_until is not None and self._paused_until > now:
                raise _paused(ErrorKind.SECONDARY_RATE_LIMIT, self._paused_until - now)
            until = self._allowances[resource].paused_until
            if until is not None and until > now:
                raise _paused(ErrorKind.RATE_LIMIT, until - now)

    def observe(self, headers: Mapping[str, str]) -> None:
        """Update the allowance from the `x-ratelimit-*` headers of a response."""
        limit, remaining, reset = (_parse_number(headers.get(f"x-ratelimit-{name}")) for name in _HEADERS)
        kind = headers.get("x-ratelimit-resource", "core")
        resource = _RESOURCES.get(kind)
        if limit is None or remaining is None or reset is None or resource is None:
            return
        with self._lock:
            known = self._allowances[resource]
            if known.reset_at == reset and known.remaining is not None:
                remaining = min(remaining, known.remaining)  # responses of parallel requests arrive in any order
            self._allowances[resource] = Allowance(limit, remaining, reset, known.paused_until)

    def succeeded(self) -> None:
        """Reset the doubling of pauses after a response that was not limited."""
        if self._consecutive_limits:
            with self._lock:
                self._consecutive_limits = 0

    def limited(self, error: GitHubError, resource: Resource) -> None:
        """Pause after a rate-limit error, and set the error's `retry_after` to the pause."""
        with self._lock:
            now = self._limited_at = self._clock()
            seconds = error.retry_after
            if error.kind is ErrorKind.SECONDARY_RATE_LIMIT:
                doubled = _MIN_PAUSE * 2 ** min(self._consecutive_limits, _MAX_DOUBLINGS)
                self._consecutive_limits += 1
                seconds = _limit_pause(doubled if seconds is None else seconds)
                self._paused_until = max(self._paused_until or 0.0, now + seconds)
            else:
                seconds = _limit_pause(_MIN_PAUSE if seconds is None else seconds)
                known = self._allowances[resource]
                until = max(known.paused_until or 0.0, now + seconds)
                self._allowances[resource] = Allowance(known.limit, known.remaining, known.reset_at, until)
        error.retry_after = seconds

    def forget_pauses(self, older_than: float) -> None:
        """Forget all pauses if the newest began more than `older_than` seconds ago."""
        if self._limited_at is None:
            return
        with self._lock:
            if self._limited_at is None or self._clock() - self._limited_at < older_than:
                return
            self._limited_at = self._paused_until = None
            self._consecutive_limits = 0
            for resource, known in self._allowances.items():
                self._allowances[resource] = Allowance(known.limit, known.remaining, known.reset_at)


_HEADERS = ("limit", "remaining", "reset")
_RESOURCES: dict[str, Resource] = {"core": "rest", "graphql": "graphql"}


def _without_past_pause(allowance: Allowance, now: float) -> Allowance:
    if allowance.paused_until is None or allowance.paused_until > now:
        return allowance
    return Allowance(allowance.limit, allowance.remaining, allowance.reset_at)


def _paused(kind: ErrorKind, seconds: float) -> GitHubError:
    return GitHubError(kind, "GitHub's rate limit pauses this installation", retry_after=seconds)


def _limit_pause(seconds: float) -> float:
    return min(max(seconds, 1.0), _MAX_PAUSE)


def _parse_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None
