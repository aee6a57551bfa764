"""Who may call an operation: the same questions for each of them."""

from collections.abc import Callable

import httpx
import pytest

from tests.factories import ROLES, SCOPES
from tests.handlers.callers import Caller, Tenant, refusal

Call = Callable[[Caller], httpx.Response]

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
"""How GitHub refuses a call, and what our caller is answered: for operations that wait for it."""


def takes_credentials(tenant: Tenant, call: Call, *, scope: str | None, least_role: str, writes: bool = False) -> None:
    """Check that `call` needs a credential, this scope or this role; what is let in may fail for other reasons.

    Without a scope it is for people: no key is let in, whatever its scopes.
    """
    refusal(call(tenant.anybody), 401, "missing_credentials")
    others = [other for other in SCOPES if other != scope]
    refusal(call(tenant.key(*others)), 403, "insufficient_scope" if scope else "credential_type_not_allowed")
    for role in ROLES[: ROLES.index(least_role)]:
        refusal(call(tenant.person(role)), 403, "insufficient_permission")
    if writes:
        refusal(call(tenant.support), 403, "impersonation_read_only")
    let_in = [
        *([tenant.key(scope)] if scope else []),
        *(tenant.person(role) for role in ROLES[ROLES.index(least_role) :]),
    ]
    for caller in let_in if writes else [*let_in, tenant.support]:
        assert call(caller).status_code not in {401, 403}
