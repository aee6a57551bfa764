"""How a database is recognized that was restored from a backup: by where it runs, compared with where it last ran."""

from dataclasses import dataclass, replace
from datetime import timedelta

MAX_FAILOVER = timedelta(seconds=60)
"""For how long the service may not have run on the database if a new timeline is to count as a fail-over."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a database runs."""

    system_identifier: int
    """Of the cluster; `initdb` makes a new one."""
    database_oid: int
    table_oid: int
    """Of a table of ours: a dump that is restored into the same database makes the tables again."""
    timeline: int
    """Of the write-ahead log; recovery to a point in time and the promotion of a standby begin a new one."""


def difference(before: Identity, now: Identity) -> str | None:
    """Return in a few words what differs, only the widest difference; None if the database runs where it did."""
    if before.system_identifier != now.system_identifier:
        return f"it runs in another cluster (system identifier {now.system_identifier}, not {before.system_identifier})"
    if before.database_oid != now.database_oid:
        return f"it is another database of the cluster (OID {now.database_oid}, not {before.database_oid})"
    if before.table_oid != now.table_oid:
        return "its tables were made again, as by pg_restore --clean"
    if before.timeline != now.timeline:
        return (
            f"the cluster was recovered to a point in time, or is a promoted standby "
            f"(timeline {now.timeline}, not {before.timeline})"
        )
    return None


def is_failover(before: Identity, now: Identity, silence: timedelta) -> bool:
    """True if only the timeline is new, a later one, and the service ran on the database until just before.

    `silence` is for how long it has not. A standby that is promoted has the last seconds, a backup has not.
    """
    same_place = replace(before, timeline=now.timeline) == now
    return same_place and now.timeline > before.timeline and silence <= MAX_FAILOVER
