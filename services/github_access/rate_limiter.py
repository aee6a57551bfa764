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
    ApiUsage,
    Counting,
    Grant,
    PaceLimits,
    background_wait,
    content_of,
    counting_after_refusal,
    grant_checks,
    wait_for_query,
)
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.github_access.failures import ThrottledError, require_no_pause
from services.github_access.pauses import pause_left

REMEMBERED = timedelta(hours=24)
"""How long what a refusal taught is believed."""

# By whole seconds, each counted at its end: a busy minute has thousands of calls, and at most 63 seconds. Of what is
# older only content matters, and most calls create none.
_SPENT = text("""
    SELECT date_trunc('second', at) + interval '1 second', sum(points), sum(content) FROM github_api_usage
    WHERE installation_id = :installation AND at > :since AND (at > :minute OR content > 0)
    GROUP BY 1 ORDER BY 1
""")
_SPEND = text(
    "INSERT INTO github_api_usage (installation_id, at, points, content) "
    "VALUES (:installation, :now, :points, :content)"
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))")
_LEARNT = text("SELECT content_counting FROM installations WHERE id = :installation AND content_learnt_at > :since")


def reserve_checks(uow: UnitOfWork, installation_id: int, limits: PaceLimits, wanted: int) -> Grant:
    """Take the room for one mutation with up to `wanted` checks, or tell how long there is none."""
    _lock(uow, installation_id)
    counting = _counting(uow, installation_id, limits)
    spent = _spent(uow, installation_id, MINUTE if counting == "off" else HOUR)
    paused = pause_left(uow, installation_id)
    room = grant_checks(limits, counting, spent, uow.now, wanted) if paused <= NO_WAIT else Grant(0, paused)
    if room.checks:
        _spend(uow, installation_id, MUTATION_POINTS, content_of(counting, room.checks))
    return room


def reserve_query(uow: UnitOfWork, installation_id: int, limits: PaceLimits) -> timedelta:
    """Take the room for one query; returns how long there is none, if so."""
    _lock(uow, installation_id)
    spent = _spent(uow, installation_id, MINUTE)
    wait = max(pause_left(uow, installation_id), wait_for_query(limits, spent, uow.now))
    if wait <= NO_WAIT:
        _spend(uow, installation_id, QUERY_POINTS, 0)
    return wait


def paced_client(uow_factory: UnitOfWorkFactory, github: GitHub, installation_id: int) -> InstallationClient:
    """Return the client for whatever nobody's merge waits for.

    Ahead of each call it writes it down, in a transaction of its own, or raises `HeldBackError`: while the installation
    is to be left alone, and while there is no room in the share. Only for jobs, and outside of any transaction.
    """
    return github.client(installation_id).after(partial(_reserve_share, uow_factory, installation_id))


def _reserve_share(uow_factory: UnitOfWorkFactory, installation_id: int, *, writes: bool) -> None:
    limits = uow_factory.dependencies.pace
    with uow_factory.open(SYSTEM_CALLER) as uow:
        require_no_pause(uow, installation_id)
        counting = _counting(uow, installation_id, limits) if writes else "off"
        spent = _spent(uow, installation_id, MINUTE if counting == "off" else HOUR)
        wait = background_wait(limits, counting, spent, uow.now, writes=writes)
        if wait > NO_WAIT:
            raise ThrottledError("What may be asked of GitHub now is kept for verdicts", wait)
        points = MUTATION_POINTS if writes else QUERY_POINTS
        _spend(uow, installation_id, points, content_of(counting, 1) if writes else 0)


def learn_from_refusal(uow: UnitOfWork, installation_id: int, limits: PaceLimits) -> None:
    """Count created content more strictly for a day, after the code host has refused a mutation."""
    if limits.content != "learn":
        return
    _lock(uow, installation_id)
    mutations = uow.session.execute(
        text(
            "SELECT at, points, content FROM github_api_usage WHERE installation_id = :installation AND at > :since "
            "AND points = :mutation ORDER BY at"
        ),
        {"installation": installation_id, "since": uow.now - HOUR, "mutation": MUTATION_POINTS},
    )
    spent = [ApiUsage(*row) for row in mutations]
    before = _counting(uow, installation_id, limits)
    _learn(uow, installation_id, counting_after_refusal(before, spent, uow.now, limits))


def learn_from_refused_write(uow: UnitOfWork, installation_id: int, limits: PaceLimits) -> None:
    """Count requests that write as content for a day, after the code host has refused one that writes no checks.

    It tells nothing of the checks in a mutation: their number is counted only after a mutation was refused.
    """
    if limits.content == "learn" and _counting(uow, installation_id, limits) == "off":
        _learn(uow, installation_id, "requests")


def _learn(uow: UnitOfWork, installation_id: int, counting: Counting) -> None:
    uow.session.execute(
        text("UPDATE installations SET content_counting = :counting, content_learnt_at = :now WHERE id = :id"),
        {"counting": counting, "now": uow.now, "id": installation_id},
    )


def _lock(uow: UnitOfWork, installation_id: int) -> None:
    uow.session.execute(_LOCK, {"key": f"pace {installation_id}"})
    uow.refresh_now()


def _counting(uow: UnitOfWork, installation_id: int, limits: PaceLimits) -> Counting:
    if limits.content != "learn":
        return limits.content
    learnt: Counting | None = uow.session.scalar(
        _LEARNT, {"installation": installation_id, "since": uow.now - REMEMBERED}
    )
    return learnt or "off"


def _spent(uow: UnitOfWork, installation_id: int, length: timedelta) -> Sequence[ApiUsage]:
    values = {"installation": installation_id, "since": uow.now - length, "minute": uow.now - MINUTE}
    rows = uow.session.execute(_SPENT, values)
    return [ApiUsage(at, int(points), int(content)) for at, points, content in rows]


def _spend(uow: UnitOfWork, installation_id: int, points: int, content: int) -> None:
    uow.session.execute(_SPEND, {"installation": installation_id, "now": uow.now, "points": points, "content": content})
