"""Pacing: what all workers together send for one installation, kept within the code host's secondary limits.

Every call of a job is written down before it is made. A pass that wants to make one takes the installation's lock for a
moment, so that two workers never use the same room; it is taken before any branch is locked. All other jobs make their
calls with a `paced_client`, which has only a share of the room, and takes no lock: a few calls too many leave room to
verdicts all the same. A pause that another process was told to make holds for whoever is under way, too.

What is called on account of a request is not written down (`PaceLimits` leaves room for it), but heeds the pause
(`services.github_access.client`).
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import text

from integrations.github import GitHub, InstallationClient
from rules.rate_budget import (
    HOUR,
    MINUTE,
    MUTATION_POINTS,
    NO_WAIT,
    QUERY_POINTS,
    Counting,
    PaceLimits,
    Room,
    Spent,
    content_of,
    counting_after_refusal,
    room_for_checks,
    wait_for_query,
    wait_of_others,
)
from services.core.unit_of_work import SYSTEM_CALLER, Unit, Units
from services.github_access.failures import HeldBackError, require_no_pause
from services.github_access.pauses import pause_left

REMEMBERED = timedelta(hours=24)
"""How long what a refusal taught is believed."""

# By whole seconds, each counted at its end: a busy minute has thousands of calls, and at most 63 seconds. Of what is
# older only content matters, and most calls create none.
_SPENT = text("""
    SELECT date_trunc('second', at) + interval '1 second', sum(points), sum(content) FROM spendings
    WHERE installation_id = :installation AND at > :since AND (at > :minute OR content > 0)
    GROUP BY 1 ORDER BY 1
""")
_SPEND = text(
    "INSERT INTO spendings (installation_id, at, points, content) VALUES (:installation, :now, :points, :content)"
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))")
_LEARNT = text("SELECT content_counting FROM installations WHERE id = :installation AND content_learnt_at > :since")


def reserve_checks(unit: Unit, installation_id: int, limits: PaceLimits, wanted: int) -> Room:
    """Take the room for one mutation with up to `wanted` checks, or tell how long there is none."""
    _lock(unit, installation_id)
    counting = _counting(unit, installation_id, limits)
    spent = _spent(unit, installation_id, MINUTE if counting == "off" else HOUR)
    paused = pause_left(unit, installation_id)
    room = room_for_checks(limits, counting, spent, unit.now, wanted) if paused <= NO_WAIT else Room(0, paused)
    if room.checks:
        _spend(unit, installation_id, MUTATION_POINTS, content_of(counting, room.checks))
    return room


def reserve_query(unit: Unit, installation_id: int, limits: PaceLimits) -> timedelta:
    """Take the room for one query; returns how long there is none, if so."""
    _lock(unit, installation_id)
    spent = _spent(unit, installation_id, MINUTE)
    wait = max(pause_left(unit, installation_id), wait_for_query(limits, spent, unit.now))
    if wait <= NO_WAIT:
        _spend(unit, installation_id, QUERY_POINTS, 0)
    return wait


def paced_client(units: Units, github: GitHub, installation_id: int) -> InstallationClient:
    """Return the client for whatever nobody's merge waits for.

    Ahead of each call it writes it down, in a transaction of its own, or raises `HeldBackError`: while the installation
    is to be left alone, and while there is no room in the share. Only for jobs, and outside of any transaction.
    """
    return github.client(installation_id).after(partial(_reserve_share, units, installation_id))


def _reserve_share(units: Units, installation_id: int, *, writes: bool) -> None:
    limits = units.surroundings.pace
    with units.open(SYSTEM_CALLER) as unit:
        require_no_pause(unit, installation_id)
        counting = _counting(unit, installation_id, limits) if writes else "off"
        spent = _spent(unit, installation_id, MINUTE if counting == "off" else HOUR)
        wait = wait_of_others(limits, counting, spent, unit.now, writes=writes)
        if wait > NO_WAIT:
            raise HeldBackError("What may be asked of GitHub now is kept for verdicts", wait)
        points = MUTATION_POINTS if writes else QUERY_POINTS
        _spend(unit, installation_id, points, content_of(counting, 1) if writes else 0)


def learn_from_refusal(unit: Unit, installation_id: int, limits: PaceLimits) -> None:
    """Count created content more strictly for a day, after the code host has refused a mutation."""
    if limits.content != "learn":
        return
    _lock(unit, installation_id)
    mutations = unit.session.execute(
        text(
            "SELECT at, points, content FROM spendings WHERE installation_id = :installation AND at > :since "
            "AND points = :mutation ORDER BY at"
        ),
        {"installation": installation_id, "since": unit.now - HOUR, "mutation": MUTATION_POINTS},
    )
    spent = [Spent(*row) for row in mutations]
    before = _counting(unit, installation_id, limits)
    _learn(unit, installation_id, counting_after_refusal(before, spent, unit.now, limits))


def learn_from_refused_write(unit: Unit, installation_id: int, limits: PaceLimits) -> None:
    """Count requests that write as content for a day, after the code host has refused one that writes no checks.

    It tells nothing of the checks in a mutation: their number is counted only after a mutation was refused.
    """
    if limits.content == "learn" and _counting(unit, installation_id, limits) == "off":
        _learn(unit, installation_id, "requests")


def _learn(unit: Unit, installation_id: int, counting: Counting) -> None:
    unit.session.execute(
        text("UPDATE installations SET content_counting = :counting, content_learnt_at = :now WHERE id = :id"),
        {"counting": counting, "now": unit.now, "id": installation_id},
    )


def _lock(unit: Unit, installation_id: int) -> None:
    unit.session.execute(_LOCK, {"key": f"pace {installation_id}"})
    unit.catch_up()


def _counting(unit: Unit, installation_id: int, limits: PaceLimits) -> Counting:
    if limits.content != "learn":
        return limits.content
    learnt: Counting | None = unit.session.scalar(
        _LEARNT, {"installation": installation_id, "since": unit.now - REMEMBERED}
    )
    return learnt or "off"


def _spent(unit: Unit, installation_id: int, length: timedelta) -> Sequence[Spent]:
    values = {"installation": installation_id, "since": unit.now - length, "minute": unit.now - MINUTE}
    rows = unit.session.execute(_SPENT, values)
    return [Spent(at, int(points), int(content)) for at, points, content in rows]


def _spend(unit: Unit, installation_id: int, points: int, content: int) -> None:
    unit.session.execute(
        _SPEND, {"installation": installation_id, "now": unit.now, "points": points, "content": content}
    )
