"""GitHub's log of webhooks: what of it did not arrive, and whether it still has everything since it was last read.

GitHub sends each webhook once, and keeps a log of the deliveries for three days (seven on an Enterprise Server), newest
first, at most a hundred a page. A redelivery has an entry of its own with the same GUID. A delivery that gets no answer
is given up after ten seconds, and gets into the log behind later ones: so what was read is read again for a minute.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

READ_INTERVAL = timedelta(seconds=15)
SOON = timedelta(seconds=5)
"""When the log is read again after something was missing: more of it may be under way."""
OVERLAP = timedelta(minutes=1)
"""How long what was read is read again, for deliveries that get into the log late."""
KEPT = timedelta(days=2)
"""What is younger is in the log for certain: GitHub keeps three days, and does not say how they are counted."""
MAX_PAYLOADS = 100
"""Deliveries that one reading takes from the log, each with a call of its own."""
MAX_PAGES = 3
"""Pages of all deliveries that one reading reads; after them only those that failed, where GitHub can list them."""
MAX_FAILURE_PAGES = 10

Content = Literal["nothing", "check", "request"]
"""What a delivery may say, by event and action: nothing that we use; that a check was written, by us as a rule; or
something that was done."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One delivery, or one redelivery, without its payload."""

    id: int
    guid: str
    delivered_at: datetime
    """By GitHub's clock, in whole seconds."""
    failed: bool
    """True if it was not answered by a status from 200 to 399."""
    event: str
    content: Content
    installation_id: int | None = None
    repository_id: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the log was read."""

    since: datetime
    """By GitHub's clock: where the next reading ends. What was delivered before was read."""
    read_at: datetime
    """By our clock: when the log was last read."""
    last_id: int | None = None
    last_at: datetime | None = None
    """The newest entry that was read, and when it was delivered."""

    def advanced(self, newest: LogEntry | None, now: datetime, *, all_read: bool) -> "Mark":
        """Return the mark after a reading, whose newest entry is given; None for an empty log.

        `all_read` is True if what is older need not be read again, since everything was read from GitHub itself.
        """
        if newest is None:
            return replace(self, read_at=now, last_id=None, last_at=None)
        since = newest.delivered_at if all_read else newest.delivered_at - OVERLAP
        return Mark(max(self.since, since), now, newest.id, newest.delivered_at)


@dataclass(frozen=True, slots=True)
class Missing:
    """What did not arrive, the oldest first: one entry of each GUID."""

    requests: Sequence[LogEntry]
    """To be taken with their payloads."""
    checks: Sequence[LogEntry]
    """Checks that were written, in so large numbers that the checks of their repositories are read instead."""


def is_out_of_date(mark: Mark, now: datetime) -> bool:
    """True if the log may have lost what was delivered since the mark."""
    return now - mark.read_at > KEPT


def was_cut_off(mark: Mark, ids: Collection[int], now: datetime) -> bool:
    """True if a whole reading has not found the entry of the mark, although GitHub keeps it for longer."""
    return (
        mark.last_id is not None and mark.last_at is not None and mark.last_id not in ids and now - mark.last_at < KEPT
    )


def is_relevant(entry: LogEntry) -> bool:
    """True unless nothing can be missing of a delivery: it says nothing, or a check that arrived and was not stored."""
    return entry.content == "request" or (entry.content == "check" and entry.failed)


def missing(entries: Collection[LogEntry], stored: Collection[str]) -> Missing:
    """Return what did not arrive: its GUID is not stored. A check that arrived need not be stored.

    `entries` are all that were read, with redeliveries.
    """
    arrived = {entry.guid for entry in entries if entry.content == "check" and not entry.failed}
    lost: dict[str, LogEntry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.delivered_at, entry.id)):
        if is_relevant(entry) and entry.guid not in stored and entry.guid not in arrived:
            lost[entry.guid] = entry
    found = list(lost.values())
    return Missing(
        [entry for entry in found if entry.content == "request"], [entry for entry in found if entry.content == "check"]
    )
