"""A client that repeats a request under the same idempotency key until it gets a final answer.

A `Ledger` records what was acknowledged, for the judge.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import requests

from tests.faults.suite.seeding import Organization
from tests.faults.suite.stack import Stack

PATIENCE = 60.0
"""Seconds in which a request gets a final answer."""
_numbers = count(1)


@dataclass(slots=True)
class AcknowledgedFreeze:
    """A freeze that was acknowledged, and the numbers of the evaluations between which no merge may be allowed."""

    id: str
    branches: frozenset[str]
    key: str
    since: int
    """Later evaluations were made after the freeze was committed."""
    until: int | None = None
    """Evaluations up to this one were made before a lift was requested."""
    lifted: bool = False
    """Whether the lift was acknowledged."""


@dataclass
class Ledger:
    """What clients have requested, and what was acknowledged."""

    freezes: dict[str, AcknowledgedFreeze] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    """Every idempotency key under which a freeze was requested, acknowledged or not."""
    answers: list[tuple[str, int, float]] = field(default_factory=list)
    """What was asked, the status (0: none), and the seconds it took."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Client:
    """A client of one organisation, with its API key."""

    stack: Stack
    organization: Organization
    ledger: Ledger
    stop: Callable[[], bool] = lambda: False
    """True if retries are given up."""

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        credential: str | None = None,
        timeout: float = 10.0,
    ) -> requests.Response:
        """Send one request, once."""
        headers = {"Authorization": f"Bearer {credential or self.organization.key}", "Connection": "close"}
        if key is not None:
            headers["Idempotency-Key"] = key
        began, status = time.monotonic(), 0
        try:
            answer = requests.request(
                method, f"{self.stack.address}{path}", json=body, headers=headers, timeout=timeout
            )
            status = answer.status_code
        finally:
            with self.ledger.lock:
                self.ledger.answers.append((f"{method} {path}", status, time.monotonic() - began))
        return answer

    def insist(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> requests.Response:
        """Send a request under one key until its answer does not ask to try again. Raise after `PATIENCE` seconds."""
        key = key or new_key()
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.request(method, path, body, key=key)
            except requests.RequestException:
                answer = None
            if answer is not None and not _is_to_be_repeated(answer):
                return answer
            assert time.monotonic() < give_up, f"{method} {path} was not answered for good: {answer}"
            assert not self.stop(), "stopped"
            time.sleep(0.1)

    def as_owner(self, method: str, path: str, body: Any = None) -> Any:
        """Have the owner send a request that succeeds, once, and return the body of its answer."""
        answer = self.request(method, path, body, credential=self.organization.session)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def freeze(self, scope: dict[str, Any] | None = None, *, key: str | None = None, **wanted: Any) -> str:
        """Start a freeze, with retries, and return its id."""
        key = key or new_key()
        with self.ledger.lock:
            self.ledger.keys.add(key)
        answer = self.insist("POST", "/v1/freezes", freeze_body(scope, key, **wanted), key=key)
        assert answer.status_code == 201, answer.text
        return self.note(answer.json()["id"], key)

    def note(self, freeze_id: str, key: str) -> str:
        """Record that a freeze was acknowledged, and return its id."""
        branches = self.stack.sql("SELECT branch_id FROM freeze_targets WHERE freeze_id = %s", freeze_id)
        found = AcknowledgedFreeze(freeze_id, frozenset(row[0] for row in branches), key, self.evaluation())
        with self.ledger.lock:
            self.ledger.freezes[freeze_id] = found
            self.ledger.keys.add(key)
        return freeze_id

    def lift(self, freeze_id: str, *, key: str | None = None) -> None:
        """Lift a freeze, with retries."""
        self.asking_to_lift(freeze_id)
        answer = self.insist("POST", f"/v1/freezes/{freeze_id}/lift", {"reason": "It is over"}, key=key)
        assert answer.status_code == 200, answer.text
        self.ledger.freezes[freeze_id].lifted = True

    def asking_to_lift(self, freeze_id: str) -> None:
        """Record that from now on evaluations may allow a merge again."""
        self.ledger.freezes[freeze_id].until = self.evaluation()

    def evaluation(self) -> int:
        """Return the number of the latest evaluation."""
        return int(self.stack.sql("SELECT last_value FROM evaluations")[0][0])


def new_key() -> str:
    """Return an unused idempotency key."""
    return f"fault-suite-{next(_numbers)}"


def freeze_body(scope: dict[str, Any] | None, key: str, **wanted: Any) -> dict[str, Any]:
    """Return the body of a request for a freeze; its reason names the key, so that it can be counted."""
    whole = scope or {"type": "organization"}
    return {"scope": whole, "reason": f"Requested under {key}.", "impactAcknowledged": True, **wanted}


def _is_to_be_repeated(answer: requests.Response) -> bool:
    """True if the service was unavailable, or the first request is still in progress."""
    if answer.status_code == 409:
        return "still in progress" in answer.text
    return answer.status_code >= 500 or answer.status_code == 429
