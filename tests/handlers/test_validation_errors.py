"""Every violation of a request is reported in one answer, and once."""

from typing import Any

import pytest

from tests.handlers.callers import Tenant, refusal


@pytest.mark.parametrize("path", ["/v1/audit", "/v1/audit/export"])
def test_unknown_action_and_reversed_range_are_reported_together(acme: Tenant, path: str) -> None:
    asked = {"action": "freeze.begun", "from": "2026-11-02T00:00:00Z", "to": "2026-11-01T00:00:00Z"}
    error: dict[str, Any] = refusal(acme.key("audit:read").get(path, **asked), 400, "invalid_parameter")
    assert [detail["path"] for detail in error["details"]] == ["action", "to"]
    assert "1 more error" in error["message"]
