"""A client of the service that keeps at it: the same request under the same key until it is answered for good.

What was acknowledged is written down in a `Ledger`, for the judge to look for.
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
_numbers = count(1)


@dataclass(slots=True)
class Interval:
    """A freeze that was acknowledged, and the evaluations from and up to which no merge may have been allowed."""

    id: str
    branches: frozenset[str]
    key: str
    since: int
    """Evaluations above it were made after the freeze had been committed."""
    until: int | None = None
    """Evaluations up to it were made before anybody asked to lift the freeze."""
    lifted: bool = False
    """Whether the lift was acknowledged."""


@dataclass
class Ledger:
    """What clients were answered."""

    freezes: dict[str, Interval] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    """Every idempotency key under which a freeze was requested, acknowledged or not."""
    answers: list[tuple[str, int, float]] = field(default_factory=list)
    """What was asked, the status (0: none), and the seconds it took."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Client:
    """Speaks for one organisation."""

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
        """Send a request under one key until it is answered otherwise than 'try again'."""
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

    def freeze(self, scope: dict[str, Any] | None = None, *, key: str | None = None, **wanted: Any) -> str:
        """Start a freeze, insisting, and return its id."""
        key = key or new_key()
        with self.ledger.lock:
            self.ledger.keys.add(key)
        answer = self.insist("POST", "/v1/freezes", freeze_body(scope, key, **wanted), key=key)
        assert answer.status_code == 201, answer.text
        return self.note(answer.json()["id"], key)

    def note(self, freeze_id: str, key: str) -> str:
        """Record that a freeze was acknowledged, and return its id."""
        branches = self.stack.sql("SELECT branch_id FROM freeze_targets WHERE freeze_id = %s", freeze_id)
        found = Interval(freeze_id, frozenset(row[0] for row in branches), key, self.evaluation())
        with self.ledger.lock:
            self.ledger.freezes[freeze_id] = found
            self.ledger.keys.add(key)
        return freeze_id

    def lift(self, freeze_id: str, *, key: str | None = None) -> None:
        """Lift a freeze, insisting."""
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
    """True if a client should send it again: the service was away, or the first one is still under way."""
    if answer.status_code == 409:
        return "still in progress" in answer.text
    return answer.status_code >= 500 or answer.status_code == 429
