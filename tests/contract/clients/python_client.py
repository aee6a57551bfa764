"""The steps of `test_generated_clients`, with the client of openapi-python-client: PROGRAM BASE_URL KEY."""

import sys
import time
from collections.abc import Callable

from change_freeze_client.api.freezes import create_freeze, get_freeze, lift_freeze
from change_freeze_client.api.repositories import get_repository, list_repositories
from change_freeze_client.client import AuthenticatedClient
from change_freeze_client.models import BranchScope, BranchScopeType, CreateFreezeRequest, Freeze

base_url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=base_url, token=key)


def wait(freeze_id: str, done: Callable[[Freeze], object]) -> None:
    """Return when the freeze is as it should be; the test limits the time."""
    while not done(get_freeze.sync(freeze_id, client=client)):
        time.sleep(0.05)


repository = get_repository.sync("acme/web", client=client)
assert repository.full_name == "acme/web", repository

scope = BranchScope(BranchScopeType.BRANCH, repository="acme/web", branch="main")
request = CreateFreezeRequest(scope, "Frozen by a Python program")
freeze = create_freeze.sync(client=client, body=request, idempotency_key=f"python-{time.time_ns()}")
assert freeze.scope.repository == "acme/web", freeze
wait(freeze.id, lambda found: found.enforced_at)
print("frozen", freeze.id, flush=True)

sys.stdin.readline()
lift_freeze.sync(freeze.id, client=client)
wait(freeze.id, lambda found: found.released_at)
print("lifted", freeze.id, flush=True)

print("refused", lift_freeze.sync(freeze.id, client=client).error.code)

page = list_repositories.sync(client=client, limit=5)
listed = page.data
while page.next_cursor is not None:
    page = list_repositories.sync(client=client, limit=5, cursor=page.next_cursor)
    listed += page.data
print("listed", len({found.id for found in listed}))
