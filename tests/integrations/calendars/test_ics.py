"""Calendar files: hand-written ones, feature by feature of RFC 5545, and real ones of every country."""

from datetime import UTC, date, datetime, timedelta

import holidays
import pytest
from holidays.ical import ICalExporter

from integrations.calendars.content import ImportedWindow
from tests.integrations.calendars.vectors import NOW, calendar, evening_before, only, read, read_apart, spans, why

CHRISTMAS = calendar(
    "UID:christmas@example.com\nSUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227"
)
STANDUP = "UID:deploys@example.com\nSUMMARY:Deploys\n"
WEEKLY = f"{STANDUP}DTSTART;TZID=Europe/London:20260105T170000\nDTEND;TZID=Europe/London:20260105T180000\n"


def by_part(text: str) -> dict[str, ImportedWindow]:
    return {found.part: found for found in read(text).found}


class TestWholeDays:
    def test_whole_day_event_covers_its_days_in_the_zone_of_the_schedule(self) -> None:
        found = only(CHRISTMAS)
        assert (found.uid, found.part, found.name, found.timezone) == (
            "christmas@example.com",
            "",
            "Christmas",
            "Europe/London",
        )
        assert spans(found) == [("2026-12-25T00:00", "2026-12-27T00:00")]
        assert spans(only(CHRISTMAS, timezone="Asia/Tokyo")) == [("2026-12-24T15:00", "2026-12-26T15:00")]

    def test_whole_day_event_without_an_end_lasts_one_day(self) -> None:
        found = only(calendar("UID:1\nDTSTART;VALUE=DATE:20261225"))
        assert spans(found) == [("2026-12-25T00:00", "2026-12-26T00:00")]

    def test_chosen_window_begins_on_the_first_day_and_ends_after_the_last(self) -> None:
        found = only(CHRISTMAS, window=evening_before())
        assert spans(found) == [("2026-12-25T17:00", "2026-12-27T08:00")]

    def test_whole_day_event_includes_the_day_before_on_request(self) -> None:
        assert spans(only(CHRISTMAS, day_before=True)) == [("2026-12-24T00:00", "2026-12-27T00:00")]
        text = calendar("UID:1\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=YEARLY")
        assert spans(only(text, day_before=True), last="2028-01-01") == [
            ("2026-12-31T00:00", "2027-01-02T00:00"),
            ("2027-12-31T00:00", "2028-01-02T00:00"),
        ]

    def test_whole_day_rule_is_kept_as_a_rule(self) -> None:
        found = only(calendar("UID:1\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=YEARLY"))
        assert found.recurrence == {"frequency": "yearly", "start_date": "2020-01-01"}


