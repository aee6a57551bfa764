"""Lanes of a timeline: where the bars of windows and freezes lie, and where two of them overlap. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

_NARROWEST = 0.4
"""Per cent of the width that a bar has at least, to be seen."""
_DAY = timedelta(days=1)

Part = tuple[datetime, datetime]
"""Start and end of a part of a span."""


class Span(NamedTuple):
    """Something that lasts from one instant to another."""

    id: str
    lane: str
    starts_at: datetime
    ends_at: datetime
    state: str
    """`planned`, `active`, `past` or `skipped`."""


class Bar(NamedTuple):
    """A part of a lane, in per cent of its width."""

    x: float
    width: float
    state: str
    span: Span


@dataclass(slots=True)
class Lane:
    """The bars of one schedule, and the parts of them that overlap with those of another."""

    id: str
    bars: list[Bar] = field(default_factory=list)
    overlaps: list[Bar] = field(default_factory=list)
    overlaps_with: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Range:
    """The time that a timeline shows."""

    start: datetime
    days: int

    @property
    def end(self) -> datetime:
        """The first instant after it."""
        return self.start + self.days * _DAY

    def position(self, instant: datetime) -> float:
        """Return where an instant is, in per cent, not beyond the ends."""
        share = (instant - self.start) / (self.days * _DAY)
        return round(min(max(share, 0), 1) * 100, 3)

    def bar(self, span: Span, starts_at: datetime, ends_at: datetime) -> Bar:
        """Return the bar of a part of a span."""
        x = self.position(starts_at)
        width = max(self.position(ends_at) - x, _NARROWEST)
        return Bar(min(x, 100 - width), round(width, 3), span.state, span)


def lanes_of(shown: Range, lanes: Sequence[str], spans: Iterable[Span]) -> list[Lane]:
    """Return the lanes in their order, each with the bars of its spans."""
    found = {each: Lane(each) for each in lanes}
    for span in sorted(spans, key=lambda span: (span.starts_at, span.id)):
        if span.lane in found and span.starts_at < shown.end and span.ends_at > shown.start:
            found[span.lane].bars.append(shown.bar(span, span.starts_at, span.ends_at))
    return list(found.values())


def meeting_lanes(lanes: Iterable[Lane]) -> set[frozenset[str]]:
    """Return the pairs of lanes that have spans at the same time; skipped ones do not count."""
    return {frozenset((lane.id, other.id)) for lane, _, going_on in _meetings(lanes) for other, _ in going_on}


def mark_overlaps(shown: Range, lanes: Sequence[Lane], sharing: Collection[frozenset[str]]) -> None:
    """Mark where spans of two lanes overlap that share a branch; `sharing` has the pairs of their ids.

    Where a span overlaps with several others, the part is marked once.
    """
    against = {lane.id: {other for pair in sharing if lane.id in pair for other in pair} for lane in lanes}
    parts: dict[tuple[str, str], list[Part]] = defaultdict(list)
    for lane, span, going_on in _meetings(lanes):
        overlapping = [each for each in going_on if each[0].id in against[lane.id]]
        for other, earlier in overlapping:
            _add(parts[other.id, earlier.id], (span.starts_at, min(span.ends_at, earlier.ends_at)))
            other.overlaps_with.add(lane.id)
            lane.overlaps_with.add(other.id)
        if overlapping:
            latest = max(earlier.ends_at for _, earlier in overlapping)
            _add(parts[lane.id, span.id], (span.starts_at, min(span.ends_at, latest)))
    for lane in lanes:
        for bar in lane.bars:
            for starts_at, ends_at in parts.get((lane.id, bar.span.id), ()):
                lane.overlaps.append(shown.bar(bar.span, starts_at, ends_at))


def _meetings(lanes: Iterable[Lane]) -> Iterator[tuple[Lane, Span, list[tuple[Lane, Span]]]]:
    """Yield each span in order, with those of other lanes that go on when it starts; skipped ones do not count."""
    spans = [(lane, bar.span) for lane in lanes for bar in lane.bars if bar.state != "skipped"]
    going_on: list[tuple[Lane, Span]] = []
    for lane, span in sorted(spans, key=lambda each: each[1].starts_at):
        going_on = [each for each in going_on if each[1].ends_at > span.starts_at]
        yield lane, span, [each for each in going_on if each[0] is not lane]
        going_on.append((lane, span))


def _add(joined: list[Part], part: Part) -> None:
    """Add a part that starts no earlier than the last one; those that touch become one."""
    if joined and part[0] <= joined[-1][1]:
        joined[-1] = joined[-1][0], max(joined[-1][1], part[1])
    else:
        joined.append(part)
