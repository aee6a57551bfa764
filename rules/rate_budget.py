"""How much may be sent to GitHub now, so that it never has to refuse: pure arithmetic on the recent usage.

GitHub counts points by the minute (a GraphQL query 1, a mutation 5; 2,000 in all) and created content by the minute
and by the hour (80 and 500). It does not document whether check runs are content, and whether each alias of a mutation
counts: that is configured, or learned from a refusal. Its windows can begin at any time, so we keep to each limit in
any window of that length. Source: GitHub, "Rate limits for the REST API", secondary rate limits.

Verdicts come first. Background calls, which no merge waits for (reading and writing rules, comparing repositories,
detecting bypasses), have a share of the budget, counted together with what verdicts use.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

Counting = Literal["off", "requests", "aliases"]
"""What of a mutation counts as created content: nothing, the request, or each check in it."""
ContentSetting = Literal["learn", "off", "requests", "aliases"]
"""The same as it is set: `learn` counts nothing until GitHub has refused a mutation."""

MUTATION_POINTS = 5
QUERY_POINTS = 1
MINUTE = timedelta(seconds=62)
"""A little longer than GitHub's, because a call takes time to arrive."""
HOUR = timedelta(seconds=3605)


@dataclass(frozen=True, slots=True)
class GitHubLimits:
    """What one installation may use."""

    content: ContentSetting = "learn"
    content_per_minute: int = 80
    content_per_hour: int = 500
    points_per_minute: int = 1800
    """Of 2,000, since requests of the API and of people count as well."""
    stop_above: int = 25
    """A freeze with more heads that show `success` is held by a stop: one batch of checks is quicker for fewer."""
    shared_above: int = 20
    """In more repositories than these, a ruleset of their organisation has the stop: one request writes fewer."""
    ruleset_delay: timedelta = timedelta(seconds=20)
    """How long GitHub may take to enforce a changed ruleset after it shows it: not documented; people report it."""

    def share(self, part: float) -> "GitHubLimits":
        """Return a part of these limits, enough for a single call at least."""
        return replace(
            self,
            content_per_minute=max(1, int(self.content_per_minute * part)),
            content_per_hour=max(1, int(self.content_per_hour * part)),
            points_per_minute=max(MUTATION_POINTS, int(self.points_per_minute * part)),
        )


BACKGROUND_READ_SHARE = 0.5
"""The share of the budget that background calls may use: the other half is always there for verdicts."""
BACKGROUND_WRITE_SHARE = 0.4
"""The same for those that write: what is left of the half is for reading, so that a setup of a thousand repositories
stops neither probes nor comparisons. Of 1,800 points it is 720, below the 900 that the REST API takes in a minute."""
QUOTA_FOR_VERDICTS = 0.2
"""The share of the hourly quota, of REST and of GraphQL, that is kept for verdicts: while no more is left, background
calls wait until GitHub gives a new one."""
MIN_BACKGROUND_WAIT = timedelta(seconds=5)
"""A background job that has used up its share waits at least so long, and then makes more than one call."""


class ApiUsage(NamedTuple):
    """One call that was made."""

    at: datetime
    points: int
    content: int


class CheckAllowance(NamedTuple):
    """How many checks one mutation may hold now; if none, how long to wait."""

    checks: int
    wait: timedelta


NO_WAIT = timedelta(0)


def grant_checks(
    limits: GitHubLimits, counting: Counting, usage: Sequence[ApiUsage], now: datetime, wanted: int
) -> CheckAllowance:
    """Return how many of `wanted` checks one mutation may hold; `usage` has the last hour, oldest first."""
    waits = [_wait(usage, now, MINUTE, limits.points_per_minute - MUTATION_POINTS, _points)]
    checks = wanted
    if counting != "off":
        for length, most in ((MINUTE, limits.content_per_minute), (HOUR, limits.content_per_hour)):
            waits.append(_wait(usage, now, length, most - 1, _content))
            if counting == "aliases":
                checks = min(checks, most - sum(one.content for one in usage if one.at > now - length))
    wait = max(waits)
    return CheckAllowance(0, wait) if wait > NO_WAIT else CheckAllowance(checks, NO_WAIT)


def wait_for_query(limits: GitHubLimits, usage: Sequence[ApiUsage], now: datetime) -> timedelta:
    """Return how long a query has to wait: usually not at all."""
    return _wait(usage, now, MINUTE, limits.points_per_minute - QUERY_POINTS, _points)


def background_wait(
    limits: GitHubLimits, counting: Counting, usage: Sequence[ApiUsage], now: datetime, *, writes: bool
) -> timedelta:
    """Return how long a background call has to wait."""
    if writes:
        wait = grant_checks(limits.share(BACKGROUND_WRITE_SHARE), counting, usage, now, 1).wait
    else:
        wait = wait_for_query(limits.share(BACKGROUND_READ_SHARE), usage, now)
    return max(wait, MIN_BACKGROUND_WAIT) if wait > NO_WAIT else NO_WAIT


def is_quota_short(remaining: int | None, limit: int | None) -> bool:
    """True if so little of an hourly quota is left that it is kept for verdicts; False as long as it is not known."""
    return remaining is not None and bool(limit) and remaining <= QUOTA_FOR_VERDICTS * (limit or 0)


def content_of(counting: Counting, checks: int) -> int:
    """Return how much content a mutation with so many checks creates."""
    return {"off": 0, "requests": 1, "aliases": checks}[counting]


def stricter_counting(before: Counting, usage: Sequence[ApiUsage], now: datetime, limits: GitHubLimits) -> Counting:
    """Return how content is counted from now on, after GitHub has refused a mutation.

    The milder explanation first: that GitHub counts requests, if there were more of them than it allows.
    """
    requests = [one for one in usage if one.points == MUTATION_POINTS]
    recent = sum(one.at > now - MINUTE for one in requests)
    too_many = recent > limits.content_per_minute or len(requests) > limits.content_per_hour
    return "requests" if before == "off" and too_many else "aliases"


def _points(one: ApiUsage) -> int:
    return one.points


def _content(one: ApiUsage) -> int:
    return one.content


def _wait(
    usage: Sequence[ApiUsage], now: datetime, length: timedelta, most: int, size: Callable[[ApiUsage], int]
) -> timedelta:
    """Return the time until the usage within `length` comes down to `most`."""
    recent = [one for one in usage if one.at > now - length]
    used = sum(map(size, recent))
    for one in recent:
        if used <= most:
            break
        used -= size(one)
        if used <= most:
            return one.at + length - now
    return NO_WAIT
