"""Following what is written at the simulated GitHub: each verdict with the moment at which it arrived there.

The moments are GitHub's, of the same machine's clock, so how often one looks blurs nothing.
"""

import time
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from tools.bench.stack import Stack, until


@dataclass(frozen=True, slots=True)
class Write:
    """One verdict that was written."""

    at: float
    """Epoch seconds."""
    head: str
    conclusion: str


@dataclass(slots=True)
class Writes:
    """All verdicts since the counters were last reset, in the order in which they were written."""

    stack: Stack
    all: list[Write] = field(default_factory=list)

    def look(self) -> None:
        """Read the new writes."""
        listed: list[dict[str, Any]] = self.stack.control("GET", f"/writes?after={len(self.all)}")["writes"]
        self.all += [Write(each["receivedAt"], each["headSha"], each["conclusion"]) for each in listed]

    def first(self, conclusion: str, since: float, heads: Collection[str]) -> dict[str, float]:
        """Return when each of the heads first got a conclusion since a moment, the earliest first."""
        found: dict[str, float] = {}
        for write in self.all:
            if write.conclusion == conclusion and write.at >= since and write.head in heads:
                found.setdefault(write.head, write.at)
        return found

    def wait(self, conclusion: str, since: float, heads: Collection[str]) -> float:
        """Wait until all of the heads got the conclusion; return the seconds from `since` to the last of them."""
        missing, place, last = set(heads), bisect_left(self.all, since, key=lambda write: write.at), since

        def written() -> bool:
            """Read what is new; True if no head misses the conclusion any more."""
            nonlocal place, last
            self.look()
            for write in self.all[place:]:  # each once: measuring takes processor time
                if write.conclusion == conclusion and write.at >= since and write.head in missing:
                    missing.remove(write.head)
                    last = write.at
            place = len(self.all)
            return not missing

        until(written)
        return last - since


def freeze(stack: Stack, login: str, reason: str) -> tuple[str, float]:
    """Freeze everything of an organisation; return the freeze's id and the moment at which it was requested."""
    since = time.time()
    body = {"scope": {"type": "organization"}, "reason": reason, "impactAcknowledged": True}
    answer = stack.call("POST", "/v1/freezes", body, login)
    answer.raise_for_status()
    return answer.json()["id"], since


def lift(stack: Stack, login: str, freeze_id: str) -> float:
    """Lift a freeze; return the moment at which it was requested."""
    since = time.time()
    stack.call("POST", f"/v1/freezes/{freeze_id}/lift", {}, login).raise_for_status()
    return since
