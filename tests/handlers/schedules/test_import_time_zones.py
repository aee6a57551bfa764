"""Time zones of imported calendars: what a request may say about them."""

from typing import Any

from tests.handlers.callers import Caller, refusal
from tests.handlers.schedules.import_requests import IMPORT, SOON, actions, event, imported, of_country, of_file, only

WEEKLY = (
    f"UID:1\nSUMMARY:Deploys\nDTSTART;TZID=Head Office:{SOON:%Y%m%d}T170000\n"
    f"DTEND;TZID=Head Office:{SOON:%Y%m%d}T180000\nRRULE:FREQ=WEEKLY"
)


def mapped(*events: str, **zones: str) -> dict[str, Any]:
    return of_file(*events, timezones={name.replace("_", " "): zone for name, zone in zones.items()})


class TestTimeZonesOfImports:
    def test_unknown_zone_is_answered_by_a_mapping(self, member: Caller) -> None:
        skipped = imported(member, of_file(event("2"), WEEKLY))["data"][1]
        assert (skipped["action"], skipped["code"]) == ("skipped", "unknown_timezone")
        assert "'Head Office'; timezones in the request" in skipped["message"]
        body = mapped(event("2"), WEEKLY, Head_Office="Asia/Tokyo")
        reported = imported(member, body)
        assert actions(reported) == {"1": "created", "2": "unchanged"}
        assert {row["terms"]["timezone"] for row in reported["data"]} == {"Asia/Tokyo", "UTC"}
        assert set(actions(imported(member, body)).values()) == {"unchanged"}

    def test_import_is_rejected_when_every_event_is_in_an_unknown_zone(self, member: Caller) -> None:
        error = refusal(member.post(IMPORT, of_file(WEEKLY)), 422, "invalid_timezone")
        assert "Head Office" in error["message"]
        assert [(row["path"], row["code"]) for row in error["details"]] == [("/timezones", "invalid_timezone")]

    def test_changed_mapping_changes_the_schedule(self, member: Caller) -> None:
        imported(member, mapped(WEEKLY, Head_Office="Asia/Tokyo"))
        row = only(imported(member, mapped(WEEKLY, Head_Office="Europe/Paris")))
        assert (row["action"], row["changed"]) == ("updated", ["timezone"])

    def test_invalid_mapping_is_rejected_by_its_field(self, member: Caller) -> None:
        cases: list[tuple[Any, str, str]] = [
            ({"Moon/Sea": "Europe/Nowhere"}, "invalid_timezone", "/timezones/Moon~1Sea"),
            ({"a~b": "europe/london"}, "invalid_timezone", "/timezones/a~0b"),
            ({"Ours": ""}, "invalid_timezone", "/timezones/Ours"),
            ({"Ours": 1}, "invalid_timezone", "/timezones/Ours"),
            ({"o" * 1000: 1}, "invalid_timezone", "/timezones/" + "o" * 200),
            ({"o" * 1000: "Moon"}, "invalid_timezone", "/timezones/" + "o" * 200),
            ({str(number): "UTC" for number in range(101)}, "validation_failed", "/timezones"),
            ([], "validation_failed", "/timezones"),
            (None, "validation_failed", "/timezones"),
        ]
        for zones, code, path in cases:
            error = refusal(member.post(IMPORT, of_file(WEEKLY, timezones=zones)), 422, code)
            assert [detail["path"] for detail in error["details"]] == [path]

    def test_mapping_of_holidays_is_rejected(self, member: Caller) -> None:
        error = refusal(member.post(IMPORT, of_country(timezones={})), 422, "validation_failed")
        assert [detail["path"] for detail in error["details"]] == ["/timezones"]
