"""Lanes of a timeline: where the bars of windows and freezes lie, and where two of them overlap. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

_NARROWEST = 0.4
"""Per cent of the width that a bar has at least, to be seen."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasts from one instant to another."""

    id: str
    lane: str
    starts_at: datetime
    ends_at: datetime
    state: str
    """`planned`, `active`, `past` or `skipped`."""


@dataclass(frozen=True, slots=True)
class Bar:
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
        return self.start + timedelta(days=self.days)

    def position(self, instant: datetime) -> float:
        """Return where an instant is, in per cent, not beyond the ends."""
        share = (instant - self.start) / (self.end - self.start)
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
    return {frozenset((first.id, second.id)) for (first, _), (second, _) in _meetings(lanes)}


def mark_overlaps(shown: Range, lanes: Sequence[Lane], sharing: Collection[frozenset[str]]) -> None:
    """Mark where spans of two lanes overlap that share a branch; `sharing` has the pairs of their ids.

    Where a span overlaps with several others, the part is marked once.
    """
    parts: dict[tuple[str, str], list[tuple[datetime, datetime]]] = defaultdict(list)
    for one, other in _meetings(lanes):
        if frozenset((one[0].id, other[0].id)) not in sharing:
            continue
        part = max(one[1].starts_at, other[1].starts_at), min(one[1].ends_at, other[1].ends_at)
        for (lane, span), (against, _) in ((one, other), (other, one)):
            lane.overlaps_with.add(against.id)
            parts[lane.id, span.id].append(part)
    for lane in lanes:
        for bar in lane.bars:
            for starts_at, ends_at in _joined(parts.get((lane.id, bar.span.id), ())):
                lane.overlaps.append(shown.bar(bar.span, starts_at, ends_at))


def _meetings(lanes: Iterable[Lane]) -> Iterator[tuple[tuple[Lane, Span], tuple[Lane, Span]]]:
    """Yield the spans of two lanes that last at the same time, each with its lane; skipped ones do not count."""
    spans = [(lane, bar.span) for lane in lanes for bar in lane.bars if bar.state != "skipped"]
    going_on: list[tuple[Lane, Span]] = []
    for lane, span in sorted(spans, key=lambda each: each[1].starts_at):
        going_on = [each for each in going_on if each[1].ends_at > span.starts_at]
        yield from (((other, (lane, span))) for other in going_on if other[0] is not lane)
        going_on.append((lane, span))


def _joined(parts: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Return the parts in order, those that touch as one."""
    joined: list[tuple[datetime, datetime]] = []
    for starts_at, ends_at in sorted(parts):
        if joined and starts_at <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], ends_at)
        else:
            joined.append((starts_at, ends_at))
    return joined
