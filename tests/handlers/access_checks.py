"""How GitHub refuses a call, and what our caller is answered: for operations that wait for it."""

import pytest

what_github_refuses = pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ({"status": 502}, 502, "github_unavailable"),
        ({"status": 403, "message": "Resource not accessible by integration"}, 403, "github_permission_denied"),
        ({"status": 422, "message": "Validation Failed"}, 422, "github_rejected"),
        ({"status": 403, "message": "API rate limit exceeded for installation"}, 429, "github_rate_limited"),
        ({"status": 403, "message": "You have exceeded a secondary rate limit"}, 429, "github_secondary_rate_limit"),
    ],
    ids=["down", "forbidden", "rejected", "hourly limit", "burst limit"],
)
