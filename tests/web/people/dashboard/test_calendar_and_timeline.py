"""The calendar of a month, and the timeline with its lanes."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import factories
from tests.web.people.dashboard.conftest import Enter, Scene, words
from tests.web.people.dashboard.scenes import HOLIDAYS, MONTH_ENDS, WEEKENDS, create_schedule
from web.dashboard.planning.lanes import Range, Span, lanes_of, mark_overlaps, meeting_lanes

START = datetime(2026, 11, 1, tzinfo=UTC)
TEN_DAYS = Range(START, 10)


def span(name: str, lane: str, first: float, last: float, state: str = "planned") -> Span:
    return Span(name, lane, START + timedelta(days=first), START + timedelta(days=last), state)


def add_freezes(acme: Scene, number: int) -> None:
    """Add freezes of an hour, on the 28 days from the first of March on."""
    for each in range(number):
        start = datetime(2026, 3, 1 + each % 28, each // 28 % 23, tzinfo=UTC)
        ended = {"ended_at": start + timedelta(hours=1), "end_reason": "lifted", "ended_by": factories.SYSTEM}
        factories.freeze(acme.session, acme.organization, [], reason=f"Release {each}", started_at=start, **ended)


class TestCalendar:
    def test_calendar_shows_windows_of_the_month_beyond_the_planning_horizon(self, member: Enter) -> None:
        admin = member("admin")
        create_schedule(admin, **HOLIDAYS)
        page = admin.open("/calendar", month="2027-12")
        assert page.title == "December 2027"
        assert "2 entries; time zone UTC." in words(page)
        assert page.answer.text.count('<span class="hour">00:00</span> Holidays') == 2

    def test_calendar_opens_a_window_and_skips_it(self, member: Enter) -> None:
        admin = member("admin")
        create_schedule(admin, **HOLIDAYS)
        page = admin.open("/calendar", month="2027-12")
        assert 'popovertarget="at-' in page.answer.text
        page = admin.press(page, "Skip this window")
        assert "The window will be skipped." in page.text
        assert "The window is planned again." in admin.press(page, "Plan it again").text

    def test_calendar_of_a_month_without_anything_says_so(self, member: Enter) -> None:
        assert "Nothing in February 2026" in words(member("viewer").open("/calendar", month="2026-02"))

    def test_calendar_has_every_freeze_also_of_the_past(self, member: Enter, acme: Scene) -> None:
        start = datetime(2026, 3, 12, 9, tzinfo=UTC)
        ended = {"ended_at": start + timedelta(days=6), "end_reason": "lifted", "ended_by": factories.SYSTEM}
        freeze = factories.freeze(
            acme.session, acme.organization, [acme.web], reason="Migration of March", started_at=start, **ended
        )
        viewer = member("viewer")
        page = viewer.open("/calendar", month="2026-03")
        assert "1 entry; time zone UTC." in words(page)
        assert page.links["Open the freeze"] == f"/freezes/{freeze.id}"
        assert [int(days) for days in re.findall(r'<td colspan="(\d)"', page.answer.text)] == [4, 3]
        assert page.answer.text.count('class="again"') == 1  # which the list of a narrow screen leaves out
        assert "Migration of March" in viewer.open("/calendar", month="2026-03", name="march").text
        assert "Nothing in March 2026" in viewer.open("/calendar", month="2026-03", name="april").text

    def test_freeze_of_a_window_is_shown_once(self, member: Enter, acme: Scene) -> None:
        now = factories.now()
        schedule = factories.schedule(acme.session, acme.organization, name="Weekends")
        times = {"starts_at": now - timedelta(minutes=5), "ends_at": now + timedelta(minutes=5)}
        factories.occurrence(acme.session, schedule, **times)
        shown = words(member("viewer").open("/calendar"))
        assert "1 entry; time zone UTC." in shown

    def test_freeze_by_hand_is_shown_beside_any_number_of_windows_that_froze(self, member: Enter, acme: Scene) -> None:
        start = datetime(2026, 3, 2, 9, tzinfo=UTC)
        ended = {"ended_at": start + timedelta(hours=1), "end_reason": "lifted", "ended_by": factories.SYSTEM}
        factories.freeze(acme.session, acme.organization, [], reason="Migration of March", started_at=start, **ended)
        schedule = factories.schedule(acme.session, acme.organization, name="Deploys", enabled=False)
        for number in range(301):
            at = start + timedelta(days=1, hours=number)
            window = factories.occurrence(acme.session, schedule, starts_at=at, ends_at=at + timedelta(minutes=30))
            of_window = {"occurrence_id": window.id, "schedule_id": schedule.id, "source": "schedule"}
            done = {**ended, "ended_at": at + timedelta(minutes=30), "end_reason": "schedule_ended"}
            factories.freeze(acme.session, acme.organization, [], started_at=at, **of_window, **done)
        page = member("viewer").open("/calendar", month="2026-03")
        assert "</span> Migration of March</button>" in page.answer.text

    def test_day_of_the_calendar_starts_a_plan(self, member: Enter, acme: Scene) -> None:
        page = member("member").open("/calendar", month="2027-04")
        assert "/freezes/new?from=2027-04-28" in page.addresses
        assert "/freezes/new?from=2027-05-02" in page.addresses, "a neighbour's day"

    def test_year_shows_which_days_are_busy(self, member: Enter, acme: Scene) -> None:
        admin = member("admin")
        create_schedule(admin, **HOLIDAYS)
        page = admin.open(admin.open("/calendar", month="2027-12").links["Year"])
        assert page.title == "2027"
        assert page.answer.text.count("busy") == 2 + 2, "two days, and the legend"
        assert admin.open(page.links["December"]).title == "December 2027"

    def test_year_counts_every_freeze(self, member: Enter, acme: Scene) -> None:
        add_freezes(acme, 700)
        page = member("viewer").open("/calendar", year="2026")
        assert "700 entries; time zone UTC." in words(page)
        assert page.answer.text.count(": 25</span>") == 28

    def test_month_says_how_many_freezes_it_does_not_show(self, member: Enter, acme: Scene) -> None:
        add_freezes(acme, 700)
        viewer = member("viewer")
        page = viewer.open("/calendar", month="2026-03")
        assert "More than 300 entries; time zone UTC." in words(page)
        assert "And 400 more: all freezes of these days" in words(page)
        listed = viewer.open(page.links["all freezes of these days"])
        assert listed.form("Find").fields.items() >= {"from": "2026-02-23", "to": "2026-04-05"}.items()
        assert "Release 699" in listed.text

    def test_calendar_shows_this_month_for_an_invalid_one(self, member: Enter) -> None:
        page = member("viewer").open("/calendar", month="2026-13")
        assert page.title == f"{factories.now():%B %Y}"


class TestTimeline:
    def test_timeline_has_a_lane_for_each_schedule_and_hatches_overlaps(self, member: Enter) -> None:
        admin = member("admin")
        for fields in (WEEKENDS, MONTH_ENDS):
            create_schedule(admin, **fields)
        page = admin.open("/timeline", **{"from": "2027-01-01", "days": "90"})
        assert "31 March 2027; time zone UTC" in words(page)
        assert "Overlaps with Month end" in words(page)
        assert 'fill="url(#hatch)"' in page.answer.text
        assert "style=" not in page.answer.text

    def test_timeline_names_the_lane_of_each_freeze_started_by_hand(self, member: Enter, acme: Scene) -> None:
        factories.freeze(acme.session, acme.organization, [acme.web], reason="Database migration")
        past = {"started_at": datetime(2026, 3, 12, tzinfo=UTC), "ended_at": datetime(2026, 3, 14, tzinfo=UTC)}
        ended: dict[str, Any] = {"end_reason": "lifted", "ended_by": factories.SYSTEM, **past}
        factories.freeze(acme.session, acme.organization, [acme.api], reason="Migration of March", **ended)
        viewer = member("viewer")
        now, march = viewer.open("/timeline"), viewer.open("/timeline", **{"from": "2026-03-01"})
        assert "Database migration started by hand" in words(now)
        assert "Migration of March" not in now.text
        assert 'aria-label="Migration of March: ended"' in march.answer.text

    def test_window_leads_to_its_month_in_the_zone_of_the_organization(self, member: Enter) -> None:
        admin = member("admin")
        zone = {"timezone": "Pacific/Auckland"}
        admin.press(admin.open("/settings"), "Save", **zone)
        create_schedule(admin, **{**HOLIDAYS, "dates": "2028-01-01"}, **zone)
        lanes = admin.open("/timeline", **{"from": "2027-12-25", "days": "14"})
        page = admin.open(lanes.links["As a list"])
        assert admin.open(page.links["As lanes"]).addresses == lanes.addresses
        window = next(each for each in page.addresses if each.startswith("/calendar?month="))
        assert "Skip this window" in admin.open(window).text

    def test_timeline_shows_fifteen_schedules_a_page(self, member: Enter, acme: Scene) -> None:
        for number in range(16):
            schedule = factories.schedule(acme.session, acme.organization, name=f"Nightly {number}")
            factories.occurrence(acme.session, schedule, starts_at=factories.now() + timedelta(hours=20 + number))
        viewer = member("viewer")
        page = viewer.open("/timeline")
        assert all(f"Nightly {number}" in page.links for number in range(15))
        last = viewer.open(page.links["Next rows"])
        assert "Nightly 15" in last.links
        assert "Nightly 14" not in last.links
        assert "None of these schedules has a window in these days" in viewer.open(last.links["Later"]).text

    def test_timeline_without_windows_says_so(self, member: Enter) -> None:
        assert "Nothing is planned in these days" in member("viewer").open("/timeline", **{"from": "nonsense"}).text


class TestLanes:
    def test_bars_lie_where_their_time_is(self) -> None:
        [lane] = lanes_of(TEN_DAYS, ["a"], [span("1", "a", 1, 3), span("2", "a", 9, 14), span("3", "a", -5, 0)])
        assert [(bar.x, bar.width) for bar in lane.bars] == [(10, 20), (90, 10)]

    def test_short_bar_can_still_be_seen_at_the_end(self) -> None:
        [lane] = lanes_of(TEN_DAYS, ["a"], [span("1", "a", 9.9999, 11)])
        assert [(bar.x, bar.width) for bar in lane.bars] == [(99.6, 0.4)]

    def test_overlaps_are_marked_where_lanes_share_a_branch(self) -> None:
        lanes = lanes_of(TEN_DAYS, ["a", "b", "c"], [span("1", "a", 1, 3), span("2", "b", 2, 4), span("3", "c", 2, 4)])
        assert len(meeting_lanes(lanes)) == 3
        mark_overlaps(TEN_DAYS, lanes, {frozenset("ab")})
        assert [[(bar.x, bar.width) for bar in lane.overlaps] for lane in lanes] == [[(20, 10)], [(20, 10)], []]
        assert lanes[0].overlaps_with == {"b"}

    def test_part_that_overlaps_with_several_lanes_is_marked_once(self) -> None:
        spans = [span("1", "a", 1, 5), span("2", "b", 2, 4), span("3", "c", 2, 4), span("4", "d", 3, 6)]
        lanes = lanes_of(TEN_DAYS, ["a", "b", "c", "d"], spans)
        mark_overlaps(TEN_DAYS, lanes, meeting_lanes(lanes))
        assert [[(bar.x, bar.width) for bar in lane.overlaps] for lane in lanes] == [
            [(20, 30)], [(20, 20)], [(20, 20)], [(30, 20)],
        ]  # fmt: skip
        assert lanes[0].overlaps_with == {"b", "c", "d"}

    def test_skipped_windows_overlap_with_nothing(self) -> None:
        lanes = lanes_of(TEN_DAYS, ["a", "b"], [span("1", "a", 1, 3, "skipped"), span("2", "b", 2, 4)])
        assert meeting_lanes(lanes) == set()
