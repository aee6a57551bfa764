"""The demonstration: a freeze blocks a merge at the simulated GitHub, and a lift allows it; all over HTTP."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rules.freezes.check_names import is_stop
from tools.sandbox.clients import Client, Refused
from tools.sandbox.console import say
from tools.sandbox.settings import SandboxError
from tools.sandbox.tenants import Tenant

REASON = "Demonstration: quarter-end close"


@dataclass(frozen=True, slots=True)
class Heads:
    """Open heads of a freeze's branches, and on how many of them the wanted check is written."""

    written: int
    total: int


class Demonstration:
    """One freeze of an organisation, printed line by line."""

    def __init__(
        self,
        tenant: Tenant,
        service: Client,
        fake_github: Client,
        wait_until: Callable[[Callable[[], bool], str], None],
    ) -> None:
        self.tenant = tenant
        self.repository = tenant.full_names[0]
        self.service = service
        self.fake_github = fake_github
        self.wait_until = wait_until

    def run(self) -> None:
        """Freeze, fail to merge, lift, merge. The freeze is lifted even if a step fails."""
        frozen_by = self._freezes_in_force()
        if frozen_by:
            say(f"{self.repository} is frozen already ({', '.join(frozen_by)}): no demonstration this time.")
            return
        say(f"A freeze of {self.tenant.slug}, from beginning to end:")
        self._tell("GET /v1/enforcement", f"200 {self._light()}")
        number = self._open_pull_request()
        self._tell("a new pull request", f"{self.repository}#{number}, judged by the service as it arrived: mergeable")
        freeze_id = self._freeze()
        try:
            self._fail_to_merge(number)
        finally:
            self._lift(freeze_id)
        answer = self.fake_github.call("PUT", f"/repos/{self.repository}/pulls/{number}/merge", {})
        self._tell(f"PUT …/pulls/{number}/merge", f"200 {answer['message']}")
        self._delete_branch(number)

    def _freezes_in_force(self) -> list[str]:
        state = self.service.call("GET", f"/v1/freeze-state?repo={self.repository}&branch=main")
        return [freeze["id"] for freeze in state["freezes"]] if state["frozen"] else []

    def _light(self) -> str:
        shown = self.service.call("GET", "/v1/enforcement?limit=1")
        return f"{shown['light']}: {shown['counts']['green']} of {sum(shown['counts'].values())} branches really block"

    def _open_pull_request(self) -> int:
        repository, fake_github = f"/repos/{self.repository}", self.fake_github
        tip = fake_github.call("GET", f"{repository}/git/ref/heads/main")["object"]["sha"]
        branch = f"demo/{time.time_ns() // 1_000_000}"
        fake_github.call("POST", f"{repository}/git/refs", {"ref": f"refs/heads/{branch}", "sha": tip})
        content = base64.b64encode(branch.encode()).decode()
        change = {"message": "Say hello", "content": content, "branch": branch}
        fake_github.call("PUT", f"{repository}/contents/{branch}.txt", change)
        pull = fake_github.call("POST", f"{repository}/pulls", {"title": "Say hello", "head": branch, "base": "main"})
        self.wait_until(
            lambda: self._conclusion(pull["head"]["sha"]) == "success", "the first check of a new pull request"
        )
        return int(pull["number"])

    def _conclusion(self, sha: str) -> str | None:
        runs = self.fake_github.call("GET", f"/repos/{self.repository}/commits/{sha}/check-runs")["check_runs"]
        return runs[0]["conclusion"] if runs else None

    def _freeze(self) -> str:
        began = time.monotonic()
        body = {"scope": {"type": "organization"}, "reason": REASON, "impactAcknowledged": True}
        freeze = self.service.call("POST", "/v1/freezes", body)
        self._tell("POST /v1/freezes", f"201 {freeze['id']}, {took(began)}: {freeze['targets']['total']} branches")
        self.wait_until(lambda: self._freeze_now(freeze["id"])["enforcedAt"] is not None, "blocking every head")
        heads = self._heads(freeze["id"])
        self._tell("checks at GitHub", f"{heads.written} of {heads.total} heads blocked after {took(began)}")
        self.wait_until(self._has_no_stop, "the end of the stop")
        return str(freeze["id"])

    def _has_no_stop(self) -> bool:
        """Return whether the check alone decides: a stop holds a freeze of many heads until all checks are written."""
        rules = self.fake_github.call("GET", f"/repos/{self.repository}/rules/branches/main")
        required = [rule["parameters"]["required_status_checks"] for rule in rules if "checks" in rule["type"]]
        return not any(is_stop(check["context"]) for checks in required for check in checks)

    def _fail_to_merge(self, number: int) -> None:
        try:
            self.fake_github.call("PUT", f"/repos/{self.repository}/pulls/{number}/merge", {})
        except Refused as refused:
            self._tell(f"PUT …/pulls/{number}/merge", f"{refused.status} {refused.message}")
        else:
            raise SandboxError(f"GitHub merged {self.repository}#{number} during the freeze.")

    def _lift(self, freeze_id: str) -> None:
        began = time.monotonic()
        self.service.call("POST", f"/v1/freezes/{freeze_id}/lift")
        self._tell("POST …/lift", f"200, {took(began)}")
        self.wait_until(lambda: self._freeze_now(freeze_id)["releasedAt"] is not None, "releasing every head")
        heads = self._heads(freeze_id)
        self._tell("checks at GitHub", f"{heads.written} of {heads.total} heads released after {took(began)}")

    def _freeze_now(self, freeze_id: str) -> Any:
        return self.service.call("GET", f"/v1/freezes/{freeze_id}")

    def _heads(self, freeze_id: str) -> Heads:
        counts = [target["heads"] for target in self.service.pages(f"/v1/freezes/{freeze_id}/targets")]
        return Heads(sum(count["written"] for count in counts), sum(count["total"] for count in counts))

    def _delete_branch(self, number: int) -> None:
        branch = self.fake_github.call("GET", f"/repos/{self.repository}/pulls/{number}")["head"]["ref"]
        self.fake_github.call("DELETE", f"/repos/{self.repository}/git/refs/heads/{branch}")

    def _tell(self, what: str, outcome: str) -> None:
        say(f"  {what:<24} {outcome}")


def took(began: float) -> str:
    """Return how long ago `began` was, a moment of `time.monotonic()`, with its unit."""
    seconds = time.monotonic() - began
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
