"""How much may be sent to the code host now, so that it never has to refuse: pure arithmetic on what was spent.

GitHub counts points by the minute (a GraphQL query 1, a mutation 5; 2,000 in all) and created content by the minute
and by the hour (80 and 500). Whether check runs are content, and whether each alias of a mutation counts, it does not
say: that is configured, or learnt from a refusal. Its windows begin when it pleases, so we keep to each limit in any
window of that length. Source: GitHub, "Rate limits for the REST API", secondary rate limits.

The room belongs first to verdicts, for a freeze waits for nothing. Whatever nobody's merge waits for (looking at rules,
writing them, comparing repositories, looking into landings) has a share of it, counted together with what verdicts use.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

Counting = Literal["off", "requests", "aliases"]
"""What of a mutation counts as created content: nothing, the request, or each check in it."""

MUTATION_POINTS = 5
QUERY_POINTS = 1
MINUTE = timedelta(seconds=62)
"""A little longer than GitHub's, for the way there takes time."""
HOUR = timedelta(seconds=3605)


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """What one installation may use. `learn` counts no content until the code host has refused a mutation."""

    content: Literal["learn", "off", "requests", "aliases"] = "learn"
    content_per_minute: int = 80
    content_per_hour: int = 500
    points_per_minute: int = 1800
    """Of 2,000, since requests of the API and of people count as well."""

    def share(self, part: float) -> "PaceLimits":
        """Return a part of these limits, enough for a single call at least."""
        return replace(
            self,
            content_per_minute=max(1, int(self.content_per_minute * part)),
            content_per_hour=max(1, int(self.content_per_hour * part)),
            points_per_minute=max(MUTATION_POINTS, int(self.points_per_minute * part)),
        )


READS_SHARE = 0.5
"""Of the room, what calls may use that nobody's merge waits for: the other half is always there for verdicts."""
WRITES_SHARE = 0.4
"""The same of those that write: what is left of the half is for reading, so that a setup of a thousand repositories
stops neither probes nor comparisons. Of 1,800 points it is 720, below the 900 that GitHub takes in a minute by REST."""
SHORTEST_WAIT = timedelta(seconds=5)
"""Whoever found no room in their share comes back no sooner, and so for more than one call."""


class ApiUsage(NamedTuple):
    """One call that was made."""

    at: datetime
    points: int
    content: int


class Grant(NamedTuple):
    """How many checks one mutation may hold now; if none, how long there will be no room."""

    checks: int
    wait: timedelta


NO_WAIT = timedelta(0)


def grant_checks(
    limits: PaceLimits, counting: Counting, spent: Sequence[ApiUsage], now: datetime, wanted: int
) -> Grant:
    """Return the room for one mutation with up to `wanted` checks; `spent` holds the last hour, oldest first."""
    waits = [_wait(spent, now, MINUTE, limits.points_per_minute - MUTATION_POINTS, _points)]
    room = wanted
    if counting != "off":
        for length, most in ((MINUTE, limits.content_per_minute), (HOUR, limits.content_per_hour)):
            waits.append(_wait(spent, now, length, most - 1, _content))
            if counting == "aliases":
                room = min(room, most - sum(one.content for one in spent if one.at > now - length))
    wait = max(waits)
    return Grant(0, wait) if wait > NO_WAIT else Grant(room, NO_WAIT)


def wait_for_query(limits: PaceLimits, spent: Sequence[ApiUsage], now: datetime) -> timedelta:
    """Return how long there will be no room for a query: usually no time at all."""
    return _wait(spent, now, MINUTE, limits.points_per_minute - QUERY_POINTS, _points)


def background_wait(
    limits: PaceLimits, counting: Counting, spent: Sequence[ApiUsage], now: datetime, *, writes: bool
) -> timedelta:
    """Return how long there will be no room for a call that nobody's merge waits for."""
    if writes:
        wait = grant_checks(limits.share(WRITES_SHARE), counting, spent, now, 1).wait
    else:
        wait = wait_for_query(limits.share(READS_SHARE), spent, now)
    return max(wait, SHORTEST_WAIT) if wait > NO_WAIT else NO_WAIT


def content_of(counting: Counting, checks: int) -> int:
    """Return how much content a mutation with so many checks creates."""
    return {"off": 0, "requests": 1, "aliases": checks}[counting]


def counting_after_refusal(before: Counting, spent: Sequence[ApiUsage], now: datetime, limits: PaceLimits) -> Counting:
    """Return how content is counted from now on, since the code host has refused a mutation.

    The milder explanation first: that it counts requests, if there were more of them than it allows.
    """
    requests = [one for one in spent if one.points == MUTATION_POINTS]
    recent = sum(one.at > now - MINUTE for one in requests)
    too_many = recent > limits.content_per_minute or len(requests) > limits.content_per_hour
    return "requests" if before == "off" and too_many else "aliases"


def _points(one: ApiUsage) -> int:
    return one.points


def _content(one: ApiUsage) -> int:
    return one.content


def _wait(
    spent: Sequence[ApiUsage], now: datetime, length: timedelta, most: int, size: Callable[[ApiUsage], int]
) -> timedelta:
    """Return the time until what was spent within `length` comes down to `most`."""
    recent = [one for one in spent if one.at > now - length]
    used = sum(map(size, recent))
    for one in recent:
        if used <= most:
            break
        used -= size(one)
        if used <= most:
            return one.at + length - now
    return NO_WAIT
