"""Names that show nothing, or turn the text around them, are refused wherever people give one."""

from collections.abc import Mapping

import pytest

from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import FIRST

UNREADABLE = ["\u202e", "\u200b", "\u200b \u2060", "\u3164", "\u00a0\u2800", "abc\u202edef", "abc\u2067def"]


def test_name_that_cannot_be_read_is_refused(acme: Tenant) -> None:
    requests: list[tuple[str, str, Mapping[str, object]]] = [
        ("POST", "/api/auth/sign-up", {"email": "eve@example.test", "password": "correct horse battery staple"}),
        ("PATCH", "/v1/orgs/current", {}),
        ("POST", "/v1/api-keys", {"scopes": ["freeze:read"], "expiresAt": None}),
        ("POST", "/v1/schedules", FIRST),
        ("POST", "/v1/calendar-feeds", {}),
        ("POST", "/v1/webhooks", {"url": "https://hooks.example.com/in", "events": ["freeze.*"]}),
    ]
    for name in UNREADABLE:
        for method, path, body in requests:
            error = refusal(
                acme.person("owner").send(method, path, json={**body, "name": name}), 422, "validation_failed"
            )
            assert [row["path"] for row in error["details"]] == ["/name"]
            assert "visible" in error["details"][0]["message"]


@pytest.mark.parametrize("name", ["\u05d0\u05d1\u200f", "\U0001f469\u200d\U0001f680", "\u0647\u200c\u0647"])
def test_name_with_marks_that_its_script_needs_is_taken(acme: Tenant, name: str) -> None:
    answer = acme.person("member").post("/v1/calendar-feeds", {"name": name})
    assert answer.json()["calendarFeed"]["name"] == name
