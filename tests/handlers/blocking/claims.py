"""What the API says of freezes and pull requests, beside what GitHub accepts."""

from dataclasses import dataclass
from typing import Any

from app.metrics import families
from app.metrics.readings import read_enforcement
from services.core.unit_of_work import SYSTEM_CALLER
from services.maintenance.tasks import review_enforcement
from tests.handlers.callers import EVERYTHING, Tenant, answered
from tests.harness.github_harness import Harness
from tests.jobs.probes.requests import look, probe
from tests.jobs.setup.requests import work

ACCEPTED, REFUSED = 200, 405


@dataclass(slots=True)
class Frozen:
    """An organisation whose branches are frozen, asked through the API."""

    acme: Tenant
    workers: Harness

    def repository(self, name: str = "web", *branches: str, rule: bool = True, **columns: Any) -> int:
        """Add a repository whose `main` is watched, with one pull request; return its number."""
        self.acme.repository(name, *branches, **columns)
        built = self.acme.host.organization("acme").repository(name)
        if rule:
            built.requires("change-freeze/main", "main")
        number: int = built.pull_request(base="main").number
        self.watch(name)
        return number

    def watch(self, name: str = "web", branch: str = "main") -> str:
        answer = answered(self.acme.key().post(f"/v1/repos/acme%2F{name}/branches", {"name": branch}), 201)
        branch_id: str = answer["id"]
        return branch_id

    def start(self, **body: Any) -> str:
        """Start a freeze, of everything by default; return its id."""
        answer = self.acme.key().post("/v1/freezes", {**EVERYTHING, **body})
        assert answer.status_code in {201, 202}, answer.text
        freeze_id: str = answer.json()["id"]
        return freeze_id

    def settle(self) -> None:
        """Write checks and rules, and read the rules, until nothing is due."""
        look(self.workers)
        work(self.workers)
        probe(self.workers)
        self.workers.run_until_idle()

    def review(self) -> None:
        """Have the sweeper look at the freezes in force, whenever it did so last."""
        self.workers.sql("DELETE FROM periodic_tasks WHERE name = 'enforcement'")
        review_enforcement(self.workers.jobs)

    def _get(self, path: str, **params: Any) -> dict[str, Any]:
        return answered(self.acme.person("viewer").get(path, **params))

    def freeze(self, freeze_id: str) -> dict[str, Any]:
        return self._get(f"/v1/freezes/{freeze_id}")

    def counts(self, freeze_id: str) -> dict[str, int]:
        """Return what is counted of the branches of a freeze, without zeros."""
        counts = self.freeze(freeze_id)["targets"]
        return {name: counts[name] for name in ("blocked", "partly", "unprotected", "unknown", "late") if counts[name]}

    def target(self, freeze_id: str) -> str:
        """Return whether the only target of a freeze is blocked."""
        [target] = self._get(f"/v1/freezes/{freeze_id}/targets")["data"]
        return str(target["blocking"]["state"])

    def pull(self, number: int, name: str = "web") -> str:
        """Return whether a pull request is blocked."""
        return str(self._get("/v1/pulls/lookup", ref=f"acme/{name}#{number}")["blocking"]["state"])

    def says_enforced(self) -> bool:
        """True if the polled state of the organisation says so."""
        return bool(self._get("/v1/freeze-state", organization="current")["enforced"])

    def gaps(self) -> list[tuple[str, str]]:
        """Return severity and beginning of the items of attention about frozen branches."""
        data = self._get("/v1/attention")["data"]
        return [(item["severity"], item["message"].split(",")[0]) for item in data if item["type"] == "freeze_gap"]

    def audited(self) -> list[str]:
        """Return the actions of the audit that say how a freeze goes on; people are notified of these."""
        return [action for action in self.acme.audit() if action in {"freeze.enforced", "freeze.unprotected"}]

    def oldest_due(self) -> float:
        """Return the metric of the branch that has waited longest."""
        with self.workers.jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            return next(each.value for each in read_enforcement(uow) if each.family is families.OLDEST_DUE_BRANCH)

    def merge(self, number: int, name: str = "web") -> int:
        return self.workers.merge(f"acme/{name}", number).status_code
