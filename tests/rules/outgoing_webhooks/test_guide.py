"""The guide of webhooks: its example of verifying accepts what the service signs, and nothing else."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rules.outgoing_webhooks.events import WITHHELD
from rules.outgoing_webhooks.retries import DELAYS
from rules.outgoing_webhooks.signatures import new_secret, signed_headers

GUIDE = (Path(__file__).parents[3] / "docs/guide/webhooks.md").read_text()
BODY = b'{"type":"freeze.started"}'
Verify = Callable[[list[str], Mapping[str, str], bytes], bool]


@pytest.fixture(scope="module")
def verify() -> Verify:
    """Return the function of the example."""
    [example] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    function: Verify = names["verify"]
    return function


def test_example_accepts_messages_also_during_a_rotation(verify: Verify) -> None:
    old, new = new_secret(), new_secret()
    headers = signed_headers([new, old], "msg_1", int(time.time()), BODY)
    assert verify([new], headers, BODY)
    assert verify([old], headers, BODY)
    assert verify([new_secret(), old], headers, BODY)


def test_example_refuses_other_secrets_bodies_ids_and_times(verify: Verify) -> None:
    secret, now = new_secret(), int(time.time())
    headers = signed_headers([secret], "msg_1", now, BODY)
    assert not verify([new_secret()], headers, BODY)
    assert not verify([secret], headers, BODY + b" ")
    assert not verify([secret], headers | {"webhook-id": "msg_2"}, BODY)
    assert not verify([secret], headers | {"webhook-timestamp": str(now - 1)}, BODY)
    assert not verify([secret], signed_headers([secret], "msg_1", now - 301, BODY), BODY)


def test_guide_names_what_is_never_sent() -> None:
    assert [name for name in WITHHELD if f"`{name}.*`" not in GUIDE and "." not in name] == []


def test_guide_has_the_times_of_retries() -> None:
    hours = [int(delay.total_seconds() // 3600) for delay in DELAYS if delay.total_seconds() >= 3600]
    assert f"5 seconds, 5 and 30 minutes, {', '.join(map(str, hours[:-1]))} and {hours[-1]} hours" in " ".join(
        GUIDE.split()
    )
