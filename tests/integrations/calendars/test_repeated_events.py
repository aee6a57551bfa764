"""Repeated events of iCalendar: what stays a rule, and what is listed day by day."""

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.integrations.calendars.vectors import STANDUP, WEEKLY, by_part, calendar, only, read, spans, why


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
