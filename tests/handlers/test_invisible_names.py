"""Names that show nothing are refused wherever people give one."""

import pytest

from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import FIRST

INVISIBLE = ["\u202e", "\u200b", "\u200b \u2060", "\u3164", "\u00a0\u2800"]


@pytest.mark.parametrize("name", INVISIBLE)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/auth/sign-up", {"email": "eve@example.test", "password": "correct horse battery staple"}),
        ("PATCH", "/v1/orgs/current", {}),
        ("POST", "/v1/api-keys", {"scopes": ["freeze:read"], "expiresAt": None}),
        ("POST", "/v1/schedules", FIRST),
        ("POST", "/v1/webhooks", {"url": "https://hooks.example.com/in", "events": ["freeze.*"]}),
    ],
    ids=["person", "organization", "key", "schedule", "webhook"],
)
def test_name_that_shows_nothing_is_refused(
    acme: Tenant, name: str, method: str, path: str, body: dict[str, object]
) -> None:
    error = refusal(acme.person("owner").send(method, path, json={**body, "name": name}), 422, "validation_failed")
    assert [row["path"] for row in error["details"]] == ["/name"]
    assert "visible" in error["details"][0]["message"]
