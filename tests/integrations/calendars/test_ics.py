"""Calendar files: hand-written ones, feature by feature of RFC 5545, and real ones of every country."""

from datetime import date, timedelta

import holidays
import pytest
from holidays.ical import ICalExporter

from integrations.calendars.content import ImportedWindow
from tests.integrations.calendars.vectors import (
    NOW,
    STANDUP,
    WEEKLY,
    calendar,
    evening_before,
    only,
    read,
    read_apart,
    spans,
    why,
)

CHRISTMAS = calendar(
    "UID:christmas@example.com\nSUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227"
)


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
            ("SUMMARY:\u202e", "Event without a name"),
            ("SUMMARY:\u200b\u3164", "Event without a name"),
            ("SUMMARY:abc\u202edef\u2066", "abcdef"),
            ("SUMMARY:👩\u200d🚀", "👩\u200d🚀"),
        ],
    )
    def test_event_name_is_its_summary(self, summary: str, name: str) -> None:
        assert only(calendar(f"UID:1\n{summary}\nDTSTART;VALUE=DATE:20261225")).name == name

    @pytest.mark.parametrize("name", ["\u202e", "\u200b", "\u2800"])
    def test_calendar_whose_name_shows_nothing_has_none(self, name: str) -> None:
        assert read(CHRISTMAS.replace("VERSION:2.0", f"VERSION:2.0\r\nX-WR-CALNAME:{name}")).name == ""

    def test_event_without_a_uid_is_identified_by_day_and_name(self) -> None:
        event = "SUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225"
        assert only(calendar(event)).uid == only(calendar(f"LOCATION:Home\n{event}")).uid

    def test_long_uid_is_shortened(self) -> None:
        long = only(calendar(f"UID:{'a' * 5000}\nDTSTART;VALUE=DATE:20261225"))
        assert len(long.uid) == 64


class TestFiles:
    def test_file_may_have_unix_line_ends_and_a_byte_order_mark(self) -> None:
        assert only("\ufeff" + CHRISTMAS.replace("\r\n", "\n")).name == "Christmas"

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
    reading = read(str(ICalExporter(computed).generate()), timezone="UTC")
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
