"""What state machines of plans have in common: an organisation with a branch that is frozen again and again."""

from typing import ClassVar

import httpx
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from models.repositories import WatchedBranch
from tests.handlers.callers import Caller, answered
from tests.harness.clock import MovableClock


class FreezingMachine(RuleBasedStateMachine):
    """Freezes a branch with `key`, and lifts: no plan decides on that."""

    clock: ClassVar[MovableClock]
    key: Caller
    branch: WatchedBranch

    def __init__(self) -> None:
        super().__init__()
        self.freezes: set[str] = set()
        """Those in force."""

    @rule()
    def start_freeze(self) -> None:
        body = {"scope": {"type": "branch", "branchId": self.branch.id}, "reason": "Release under way"}
        self.freezes.add(answered(self.key.post("/v1/freezes", body), 201)["id"])

    @precondition(lambda self: self.freezes)
    @rule()
    def lift_freeze(self) -> None:
        answer = self.key.post(f"/v1/freezes/{self.freezes.pop()}/lift", {})
        assert answer.status_code == 200, answer.text

    @invariant()
    def freezes_agree(self) -> None:
        listed = self.key.get("/v1/freezes", state="in_force", limit=100).json()["data"]
        assert {each["id"] for each in listed} == self.freezes
        assert self.key.get("/v1/freeze-state", branchId=self.branch.id).json()["frozen"] is bool(self.freezes)


def code(answer: httpx.Response) -> str:
    """Return the code of a refusal."""
    found: str = answer.json()["error"]["code"]
    return found
