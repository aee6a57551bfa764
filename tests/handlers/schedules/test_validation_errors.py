"""What is wrong with a schedule, and where, by code and place."""

from typing import Any

from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import DAILY, EVERYTHING, FIRST, NOON, created, rows

FAULTS: list[tuple[str, Any, int, str, str]] = [
    ("name", None, 422, "validation_failed", "/name"),
    ("name", " ", 422, "validation_failed", "/name"),
    ("name", "x" * 101, 422, "validation_failed", "/name"),
    ("scope", {"type": "glob", "patterns": ["a b"]}, 422, "invalid_glob", "/scope/patterns/0"),
    ("scope", {"type": "repositories", "repositories": ["acme/no"]}, 422, "invalid_parameter", "/scope/repositories/0"),
    ("scope", {"type": "branch", "repository": "acme/web", "branch": "x"}, 422, "no_targets_in_scope", "/scope"),
    ("timezone", "Mars/Olympus", 422, "invalid_timezone", "/timezone"),
    ("timezone", "europe/london", 422, "invalid_timezone", "/timezone"),
    ("timezone", "../../etc/passwd", 422, "invalid_timezone", "/timezone"),
    ("timezone", "", 422, "invalid_timezone", "/timezone"),
    ("timezone", 7, 422, "invalid_timezone", "/timezone"),
    (
        "recurrence",
        {"frequency": "hourly", "startDate": "2026-11-06"},
        422,
        "invalid_recurrence",
        "/recurrence/frequency",
    ),
    ("recurrence", {"frequency": "daily"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "startDate": "2026-02-30"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "startDate": "20261106"}, 422, "invalid_recurrence", "/recurrence/startDate"),
    ("recurrence", {**DAILY, "byDay": ["FRI"]}, 422, "invalid_recurrence", "/recurrence/byDay/0"),
    ("recurrence", {**DAILY, "frequency": "dates", "dates": ["x"]}, 422, "invalid_recurrence", "/recurrence/dates/0"),
    ("recurrence", {**DAILY, "bySetPosition": [367]}, 422, "invalid_recurrence", "/recurrence/bySetPosition/0"),
    ("recurrence", {**DAILY, "weekStart": "Sunday"}, 422, "invalid_recurrence", "/recurrence/weekStart"),
    ("recurrence", {**DAILY, "exceptDates": ["2026-02-30"]}, 422, "invalid_recurrence", "/recurrence/exceptDates/0"),
    ("recurrence", {**DAILY, "byHour": [3]}, 422, "validation_failed", "/recurrence/byHour"),
    ("window", {"startTime": "12:00"}, 422, "invalid_recurrence", "/window/endTime"),
    ("window", {"startTime": "12:00", "endTime": "12:00"}, 422, "invalid_recurrence", "/window/endTime"),
    ("window", {"startTime": "12:00", "endTime": "11:59", "days": 0}, 422, "invalid_recurrence", "/window/endTime"),
    ("window", {"startTime": "24:00", "endTime": "12:00"}, 422, "invalid_recurrence", "/window/startTime"),
    ("window", {**NOON, "days": 367}, 422, "invalid_recurrence", "/window/days"),
    ("window", None, 422, "invalid_recurrence", "/window"),
    ("reason", "short", 422, "validation_failed", "/reason"),
    ("reason", "        a        ", 422, "validation_failed", "/reason"),
    ("reason", None, 422, "validation_failed", "/reason"),
    ("enabled", "yes", 422, "validation_failed", "/enabled"),
    ("createdBy", {}, 422, "validation_failed", "/createdBy"),
    ("source", "import", 422, "validation_failed", "/source"),
]


class TestScheduleErrors:
    def test_schedule_error_names_code_and_path(self, acme: Tenant) -> None:
        made = created(acme.key(), recurrence={**DAILY, "startDate": "2026-11-06"}, window=NOON)["id"]
        key = acme.key()
        for name, value, status, code, where in FAULTS:
            for error in (
                refusal(key.post("/v1/schedules", {**FIRST, name: value}), status, code),
                refusal(key.patch(f"/v1/schedules/{made}", {name: value}), status, code),
            ):
                assert rows(error) == [(where, code)], (name, value)

    def test_error_of_a_recurrence_says_what_to_send(self, acme: Tenant) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            (
                {"startDate": "2026-11-06T00:00:00Z"},
                "recurrence.startDate must be a valid date, such as 2026-11-21, without a time",
            ),
            ({"startDate": "6 November 2026"}, "recurrence.startDate must have at most 10 characters"),
            ({"until": "2027-01-01", "count": 3}, "recurrence.count cannot be combined with until."),
        ]
        for change, message in cases:
            body = {**FIRST, "recurrence": {**DAILY, "startDate": "2026-11-06", **change}}
            assert refusal(acme.key().post("/v1/schedules", body), 422, "invalid_recurrence")["message"] == message

    def test_missing_field_of_a_schedule_is_reported(self, acme: Tenant) -> None:
        cases: list[tuple[str, int, str]] = [
            ("name", 400, "missing_parameter"),
            ("scope", 400, "missing_parameter"),
            ("recurrence", 422, "invalid_recurrence"),
            ("window", 422, "invalid_recurrence"),
            ("reason", 400, "missing_parameter"),
        ]
        for name, status, code in cases:
            body = {key: value for key, value in FIRST.items() if key != name}
            error = refusal(acme.key().post("/v1/schedules", body), status, code)
            assert rows(error) == [(f"/{name}", code)]

    def test_syntax_errors_of_a_schedule_are_reported_together(self, acme: Tenant) -> None:
        wrong = {"scope": EVERYTHING, "timezone": "", "recurrence": {}, "window": {"startTime": 1}, "reason": "x"}
        error = refusal(acme.key().post("/v1/schedules", wrong), 400, "missing_parameter")
        assert rows(error) == [
            ("/name", "missing_parameter"),
            ("/timezone", "invalid_timezone"),
            ("/recurrence/frequency", "invalid_recurrence"),
            ("/recurrence/startDate", "invalid_recurrence"),
            ("/window/startTime", "invalid_recurrence"),
            ("/window/endTime", "invalid_recurrence"),
            ("/reason", "validation_failed"),
        ]

    def test_semantic_errors_of_a_schedule_are_reported_together(self, acme: Tenant) -> None:
        wrong = {
            "timezone": "Mars/Olympus",
            "recurrence": {**DAILY, "count": 3, "until": "2001-01-01"},
            "window": {"startTime": "12:00", "endTime": "12:00"},
        }
        expected = [
            ("/timezone", "invalid_timezone"),
            ("/recurrence/until", "invalid_recurrence"),
            ("/recurrence/count", "invalid_recurrence"),
            ("/window/endTime", "invalid_recurrence"),
        ]
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, **wrong}), 422, "invalid_timezone")
        assert rows(error) == expected
        nowhere = {"scope": {"type": "repositories", "repositories": ["acme/no"]}}
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, **wrong, **nowhere}), 422, "invalid_parameter")
        assert rows(error) == [("/scope/repositories/0", "invalid_parameter"), *expected]

    def test_recurrence_without_any_day_is_rejected(self, acme: Tenant) -> None:
        weekend = {"frequency": "weekly", "byDay": ["SA"], "startDate": "2026-11-02", "until": "2026-11-06"}
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, "recurrence": weekend}), 422, "invalid_recurrence")
        assert rows(error) == [("/recurrence", "invalid_recurrence")]
