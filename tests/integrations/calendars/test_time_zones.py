"""Zones of calendars: names of the programs that write them, and names that a request maps."""

import resource
from pathlib import Path

import pytest
import recurring_ical_events
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from integrations.calendars.time_zones import PREFERRED_ZONES, Definition, Span
from rules.time.zones import zone_names
from tests.integrations.calendars.vectors import calendar, only, read, read_apart, why
from tests.integrations.calendars.zones import NEW_YORK, NOWHERE, WEEKLY, once, weekly, zone

EXPORTS = Path(__file__).parent / "exports"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            "outlook",
            {
                "Handover": ("Europe/Berlin", {**WEEKLY}),
                "Invoicing": (
                    "America/New_York",
                    {"frequency": "weekly", "start_date": "2026-01-08", "interval": 2, "by_day": ["TH"]},
                ),
            },
        ),
        (
            "exchange",
            {
                "Weekend": (
                    "Europe/Berlin",
                    {"frequency": "weekly", "start_date": "2026-01-02", "by_day": ["FR"], "until": "2027-12-31"},
                ),
                "Audit": ("Asia/Calcutta", {"frequency": "once", "start_date": "2026-12-01"}),
            },
        ),
        (
            "google",
            {
                "Release train": (
                    "Europe/Zurich",
                    {"frequency": "weekly", "start_date": "2026-01-07", "by_day": ["WE"]},
                ),
                "Inventory": ("Europe/Zurich", {"frequency": "once", "start_date": "2026-12-01"}),
            },
        ),
        (
            "apple",
            {
                "Backups": ("Europe/London", {"frequency": "weekly", "start_date": "2026-01-06"}),
                "Night shift": ("America/Sao_Paulo", {"frequency": "weekly", "start_date": "2026-01-07"}),
            },
        ),
        (
            "thunderbird",
            {
                "Load test": (
                    "America/Los_Angeles",
                    {"frequency": "weekly", "start_date": "2026-01-06", "by_day": ["TU", "TH"]},
                ),
                "Stand-by": ("Europe/Berlin", {"frequency": "weekly", "start_date": "2026-01-03", "by_day": ["SA"]}),
            },
        ),
    ],
)
def test_export_of_a_program_has_iana_zones_and_rules(program: str, expected: dict[str, object]) -> None:
    reading = read((EXPORTS / f"{program}.ics").read_text())
    assert not reading.skipped
    assert {found.name: (found.timezone, found.recurrence) for found in reading.found} == expected


class TestUndefinedZones:
    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("W. Europe Standard Time", "Europe/Berlin"),
            ("/freeassociation.sourceforge.net/Europe/Berlin", "Europe/Berlin"),
            ("/mozilla.org/20050126_1/America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
            ("europe/berlin", "Europe/Berlin"),
            ("tzone://Microsoft/Utc", "UTC"),
        ],
    )
    def test_undefined_zone_is_the_one_that_its_name_means(self, name: str, found: str) -> None:
        assert only(calendar(weekly(name))).timezone == found

    @pytest.mark.parametrize("name", ["Customized Time Zone", "(UTC+01:00) Amsterdam, Berlin", "Moon/Sea", "/", "//x"])
    def test_event_in_an_unknown_zone_is_left_out(self, name: str) -> None:
        assert why(read(calendar(weekly(name)))) == ["unknown_timezone"]

    @pytest.mark.parametrize(
        "line",
        ["EXDATE;TZID=Moon/Sea:20260112T100000", "RDATE;TZID=Moon/Sea:20260113T100000"],
        ids=["excluded day", "added day"],
    )
    def test_event_with_a_day_in_an_unknown_zone_is_left_out(self, line: str) -> None:
        assert why(read(calendar(weekly("Europe/Berlin", line)))) == ["unknown_timezone"]

    def test_unknown_zone_is_not_replaced_by_the_declared_one(self) -> None:
        assert why(read(calendar(once("Moon/Sea"), head="X-WR-TIMEZONE:Europe/Berlin\n"))) == ["unknown_timezone"]

    def test_zone_of_every_name_of_windows_is_known(self) -> None:
        assert set(WINDOWS_TO_OLSON.values()) | set(PREFERRED_ZONES) <= zone_names()


class TestMappedZones:
    @pytest.mark.parametrize("name", ["W. Europe Standard Time", "Europe/Berlin", "(UTC+01:00) Amsterdam, Berlin"])
    def test_mapping_precedes_names_and_definitions(self, name: str) -> None:
        text = calendar(weekly(name), head=zone(name))
        assert only(text, timezones={name: "Asia/Tokyo"}).timezone == "Asia/Tokyo"

    def test_zone_that_the_calendar_declares_can_be_mapped(self) -> None:
        text = calendar("UID:1\nDTSTART:20270701T100000Z\nDTEND:20270701T120000Z", head="X-WR-TIMEZONE:Head Office\n")
        assert only(text, timezones={"Head Office": "Asia/Tokyo"}).timezone == "Asia/Tokyo"

    def test_mapping_is_read_in_the_separate_process(self) -> None:
        (found,) = read_apart(calendar(weekly("Moon/Sea")), timezones={"Moon/Sea": "Asia/Tokyo"}).found
        assert found.timezone == "Asia/Tokyo"


@pytest.mark.parametrize("head", [zone("Ours", NEW_YORK), zone("Ours", NOWHERE), "X-WR-TIMEZONE:America/New_York\n"])
@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("DTSTART;TZID=Ours:99991231T235959", "out_of_range"),
        ("DTSTART;TZID=Ours:00010101T000000", "out_of_range"),
        ("DTSTART:99991231T235959Z", "out_of_range"),
        ("DTSTART:00010101T000000Z", "out_of_range"),
        ("DTSTART;TZID=Ours;VALUE=TEXT:20270101T100000", "unreadable"),
        ("DTSTART;TZID=Ours;VALUE=PERIOD:20270101T100000/PT1H", "unreadable"),
        ("DTSTART;TZID=Ours:20270101T250000", "unreadable"),
        ("DTSTART;TZID=Ours:20270101T100000\nDTSTART;TZID=Ours:20270101T100000", "unreadable"),
        ("DTSTART:20270101T100000\nDTEND:20270101T110000\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z", None),
    ],
)
def test_time_that_cannot_be_computed_refuses_its_event_alone(head: str, lines: str, code: str | None) -> None:
    reading = read(calendar(f"UID:1\n{lines}", "UID:2\nDTSTART;VALUE=DATE:20270101", head=head))
    assert [found.uid for found in reading.found] == (["2"] if code else ["1", "2"])
    assert [skipped.code for skipped in reading.skipped] == ([code] if code else [])


def many_events() -> str:
    """Return 200 weekly events as Outlook exports them."""
    export = (EXPORTS / "outlook.ics").read_text()
    event = "BEGIN:VEVENT" + export.split("BEGIN:VEVENT")[1]
    copies = (event.replace("UID:04", f"UID:{number}") for number in range(200))
    return export.split("BEGIN:VEVENT")[0] + "".join(copies) + "END:VCALENDAR\n"


def test_weekly_events_are_not_expanded_and_their_zone_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Span] = []
    samples = Definition.samples

    def count(definition: Definition, span: Span) -> object:
        compared.append(span)
        return samples(definition, span)

    monkeypatch.setattr(Definition, "samples", count)
    monkeypatch.delattr(recurring_ical_events, "of")
    assert [found.recurrence for found in read(many_events()).found] == [WEEKLY] * 200
    assert len(compared) == 1


@pytest.mark.check
def test_weekly_events_are_read_within_two_seconds_of_cpu() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(read_apart(many_events()).found) == 200
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
