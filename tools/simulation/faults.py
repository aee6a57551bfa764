"""Faults: what goes wrong, where, how often.

A fault matches calls whose label contains its scope. Labels: `POST /repos/acme/web/check-runs` for a call,
`webhook pull_request.opened acme/web` for a webhook.
"""

import random
import threading
from dataclasses import dataclass, field, fields
from typing import Any

CALL_KINDS = ("error", "timeout", "disconnect", "slow_body", "revoked")
WEBHOOK_KINDS = ("webhook_drop", "webhook_duplicate", "webhook_reorder", "webhook_delay")
KINDS = (*CALL_KINDS, *WEBHOOK_KINDS)


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong.

    `after` lets the call take effect before its answer is lost; `skip` is how many matching calls it lets pass first,
    `count` how often it strikes then (None: until cleared); `seconds` is how long a timeout hangs, a slow body takes, a
    webhook is late; `headers` are those of an error's answer.
    """

    id: int
    kind: str
    scope: str = ""
    status: int = 500
    message: str | None = None
    after: bool = False
    skip: int = 0
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    seconds: float = 30.0
    headers: dict[str, str] = field(default_factory=dict)
    struck: int = 0
    chance: random.Random = field(default_factory=random.Random, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return the fault as the control plane shows it."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "chance"}


class Faults:
    """The faults that are switched on."""

    def __init__(self, *more_kinds: str) -> None:
        self.kinds = (*KINDS, *more_kinds)
        self.active: list[Fault] = []
        self._lock = threading.Lock()
        self._next = 1

    def add(self, kind: str, scope: str = "", **details: Any) -> Fault:
        """Switch a fault on; raise ValueError for an unknown kind, TypeError for an unknown detail."""
        if kind not in self.kinds:
            raise ValueError(f"unknown kind of fault {kind}; known: {', '.join(self.kinds)}")
        fault = Fault(self._next, kind, scope, **details)
        fault.chance = random.Random(fault.seed)
        with self._lock:
            self._next += 1
            self.active.append(fault)
        return fault

    def clear(self, fault_id: int | None = None) -> None:
        """Switch one fault off, or all."""
        with self._lock:
            self.active = [] if fault_id is None else [fault for fault in self.active if fault.id != fault_id]

    def hit(self, kind: str | tuple[str, ...], label: str) -> Fault | None:
        """Return the fault of one of the kinds that applies to a call now, if any, and count it."""
        if not self.active:
            return None
        kinds = (kind,) if isinstance(kind, str) else kind
        with self._lock:
            for fault in self.active:
                if fault.kind in kinds and fault.scope in label and self._strikes(fault):
                    return fault
        return None

    @staticmethod
    def _strikes(fault: Fault) -> bool:
        if fault.count is not None and fault.struck >= fault.count:
            return False
        if fault.skip > 0:
            fault.skip -= 1
            return False
        if fault.probability < 1 and fault.chance.random() >= fault.probability:
            return False
        fault.struck += 1
        return True
