"""Many who freeze and lift the same branches at the same moment: all of them are answered."""

from collections import Counter

import pytest

from tests.handlers.callers import EVERYTHING, Caller, Tenant
from tests.harness.concurrency import at_once

CALLERS = 30


@pytest.mark.check
@pytest.mark.usefixtures("web", "api")
def test_none_of_30_concurrent_freezes_and_lifts_finds_the_service_busy(acme: Tenant) -> None:
    callers = [acme.key("freeze:read", "freeze:write") for _ in range(CALLERS)]

    def freeze_and_lift(caller: Caller) -> tuple[int, int]:
        frozen = caller.post("/v1/freezes", EVERYTHING)
        lifted = caller.post(f"/v1/freezes/{frozen.json().get('id')}/lift")
        return frozen.status_code, lifted.status_code

    for _ in range(2):
        answers = at_once(*[lambda caller=caller: freeze_and_lift(caller) for caller in callers])
        assert Counter(answers) == {(201, 200): CALLERS}
    assert acme.key().get("/v1/freezes", state="in_force").json()["data"] == []
