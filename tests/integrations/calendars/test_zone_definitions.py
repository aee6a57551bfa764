"""Zones that a calendar defines: which IANA zone has the same changes, and definitions that are malformed."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from icalendar import Calendar
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from integrations.calendars.time_zones import TimeZones
from rules.time.zones import zone_names
from tests.integrations.calendars.vectors import LONDON, calendar, only, read, read_apart, spans, why
from tests.integrations.calendars.zones import BERLIN, NEW_YORK, NOWHERE, WEEKLY, fixed, once, weekly, zone


def last_sunday(year: int, month: int) -> date:
    last = date(year, month, 31)
    return last - timedelta(days=(last.weekday() + 1) % 7)


class TestDefinedZones:
    @pytest.mark.parametrize(
        ("name", "rules", "found"),
        [
            ("Romance Standard Time", BERLIN, "Europe/Paris"),
            ("Eastern Standard Time", NEW_YORK, "America/New_York"),
            ("/freeassociation.sourceforge.net/Tzfile/Europe/Vienna", BERLIN, "Europe/Vienna"),
            ("/citadel.org/20210210_1/America/Indiana/Indianapolis", NEW_YORK, "America/Indiana/Indianapolis"),
            ("tzone://Microsoft/europe/madrid", BERLIN, "Europe/Madrid"),
            ("(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna", BERLIN, "Europe/Amsterdam"),
            ("Customized Time Zone", BERLIN, "Europe/Berlin"),
            ("tzone://Microsoft/Custom", NEW_YORK, "America/New_York"),
            ("Europe/Rome", NOWHERE, "Europe/Rome"),
        ],
    )
    def test_zone_is_the_one_that_its_name_means_if_the_rules_agree(
        self, name: str, rules: tuple[str, ...], found: str
    ) -> None:
        event = only(calendar(weekly(name), head=zone(name, rules)))
        assert (event.timezone, event.recurrence) == (found, WEEKLY)

    def test_misleading_name_of_a_zone_yields_to_its_rules(self) -> None:
        name = "/vendor.example/America/New_York"
        assert only(calendar(weekly(name), head=zone(name))).timezone == "Europe/Berlin"

    def test_zone_of_the_request_is_preferred_if_the_rules_agree(self) -> None:
        text = calendar(weekly("Customized Time Zone"), head=zone("Customized Time Zone"))
        assert only(text, timezone="Europe/Oslo").timezone == "Europe/Oslo"
        assert only(text, timezone="Africa/Lagos").timezone == "Europe/Berlin"

    def test_zone_that_the_calendar_declares_is_preferred_to_others(self) -> None:
        head = "X-WR-TIMEZONE:Europe/Vaduz\n" + zone("Customized Time Zone")
        assert only(calendar(weekly("Customized Time Zone"), head=head)).timezone == "Europe/Vaduz"

    def test_location_in_the_definition_names_the_zone(self) -> None:
        head = zone("Zone 1", BERLIN, "X-LIC-LOCATION:Europe/Monaco")
        assert only(calendar(weekly("Zone 1"), head=head)).timezone == "Europe/Monaco"

    @pytest.mark.parametrize(
        ("offset", "found"),
        [("+0000", "UTC"), ("-0300", "America/Sao_Paulo"), ("+0530", "Asia/Kolkata"), ("+1400", "Pacific/Kiritimati")],
    )
    def test_zone_without_changes_is_one_that_has_none(self, offset: str, found: str) -> None:
        assert only(calendar(weekly("Ours"), head=fixed("Ours", offset))).timezone == found

    @pytest.mark.parametrize(
        ("begins", "ends"),
        [
            ("SU;BYMONTH=3;BYMONTHDAY=8,9,10,11,12,13,14", "SU;BYMONTH=11;BYMONTHDAY=1,2,3,4,5,6,7"),
            ("SU;BYMONTH=3;BYSETPOS=2", "SU;BYMONTH=11;BYSETPOS=1"),
            ("+2SU;BYMONTH=3;WKST=SU", "+1SU;BYMONTH=11;WKST=SU"),
        ],
    )
    def test_rules_may_be_written_in_several_ways(self, begins: str, ends: str) -> None:
        rules = (begins, *NEW_YORK[1:4], ends, NEW_YORK[5])
        assert only(calendar(weekly("Ours"), head=zone("Ours", rules))).timezone == "America/New_York"

    def test_rules_that_have_ended_count_until_then(self) -> None:
        past = (
            "BEGIN:DAYLIGHT\nDTSTART:19800301T000000\nTZOFFSETFROM:+0530\nTZOFFSETTO:+0630\n"
            "RRULE:FREQ=YEARLY;UNTIL=19900228T183000Z;BYMONTH=3;BYMONTHDAY=1\nEND:DAYLIGHT\n"
        )
        head = fixed("Ours", "+0530").replace("16010101", "19900901").replace("END:VTIMEZONE", f"{past}END:VTIMEZONE")
        assert only(calendar(weekly("Ours"), head=head)).timezone == "Asia/Kolkata"

    def test_rules_of_years_before_the_event_do_not_matter(self) -> None:
        name = "Eastern Standard Time"
        since_1970 = calendar(weekly(name).replace("20260105", "19970106"), head=zone(name, NEW_YORK))
        assert only(since_1970).timezone == "America/New_York"

    def test_listed_changes_are_compared_as_rules_are(self) -> None:
        head = zone("Ours")
        for rule, month, at in (("10", 10, "T030000"), ("3", 3, "T020000")):
            days = [last_sunday(year, month).strftime("%Y%m%d") for year in range(2025, 2033)]
            head = head.replace(
                f"RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH={rule}\n", f"RDATE:{f'{at},'.join(days)}{at}\n"
            )
        assert "RRULE" not in head
        assert only(calendar(weekly("Ours"), head=head)).timezone == "Europe/Berlin"

    def test_definition_of_its_year_only_is_enough_for_a_single_event(self) -> None:
        name = "W. Europe Standard Time"
        summer = fixed(name, "+0200").replace("16010101", "20270328")
        assert only(calendar(once(name), head=summer)).timezone == "Europe/Berlin"
        assert only(calendar(weekly(name), head=summer)).timezone != "Europe/Berlin"

    def test_definition_of_its_years_only_is_enough_for_an_event_that_ends(self) -> None:
        name = "W. Europe Standard Time"
        summer = fixed(name, "+0200").replace("16010101", "20270328")
        text = "\n".join([once(name, "20270405"), "RRULE:FREQ=WEEKLY;UNTIL={}"])
        assert only(calendar(text.format("20271001T080000Z"), head=summer)).timezone == "Europe/Berlin"
        assert only(calendar(text.format("20271201T080000Z"), head=summer)).timezone != "Europe/Berlin"

    def test_time_of_a_single_event_is_an_instant_when_no_zone_agrees(self) -> None:
        found = only(calendar(once("Ours"), head=zone("Ours", NOWHERE)))
        assert found.timezone == "Europe/London"
        assert spans(found) == [("2027-07-01T08:00", "2027-07-01T10:00")]

    def test_repeated_event_is_left_out_when_no_zone_agrees(self) -> None:
        reading = read(calendar(weekly("Ours"), head=zone("Ours", NOWHERE)))
        (skipped,) = reading.skipped
        assert (skipped.code, skipped.message) == (
            "unknown_timezone",
            "is in an unknown time zone, 'Ours'; timezones in the request can name its IANA zone",
        )

    def test_calendars_may_define_the_same_zone_again_and_again(self) -> None:
        one = calendar(weekly("W. Europe Standard Time"), head=zone("W. Europe Standard Time"))
        found = read("".join(one.replace("UID:1", f"UID:{number}") for number in range(120))).found
        assert [(each.timezone, each.recurrence) for each in found] == [("Europe/Berlin", WEEKLY)] * 120

    def test_each_calendar_of_a_file_has_its_own_definitions(self) -> None:
        event = weekly("Customized Time Zone")
        text = calendar(event, head=zone("Customized Time Zone")) + calendar(
            event.replace("UID:1", "UID:2"), head=zone("Customized Time Zone", NEW_YORK)
        )
        assert {found.uid: found.timezone for found in read(text).found} == {
            "1": "Europe/Berlin",
            "2": "America/New_York",
        }


def changes(found: ZoneInfo) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """Yield the instants, from 2025 to 2033, at which the offset of a zone changes, with both offsets."""

    def offset(minute: int) -> timedelta:
        instant = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
        return instant.astimezone(found).utcoffset() or timedelta()

    week = 7 * 24 * 60
    for first in range(0, 8 * 52 * week, week):
        before, after = offset(first), offset(first + week)
        if before != after:
            minute = next(minute for minute in range(first, first + week, 30) if offset(minute) == after)
            yield datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minute), before, after


def with_changes(name: str, found: ZoneInfo) -> str:
    """Return a definition that lists the changes of a zone."""
    head = fixed(name, f"{datetime(2025, 1, 1, tzinfo=UTC).astimezone(found):%z}").removesuffix("END:VTIMEZONE\n")
    for instant, before, after in changes(found):
        offsets = [f"{datetime(2025, 1, 1, tzinfo=timezone(offset)):%z}" for offset in (before, after)]
        head += f"BEGIN:DAYLIGHT\nDTSTART:{instant + before:%Y%m%dT%H%M%S}\n"
        head += f"TZOFFSETFROM:{offsets[0]}\nTZOFFSETTO:{offsets[1]}\nEND:DAYLIGHT\n"
    return head + "END:VTIMEZONE\n"


def test_every_zone_of_windows_with_its_changes_is_its_iana_zone() -> None:
    names = {name: found for name, found in WINDOWS_TO_OLSON.items() if name not in zone_names()}
    assert len(names) > 100
    for name, found in names.items():
        text = calendar(weekly(name), head=with_changes(name, ZoneInfo(found)))
        assert only(text, timezone="Africa/Lagos").timezone == found


class TestMalformedDefinitions:
    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param("", id="empty"),
            pytest.param("BEGIN:STANDARD\nEND:STANDARD", id="without a start"),
            pytest.param("BEGIN:STANDARD\nDTSTART:soon\nTZOFFSETFROM:+1\nTZOFFSETTO:+0100\nEND:STANDARD", id="values"),
            pytest.param(
                "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0100\nEND:STANDARD", id="without an offset"
            ),
        ],
    )
    @pytest.mark.parametrize("name", ["W. Europe Standard Time", "Ours"])
    def test_malformed_definition_counts_as_none(self, name: str, lines: str) -> None:
        head = f"BEGIN:VTIMEZONE\nTZID:{name}\n{lines}\nEND:VTIMEZONE\nBEGIN:VTIMEZONE\nEND:VTIMEZONE\n"
        other = once("Europe/Paris").replace("UID:1", "UID:2")
        reading = read(calendar(weekly(name), other, head=head))
        assert [found.uid for found in reading.found] == (["2"] if name == "Ours" else ["1", "2"])
        assert [(skipped.uid, skipped.code) for skipped in reading.skipped] == (
            [("1", "unknown_timezone")] if name == "Ours" else []
        )

    def test_unusual_rules_of_definitions_do_not_stop_the_reader(self) -> None:
        rules = [
            "FREQ=SECONDLY",
            "FREQ=MONTHLY;BYDAY=1SU",
            "FREQ=YEARLY;INTERVAL=0",
            f"FREQ=YEARLY;INTERVAL={10**30}",
            "FREQ=YEARLY;BYHOUR=1,2,3,4,5,6;BYMINUTE=1,2,3,4,5,6;BYSECOND=1,2,3,4,5,6",
            "FREQ=YEARLY;BYMONTH=1,2,3,4,5,6,7,8,9,10,11,12;BYDAY=MO,TU,WE,TH,FR,SA,SU",
            "FREQ=YEARLY;COUNT=100000;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30,31;BYDAY=MO",
            "FREQ=YEARLY;BYMONTH=5\nRRULE:FREQ=YEARLY;BYMONTH=6",
        ]
        names = [f"Zone {number}" for number in range(100)]
        head = "".join(
            fixed(name, "+0057")
            .replace("1601", "0001")
            .replace("END:STANDARD", f"RRULE:{rules[number % 10]}\nEND:STANDARD")
            for number, name in enumerate(names)
        )
        events = [weekly(name).replace("UID:1", f"UID:{name}") for name in names]
        assert why(read_apart(calendar(*events, head=head))) == ["unknown_timezone"] * 100


@pytest.mark.check
def test_zones_that_never_agree_do_not_stop_the_reader() -> None:
    days = [(date(2026, 1, 5) + timedelta(days=number)).strftime("%Y%m%d") for number in range(1000)]
    repeated = [f"{once('Berlin', day)}\nRRULE:FREQ=DAILY".replace("UID:1", f"UID:{day}") for day in days]
    single = [once("Berlin", day).replace("UID:1", f"UID:once-{day}") for day in days]
    reading = read_apart(calendar(*repeated, *single, head=zone("Berlin", NOWHERE)))
    assert {skipped.code for skipped in reading.skipped} == {"unknown_timezone"}
    assert (len(reading.skipped), len(reading.found)) == (1000, 1000)


def test_offsets_of_a_definition_are_those_of_its_zone() -> None:
    parsed = Calendar.from_ical(calendar(head=zone("Ours", NEW_YORK)))
    definition = TimeZones(parsed, LONDON).definition_of("Ours")
    assert definition is not None
    for hour in range(366 * 24):
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
        instant, local = now.replace(tzinfo=None), now.astimezone(ZoneInfo("America/New_York"))
        assert definition.offset_at(instant) == local.utcoffset()
        if local.fold == 0:
            assert definition.instant_of(local.replace(tzinfo=None)) in {instant, instant + timedelta(hours=1)}