class TestTimes:
    def test_timed_event_is_read_in_its_own_zone(self) -> None:
        found = only(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY;BYDAY=MO"), timezone="Asia/Tokyo")
        assert found.timezone == "Europe/London"
        assert found.recurrence == {"frequency": "weekly", "start_date": "2026-01-05", "by_day": ["MO"]}
        assert ("2026-03-23T17:00", "2026-03-23T18:00") in spans(found)
        assert ("2026-03-30T16:00", "2026-03-30T17:00") in spans(found)

    def test_timed_event_without_a_zone_is_read_in_the_zone_of_the_schedule(self) -> None:
        found = only(calendar("UID:1\nDTSTART:20261225T090000\nDURATION:PT90M"), timezone="America/New_York")
        assert found.timezone == "America/New_York"
        assert spans(found) == [("2026-12-25T14:00", "2026-12-25T15:30")]

    def test_utc_event_is_an_instant_and_repeats_in_utc(self) -> None:
        once = only(calendar("UID:1\nDTSTART:20270701T230000Z\nDTEND:20270702T010000Z"))
        assert (once.timezone, once.window["start_time"]) == ("Europe/London", "00:00")
        assert spans(once) == [("2027-07-01T23:00", "2027-07-02T01:00")]
        daily = only(calendar("UID:1\nDTSTART:20260701T230000Z\nDTEND:20260702T010000Z\nRRULE:FREQ=DAILY"))
        assert daily.timezone == "UTC"
        assert {start[11:] for start, _end in spans(daily)} == {"23:00"}

    def test_windows_name_of_a_zone_is_known(self) -> None:
        zone = "W. Europe Standard Time"
        text = calendar(f"UID:1\nDTSTART;TZID={zone}:20270701T100000\nDTEND;TZID={zone}:20270701T110000")
        assert only(text).timezone == "Europe/Berlin"
        assert spans(only(text)) == [("2027-07-01T08:00", "2027-07-01T09:00")]

    def test_zone_defined_by_the_calendar_is_read_by_its_definition(self) -> None:
        zone = (
            "BEGIN:VTIMEZONE\nTZID:Head Office\n"
            "BEGIN:STANDARD\nDTSTART:19701025T030000\nTZOFFSETFROM:+0300\nTZOFFSETTO:+0200\n"
            "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nEND:STANDARD\n"
            "BEGIN:DAYLIGHT\nDTSTART:19700329T020000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0300\n"
            "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nEND:DAYLIGHT\nEND:VTIMEZONE\n"
        )
        event = "UID:1\nDTSTART;TZID=Head Office:{0}T100000\nDTEND;TZID=Head Office:{0}T120000"
        summer = only(calendar(event.format("20270701"), head=zone))
        winter = only(calendar(event.format("20270101"), head=zone))
        assert summer.timezone == "Europe/London"
        assert spans(summer) == [("2027-07-01T07:00", "2027-07-01T09:00")]
        assert spans(winter) == [("2027-01-01T08:00", "2027-01-01T10:00")]

    def test_zone_definition_does_not_apply_to_another_calendar(self) -> None:
        event = "UID:1\nDTSTART;TZID=Ours:20270701T100000\nDTEND;TZID=Ours:20270701T120000"
        zone = (
            "BEGIN:VTIMEZONE\nTZID:Ours\nBEGIN:STANDARD\nDTSTART:19700101T000000\n"
            "TZOFFSETFROM:+0500\nTZOFFSETTO:+0500\nEND:STANDARD\nEND:VTIMEZONE\n"
        )
        (found,) = read_apart(calendar(event, head=zone)).found
        assert spans(found) == [("2027-07-01T05:00", "2027-07-01T07:00")]
        assert why(read_apart(calendar(event))) == ["unknown_timezone"]

    def test_default_zone_of_a_calendar_applies_to_its_utc_times(self) -> None:
        text = calendar(
            "UID:1\nDTSTART:20260105T220000Z\nDTEND:20260105T230000Z\nRRULE:FREQ=WEEKLY",
            head="X-WR-TIMEZONE:America/New_York\n",
        )
        assert only(text).timezone == "America/New_York"
        assert ("2026-07-06T21:00", "2026-07-06T22:00") in spans(only(text))

    def test_seconds_of_an_event_are_rounded_outwards(self) -> None:
        found = only(calendar("UID:1\nDTSTART:20261225T090030\nDTEND:20261225T095930"))
        assert (found.window["start_time"], found.window["end_time"]) == ("09:00", "10:00")

    def test_event_crossing_midnights_ends_days_later(self) -> None:
        found = only(calendar("UID:1\nDTSTART:20261224T170000\nDURATION:P3DT15H"))
        assert found.window == {"start_time": "17:00", "end_time": "08:00", "days": 4}


class TestRepeatedEvents:
    @pytest.mark.parametrize(
        ("start", "duration", "end"),
        [
            ("20260328T220000", "PT12H", "2026-03-29T09:00"),
            ("20261024T220000", "PT12H", "2026-10-25T08:00"),
            ("20260328T220000", "P1D", "2026-03-29T20:00"),
            ("20260328T220000", "P1DT1H", "2026-03-29T21:00"),
            ("20260328T220000", "PT12H\nRRULE:FREQ=DAILY;COUNT=1", "2026-03-29T08:00"),
        ],
    )
    def test_hours_of_a_duration_are_exact_across_a_change_of_clocks(self, start: str, duration: str, end: str) -> None:
        found = only(calendar(f"UID:1\nDTSTART;TZID=Europe/Berlin:{start}\nDURATION:{duration}"))
        assert spans(found)[0][1] == end

    def test_repeated_event_has_excluded_and_added_days(self) -> None:
        text = calendar(
            f"{WEEKLY}RRULE:FREQ=WEEKLY;COUNT=4\nEXDATE;TZID=Europe/London:20260112T170000\n"
            "RDATE;TZID=Europe/London:20260114T170000"
        )
        assert [start for start, _end in spans(only(text))] == [
            "2026-01-05T17:00",
            "2026-01-14T17:00",
            "2026-01-19T17:00",
            "2026-01-26T17:00",
        ]

    def test_added_period_has_its_own_length(self) -> None:
        found = by_part(calendar(f"{WEEKLY}RDATE;VALUE=PERIOD:20260114T170000Z/PT3H"))
        assert spans(found[""]) == [("2026-01-05T17:00", "2026-01-05T18:00")]
        assert spans(found["17:00-20:00"]) == [("2026-01-14T17:00", "2026-01-14T20:00")]
        assert found["17:00-20:00"].name == "Deploys (17:00-20:00)"

    def test_repeated_event_has_moved_and_cancelled_instances(self) -> None:
        moved = (
            f"{STANDUP}RECURRENCE-ID;TZID=Europe/London:20260112T170000\n"
            "DTSTART;TZID=Europe/London:20260113T090000\nDTEND;TZID=Europe/London:20260113T100000"
        )
        cancelled = (
            f"{STANDUP}RECURRENCE-ID;TZID=Europe/London:20260119T170000\nSTATUS:CANCELLED\n"
            "DTSTART;TZID=Europe/London:20260119T170000\nDTEND;TZID=Europe/London:20260119T180000"
        )
        found = by_part(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY;COUNT=4", moved, cancelled))
        assert [start for start, _end in spans(found[""])] == ["2026-01-05T17:00", "2026-01-26T17:00"]
        assert spans(found["09:00-10:00"]) == [("2026-01-13T09:00", "2026-01-13T10:00")]

    def test_moved_instance_takes_all_later_instances_along(self) -> None:
        later = (
            f"{STANDUP}RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/London:20260119T170000\n"
            "DTSTART;TZID=Europe/London:20260119T190000\nDTEND;TZID=Europe/London:20260119T200000"
        )
        found = by_part(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY;COUNT=4", later))
        assert [start for start, _end in spans(found[""])] == ["2026-01-05T17:00", "2026-01-12T17:00"]
        assert [start for start, _end in spans(found["19:00-20:00"])] == ["2026-01-19T19:00", "2026-01-26T19:00"]

    def test_later_instances_that_are_cut_say_so_at_their_own_times(self) -> None:
        later = (
            f"{STANDUP}RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/London:20260119T170000\n"
            "DTSTART;TZID=Europe/London:20260119T190000\nDTEND;TZID=Europe/London:20260119T200000"
        )
        found = by_part(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY", later))
        assert {part: window.cut for part, window in found.items()} == {"": False, "19:00-20:00": True}

    def test_last_working_day_of_the_month_is_kept_as_a_rule(self) -> None:
        found = only(
            calendar("UID:1\nDTSTART;VALUE=DATE:20260130\nRRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1")
        )
        assert found.recurrence == {
            "frequency": "monthly",
            "start_date": "2026-01-30",
            "by_day": ["MO", "TU", "WE", "TH", "FR"],
            "by_set_position": [-1],
        }
        assert not found.cut

    @pytest.mark.parametrize(
        ("rule", "recurrence"),
        [
            ("FREQ=MONTHLY;BYDAY=FR;BYSETPOS=-1", {"frequency": "monthly", "by_day": ["-1FR"]}),
            ("FREQ=MONTHLY;BYDAY=FR;BYSETPOS=1,-1", {"frequency": "monthly", "by_day": ["1FR", "-1FR"]}),
            (
                "FREQ=YEARLY;BYMONTH=1;BYDAY=FR;BYSETPOS=-1",
                {"frequency": "yearly", "by_day": ["-1FR"], "by_month": [1]},
            ),
            ("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=-1", {"frequency": "weekly", "by_day": ["FR"]}),
            ("FREQ=WEEKLY;BYDAY=SU,FR;BYSETPOS=1;WKST=SU", {"frequency": "weekly", "by_day": ["SU"]}),
            ("FREQ=WEEKLY;BYSETPOS=1", {"frequency": "weekly", "by_day": ["FR"]}),
            ("FREQ=DAILY;BYSETPOS=-1", {"frequency": "daily"}),
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;WKST=SU", {"frequency": "weekly", "interval": 2, "by_day": ["FR"]}),
        ],
    )
    def test_position_or_week_start_that_says_nothing_is_left_out(
        self, rule: str, recurrence: dict[str, object]
    ) -> None:
        start = "2026-01-04" if "SU" in recurrence.get("by_day", ()) else "2026-01-30"  # type: ignore[operator]
        found = only(calendar(f"UID:1\nDTSTART;VALUE=DATE:{start.replace('-', '')}\nRRULE:{rule}"))
        assert found.recurrence == {"start_date": start, **recurrence}

    def test_positions_of_the_first_week_count_from_its_first_day(self) -> None:
        text = calendar("UID:1\nDTSTART;VALUE=DATE:20260107\nRRULE:FREQ=WEEKLY;COUNT=2;BYDAY=MO,WE,FR;BYSETPOS=2")
        assert only(text).recurrence["by_day"] == ["WE"]
        in_march = "FREQ=WEEKLY;BYMONTH=3;BYDAY=MO,WE,FR;BYSETPOS=2;COUNT=3"
        found = only(calendar(f"UID:1\nDTSTART;VALUE=DATE:20260304\nRRULE:{in_march}"))
        assert [start[:10] for start, _end in spans(found)] == ["2026-03-04", "2026-03-11", "2026-03-18"]
        late = only(calendar(f"UID:1\nDTSTART;VALUE=DATE:20260306\nRRULE:{in_march.replace('=2;', '=3;')}"))
        assert [start[:10] for start, _end in spans(late)] == ["2026-03-06", "2026-03-13", "2026-03-20"]

    def test_endless_rule_that_must_be_listed_is_cut_after_five_years(self) -> None:
        text = calendar("UID:1\nDTSTART;VALUE=DATE:20150101\nRRULE:FREQ=YEARLY;BYYEARDAY=1")
        found = only(text)
        dates = found.recurrence["dates"]
        assert (dates[0], dates[-1], len(dates), found.cut) == ("2026-01-01", "2031-01-01", 6, True)
        assert only(text, now=datetime(2026, 2, 1, tzinfo=UTC)).recurrence["dates"] == dates

    @pytest.mark.parametrize(
        ("end", "cut"), [("COUNT=17", False), ("COUNT=18", True), ("UNTIL=20310601", False), ("UNTIL=20320101", True)]
    )
    def test_rule_that_must_be_listed_is_cut_only_if_it_goes_on(self, end: str, cut: bool) -> None:
        text = calendar(f"UID:1\nDTSTART;VALUE=DATE:20150101\nRRULE:FREQ=YEARLY;BYYEARDAY=1;{end}")
        assert only(text).cut is cut

    def test_listed_days_beyond_the_limit_are_cut(self) -> None:
        added = ",".join(f"{date(2027, 1, 1) + timedelta(days=lag):%Y%m%d}" for lag in range(1001))
        found = only(calendar(f"UID:1\nDTSTART;VALUE=DATE:20260101\nRDATE;VALUE=DATE:{added}"))
        assert found.cut
        assert len(found.recurrence["dates"]) == 1000

    def test_rule_that_began_long_ago_continues(self) -> None:
        text = calendar("UID:1\nDTSTART;VALUE=DATE:19910409\nRRULE:FREQ=YEARLY;INTERVAL=2")
        found = only(text)
        assert found.recurrence == {"frequency": "yearly", "start_date": "2001-04-09", "interval": 2}

    def test_weekly_rule_whose_weeks_begin_on_sunday_is_kept_as_a_rule(self) -> None:
        found = only(calendar("UID:1\nDTSTART;VALUE=DATE:20260106\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU"))
        assert found.recurrence["week_start"] == "SU"
        assert [start[:10] for start, _end in spans(found)][:4] == [
            "2026-01-06",
            "2026-01-18",
            "2026-01-20",
            "2026-02-01",
        ]

    @pytest.mark.parametrize(
        ("until", "last"),
        [("20260202T170000Z", "2026-02-02"), ("20260202T165959Z", "2026-02-01"), ("20260202", "2026-02-02")],
    )
    def test_end_of_a_rule_is_a_day_in_the_zone_of_the_event(self, until: str, last: str) -> None:
        assert only(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY;UNTIL={until}")).recurrence["until"] == last

    def test_start_outside_the_rule_is_an_occurrence(self) -> None:
        text = calendar("UID:1\nDTSTART;VALUE=DATE:20260107\nRRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=2")
        assert only(text).recurrence["dates"] == ["2026-01-07", "2026-01-12", "2026-01-19"]


class TestChangedRules:
    @pytest.mark.parametrize(
        ("event", "excluded"),
        [
            pytest.param("EXDATE;TZID=Europe/London:20260615T170000,20260622T170000", True, id="in its zone"),
            pytest.param("EXDATE:20260615T160000Z\nEXDATE:20260622T160000Z", True, id="in UTC"),
            pytest.param("EXDATE;VALUE=DATE:20260615,20260622", True, id="as days"),
            pytest.param("EXDATE:20260615T170000,20260622T170000", True, id="without a zone"),
            pytest.param("EXDATE;TZID=Europe/London:20260615T180000", False, id="at another time"),
            pytest.param("EXDATE;VALUE=DATE:20260616", False, id="on another day"),
        ],
    )
    def test_endless_rule_keeps_its_excluded_days(self, event: str, excluded: bool) -> None:
        found = only(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY\n{event}"))
        assert found.recurrence.get("except_dates") == (["2026-06-15", "2026-06-22"] if excluded else None)
        assert (found.recurrence["frequency"], found.cut) == ("weekly", False)

    def test_whole_day_rule_keeps_its_excluded_days(self) -> None:
        rule = "UID:1\nDTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY\n"
        by_day = only(calendar(f"{rule}EXDATE;VALUE=DATE:20261225"))
        assert by_day.recurrence["except_dates"] == ["2026-12-25"]
        assert only(calendar(f"{rule}EXDATE:20261225T000000Z")).recurrence == by_day.recurrence
        assert only(calendar(f"{rule}EXDATE;VALUE=DATE:20261225"), day_before=True).recurrence == {
            "frequency": "daily",
            "start_date": "2025-12-31",
            "except_dates": ["2026-12-24"],
        }

    def test_excluded_day_may_be_one_on_which_clocks_skip_the_start(self) -> None:
        start = "UID:1\nDTSTART;TZID=Europe/London:20260301T013000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY\n"
        assert only(calendar(f"{start}EXDATE:20260329T013000Z")).recurrence["except_dates"] == ["2026-03-29"]

    def test_endless_rule_keeps_cancelled_and_moved_instances(self) -> None:
        instance = f"{STANDUP}RECURRENCE-ID;TZID=Europe/London:{{0}}T170000\n"
        cancelled = f"{instance.format('20260112')}STATUS:CANCELLED\nDTSTART;TZID=Europe/London:20260112T170000"
        moved = (
            f"{instance.format('20270104')}DTSTART;TZID=Europe/London:20270105T090000\n"
            "DTEND;TZID=Europe/London:20270105T100000"
        )
        found = by_part(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY", cancelled, moved))
        assert found[""].recurrence == {
            "frequency": "weekly",
            "start_date": "2026-01-05",
            "except_dates": ["2026-01-12", "2027-01-04"],
        }
        assert found["09:00-10:00"].recurrence == {"frequency": "once", "start_date": "2027-01-05"}

    def test_instance_with_another_name_only_stays_in_the_rule(self) -> None:
        start = "DTSTART;TZID=Europe/London:20270104T170000\nDTEND;TZID=Europe/London:20270104T180000"
        renamed = f"UID:deploys@example.com\nSUMMARY:Big\nRECURRENCE-ID;TZID=Europe/London:20270104T170000\n{start}"
        found = only(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY", renamed))
        assert found.recurrence == {"frequency": "weekly", "start_date": "2026-01-05"}

    def test_endless_rule_with_added_days_has_them_beside_it(self) -> None:
        added = "RDATE;TZID=Europe/London:20270106T170000,20270111T170000"
        found = by_part(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY\n{added}"))
        assert found[""].recurrence == {"frequency": "weekly", "start_date": "2026-01-05"}
        assert found["17:00-18:00"].recurrence == {"frequency": "once", "start_date": "2027-01-06"}
        assert not any(window.cut for window in found.values())

    def test_endless_rule_without_its_start_has_it_beside_it(self) -> None:
        found = by_part(calendar("UID:1\nDTSTART;VALUE=DATE:20261230\nRRULE:FREQ=WEEKLY;BYDAY=MO"))
        assert found[""].recurrence == {"frequency": "weekly", "start_date": "2026-12-30", "by_day": ["MO"]}
        assert found["00:00-00:00+1"].recurrence == {"frequency": "once", "start_date": "2026-12-30"}

    def test_other_days_of_a_rule_are_left_out_when_they_are_over(self) -> None:
        rule = "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"
        found = only(calendar(f"UID:1\nDTSTART;VALUE=DATE:20260105\n{rule}"))
        assert (found.part, found.recurrence["start_date"]) == ("", "2026-01-05")

    def test_rule_that_loses_all_days_is_left_out(self) -> None:
        text = calendar("UID:1\nDTSTART;VALUE=DATE:20261230\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE;VALUE=DATE:20261230")
        assert why(read(text)) == ["past"]

    def test_too_many_excluded_days_are_kept_from_this_year_on(self) -> None:
        excluded = [date(2024, 1, 1) + timedelta(days=lag) for lag in range(0, 2100, 2)]
        listing = ",".join(f"{day:%Y%m%d}" for day in excluded)
        rule = f"UID:1\nDTSTART;VALUE=DATE:20240101\nRRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:{listing}"
        found = only(calendar(rule))
        recent = [day.isoformat() for day in excluded if day >= date(2025, 12, 30)]
        assert found.recurrence["except_dates"] == recent


class TestDayBefore:
    @pytest.mark.parametrize(
        ("start", "rule", "recurrence"),
        [
            pytest.param(
                "20201225",
                "FREQ=YEARLY",
                {"frequency": "yearly", "start_date": "2020-12-24", "by_month": [12], "by_month_day": [24]},
                id="Christmas",
            ),
            pytest.param(
                "20200101",
                "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1",
                {"frequency": "yearly", "start_date": "2019-12-31", "by_month": [12], "by_month_day": [-1]},
                id="New Year",
            ),
            pytest.param(
                "20201126",
                "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH",
                {
                    "frequency": "yearly",
                    "start_date": "2020-11-25",
                    "by_day": ["WE"],
                    "by_month": [11],
                    "by_month_day": [21, 22, 23, 24, 25, 26, 27],
                },
                id="Thanksgiving",
            ),
            pytest.param(
                "20260105",
                "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE",
                {
                    "frequency": "weekly",
                    "start_date": "2026-01-04",
                    "interval": 2,
                    "by_day": ["SU", "TU"],
                    "week_start": "SU",
                },
                id="two days of every other week",
            ),
            pytest.param(
                "19990101",
                "FREQ=YEARLY;INTERVAL=2",
                {
                    "frequency": "yearly",
                    "start_date": "2000-12-31",
                    "interval": 2,
                    "by_month": [12],
                    "by_month_day": [-1],
                },
                id="from before the first date of schedules",
            ),
        ],
    )
    def test_rule_whose_windows_start_the_day_before_stays_a_rule(
        self, start: str, rule: str, recurrence: dict[str, object]
    ) -> None:
        found = only(calendar(f"UID:1\nDTSTART;VALUE=DATE:{start}\nRRULE:{rule}"), day_before=True)
        assert (found.recurrence, found.cut) == (recurrence, False)

    def test_first_weekday_of_a_month_becomes_two_rules(self) -> None:
        text = calendar("UID:1\nSUMMARY:Bank\nDTSTART;VALUE=DATE:20260504\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=1MO")
        reading = read(text, day_before=True)
        rules = {found.part: found.recurrence for found in reading.found}
        assert rules[""] == {
            "frequency": "yearly",
            "start_date": "2026-05-03",
            "by_day": ["SU"],
            "by_month": [5],
            "by_month_day": [1, 2, 3, 4, 5, 6],
        }
        assert rules["end of month"] == {
            "frequency": "yearly",
            "start_date": "2028-04-30",
            "by_day": ["SU"],
            "by_month": [4],
            "by_month_day": [-1],
        }
        assert [(found.name, found.cut) for found in reading.found] == [("Bank", False), ("Bank (end of month)", False)]
        counted = only(text.replace("BYDAY=1MO", "BYDAY=1MO;COUNT=4"), day_before=True)
        assert counted.recurrence["dates"] == ["2026-05-03", "2027-05-02", "2028-04-30", "2029-05-06"]

    def test_rule_without_a_day_before_is_listed_and_cut(self) -> None:
        text = calendar("UID:1\nDTSTART;VALUE=DATE:20260131\nRRULE:FREQ=MONTHLY;BYMONTHDAY=31")
        found = only(text, day_before=True)
        assert (found.recurrence["dates"][:2], found.cut) == (["2026-01-30", "2026-03-30"], True)
        assert not only(text.replace("=31\r", "=31;COUNT=9\r"), day_before=True).cut

    def test_day_before_does_not_move_timed_events(self) -> None:
        found = only(calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY"), day_before=True)
        assert found.recurrence["start_date"] == "2026-01-05"


class TestLeftOut:
    def test_cancelled_event_is_left_out(self) -> None:
        assert why(read(calendar("UID:1\nSTATUS:CANCELLED\nDTSTART;VALUE=DATE:20261225"))) == ["cancelled"]

    def test_every_event_of_a_cancelling_message_is_left_out(self) -> None:
        assert why(read(calendar("UID:1\nDTSTART;VALUE=DATE:20261225", head="METHOD:CANCEL\n"))) == ["cancelled"]

    def test_newest_event_of_a_uid_is_read(self) -> None:
        older = "UID:1\nSEQUENCE:1\nDTSTART;VALUE=DATE:20261225"
        newer = "UID:1\nSEQUENCE:2\nDTSTART;VALUE=DATE:20261226"
        assert only(calendar(newer, older)).recurrence["start_date"] == "2026-12-26"
        assert only(calendar(older, newer)).recurrence["start_date"] == "2026-12-26"

    def test_newest_rule_of_a_uid_stays_a_rule(self) -> None:
        older = f"{WEEKLY}SEQUENCE:1\nRRULE:FREQ=WEEKLY"
        newer = f"{WEEKLY}SEQUENCE:2\nRRULE:FREQ=WEEKLY;INTERVAL=2"
        for text in (calendar(older, newer), calendar(newer, older)):
            weekly = {"frequency": "weekly", "start_date": "2026-01-05", "interval": 2}
            assert only(text).recurrence == weekly

    def test_another_event_with_the_same_uid_is_left_out(self) -> None:
        reading = read(calendar("UID:1\nDTSTART;VALUE=DATE:20261225", "UID:1\nDTSTART;VALUE=DATE:20270101"))
        assert [found.recurrence["start_date"] for found in reading.found] == ["2026-12-25"]
        assert [skipped.message for skipped in reading.skipped] == ["has the UID of another event"]

    @pytest.mark.parametrize(
        ("event", "code"),
        [
            pytest.param("DTSTART:20261225T090000", "no_length", id="a reminder"),
            pytest.param("DTSTART:20261225T090000\nDTEND:20261225T090000", "no_length", id="no time at all"),
            pytest.param("DTSTART:20261225T090000\nDTEND:20261225T080000", "unreadable", id="an end before the start"),
            pytest.param("DTSTART;VALUE=DATE:20261225\nDURATION:P367D", "too_long", id="more than a year"),
            pytest.param("DTSTART;VALUE=DATE:20261225\nDURATION:P9999999D", "too_long", id="out of the calendar"),
            pytest.param("DTSTART:Christmas", "unreadable", id="no day"),
            pytest.param("SUMMARY:Christmas", "unreadable", id="no start"),
            pytest.param("DTSTART;VALUE=DATE:20261225\nDTEND:20261226T000000", "unreadable", id="a day until a time"),
            pytest.param("DTSTART;VALUE=DATE:18991231", "out_of_range", id="long ago"),
            pytest.param("DTSTART;VALUE=DATE:21001231", "out_of_range", id="far ahead"),
            pytest.param("DTSTART;VALUE=DATE:99991231", "out_of_range", id="the last day that there is"),
            pytest.param("DTSTART;TZID=Moon/Sea:20261225T090000", "unknown_timezone", id="an unknown zone"),
            pytest.param(
                "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY",
                "unsupported_recurrence",
                id="two rules",
            ),
            pytest.param(
                "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYWEEKNO=1", "unsupported_recurrence", id="week numbers"
            ),
            pytest.param(
                "DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYMONTHDAY=1", "unsupported_recurrence", id="ambiguous"
            ),
        ],
    )
    def test_event_without_a_usable_window_is_left_out_with_its_code(self, event: str, code: str) -> None:
        assert why(read(calendar(f"UID:1\n{event}"))) == [code]

    def test_instance_without_a_length_is_left_out_alone(self) -> None:
        weekly = f"{WEEKLY}RRULE:FREQ=WEEKLY;COUNT=60"
        start = "TZID=Europe/London:20270111T170000"
        empty = f"{STANDUP}RECURRENCE-ID;{start}\nDTSTART;{start}\nDTEND;{start}"
        reading = read(calendar(weekly, empty))
        (found,) = reading.found
        assert (found.recurrence["frequency"], found.recurrence["except_dates"]) == ("weekly", ["2027-01-11"])
        assert [(skipped.code, skipped.message) for skipped in reading.skipped] == [
            ("no_length", "ends when it starts on 2027-01-11")
        ]

    def test_malformed_event_does_not_affect_others(self) -> None:
        reading = read(calendar("UID:1\nDTSTART:never", "UID:2\nDTSTART;VALUE=DATE:20261225"))
        assert [found.uid for found in reading.found] == ["2"]
        assert [skipped.uid for skipped in reading.skipped] == ["1"]

    @pytest.mark.parametrize(
        "malformed",
        [
            "BEGIN:VTODO\nDUE:soon\nEND:VTODO\n",
            "BEGIN:VTIMEZONE\nTZID:Empty\nEND:VTIMEZONE\n",
            "BEGIN:VTIMEZONE\nTZID:Half\nBEGIN:STANDARD\nEND:STANDARD\nEND:VTIMEZONE\n",
        ],
        ids=["to-do", "empty zone", "zone without a start"],
    )
    def test_malformed_component_does_not_affect_events(self, malformed: str) -> None:
        alarm = "BEGIN:VALARM\nTRIGGER:-PT15M\nEND:VALARM"
        text = calendar(f"{WEEKLY}RRULE:FREQ=WEEKLY;BYDAY=MO\n{alarm}", head=malformed)
        assert only(text).recurrence["frequency"] == "weekly"

    def test_event_in_a_malformed_zone_is_left_out_alone(self) -> None:
        zone = "BEGIN:VTIMEZONE\nTZID:Half\nEND:VTIMEZONE\n"
        inside = "UID:1\nSUMMARY:Inside\nDTSTART;TZID=Half:20261225T090000\nDTEND;TZID=Half:20261225T100000"
        reading = read(calendar(inside, "UID:2\nDTSTART;VALUE=DATE:20261225", head=zone))
        assert [found.uid for found in reading.found] == ["2"]
        assert [(skipped.uid, skipped.code) for skipped in reading.skipped] == [("1", "unknown_timezone")]

    def test_past_event_is_marked(self) -> None:
        assert only(calendar("UID:1\nDTSTART;VALUE=DATE:20261120")).past
        assert not only(calendar("UID:1\nDTSTART;VALUE=DATE:20261121")).past, "it is noon of that day"
        assert only(calendar("UID:1\nDTSTART;VALUE=DATE:20200101\nRRULE:FREQ=DAILY;COUNT=9")).past


class TestNames:
    @pytest.mark.parametrize(
        ("summary", "name"),
        [
            ("SUMMARY:Christmas\\, and\\nBoxing Day", "Christmas, and Boxing Day"),
            ("SUMMARY:Weihnachts\n feiertag", "Weihnachtsfeiertag"),
            ("SUMMARY;LANGUAGE=ja:元日", "元日"),
            (f"SUMMARY:{'x' * 200}", f"{'x' * 99}…"),
            ("SUMMARY:", "Event without a name"),
            ("DESCRIPTION:Nothing", "Event without a name"),
            ("SUMMARY:tab\there\x7f", "tab here"),
        ],
    )
    def test_event_name_is_its_summary(self, summary: str, name: str) -> None:
        assert only(calendar(f"UID:1\n{summary}\nDTSTART;VALUE=DATE:20261225")).name == name

    def test_event_without_a_uid_is_identified_by_day_and_name(self) -> None:
        event = "SUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225"
        assert only(calendar(event)).uid == only(calendar(f"LOCATION:Home\n{event}")).uid

    def test_long_uid_is_shortened(self) -> None:
        long = only(calendar(f"UID:{'a' * 5000}\nDTSTART;VALUE=DATE:20261225"))
        assert len(long.uid) == 64


class TestFiles:
    def test_file_may_have_unix_line_ends_and_a_byte_order_mark(self) -> None:
        assert only("\ufeff" + CHRISTMAS.replace("\r\n", "\n")).name == "Christmas"

    def test_file_may_hold_several_calendars(self) -> None:
        other = CHRISTMAS.replace("christmas@", "easter@")
        assert len(read(CHRISTMAS + other).found) == 2

    @pytest.mark.parametrize(
        ("heads", "name"),
        [
            (["X-WR-CALNAME: Stock  of all\n"], "Stock of all"),
            (["NAME:Stock\nX-WR-CALNAME:Former\n"], "Stock"),
            (["X-WR-CALNAME:Stock\n", "X-WR-CALNAME:Stock\n"], "Stock"),
            (["X-WR-CALNAME:Stock\n", "X-WR-CALNAME:Other\n"], ""),
            (["X-WR-CALNAME: \n"], ""),
            ([""], ""),
        ],
    )
    def test_calendar_has_the_name_that_its_file_gives(self, heads: list[str], name: str) -> None:
        text = "".join(calendar("UID:1\nDTSTART:20270101", head=head) for head in heads)
        assert (read(text).name, read_apart(text).name if len(heads) > 1 else name) == (name, name)

    def test_components_other_than_events_are_ignored(self) -> None:
        todo = "BEGIN:VTODO\nUID:2\nDTSTART;VALUE=DATE:20261225\nEND:VTODO\n"
        assert len(read(calendar("UID:1\nDTSTART;VALUE=DATE:20261225", head=todo)).found) == 1


@pytest.mark.parametrize("country", ["US", "GB", "DE", "JP", "CN", "IN", "BR", "SA", "IL", "ET"])
def test_calendar_of_a_country_has_its_holidays_day_for_day(country: str) -> None:
    computed = holidays.country_holidays(country, years=[2026, 2027])
    reading = read_apart(str(ICalExporter(computed).generate()), timezone="UTC")
    assert not reading.skipped
    days = [(found, day) for found in reading.found for day in covered(found)]
    assert {day for _found, day in days} == set(computed)
    assert all(found.name in computed.get_list(day) for found, day in days)
    assert {found.uid for found, day in days if day >= NOW.date()} == {
        found.uid for found in reading.found if not found.past
    }


def covered(found: ImportedWindow) -> list[date]:
    """Return the days of UTC that a window covers."""
    whole = [(date.fromisoformat(start[:10]), date.fromisoformat(end[:10])) for start, end in spans(found)]
    return [start + timedelta(days=day) for start, end in whole for day in range((end - start).days)]
