"""The steps of `test_generated_clients`, with openapi-generator's client `python`: PROGRAM BASE_URL KEY."""

import sys
import time
from collections.abc import Callable

from openapi_client import ApiClient, Configuration
from openapi_client.api import FreezesApi, RepositoriesApi, ServiceApi
from openapi_client.exceptions import ApiException
from openapi_client.models import BranchScope, CreateFreezeRequest, ErrorResponse, Freeze, ScopeInput

base_url, key = sys.argv[1:]
client = ApiClient(Configuration(host=base_url, access_token=key))
freezes, repositories = FreezesApi(client), RepositoriesApi(client)


def wait(freeze_id: str, done: Callable[[Freeze], object]) -> None:
    """Return when the freeze is as it should be; the test limits the time."""
    while not done(freezes.get_freeze(freeze_id)):
        time.sleep(0.05)


assert b"\nopenapi: 3.0.3\n" in ServiceApi(client).get_openapi_yaml()
assert repositories.get_repository("acme/web").full_name == "acme/web"

scope = ScopeInput(BranchScope(type="branch", repository="acme/web", branch="main"))
request = CreateFreezeRequest(scope=scope, reason="Frozen by a Python program")
freeze = freezes.create_freeze(request, idempotency_key=f"pydantic-{time.time_ns()}")
assert freeze.scope.repository == "acme/web", freeze
wait(freeze.id, lambda found: found.enforced_at)
print("frozen", freeze.id, flush=True)

sys.stdin.readline()
freezes.lift_freeze(freeze.id)
wait(freeze.id, lambda found: found.released_at)
print("lifted", freeze.id, flush=True)

try:
    freezes.lift_freeze(freeze.id)
except ApiException as refused:
    print("refused", ErrorResponse.from_json(refused.body).error.code)

page = repositories.list_repositories(limit=5)
listed = page.data
while page.next_cursor is not None:
    page = repositories.list_repositories(limit=5, cursor=page.next_cursor)
    listed += page.data
print("listed", len({found.id for found in listed}))
