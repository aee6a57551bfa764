"""From an installation to judged heads, by the service's own ways: read repositories, enable them, wait for checks."""

from collections.abc import Callable

from rules.check_names import check_name
from tools.sandbox.clients import Client
from tools.sandbox.tenants import AUTO_WATCH, Tenant


class Preparation:
    """Gets one organisation ready; finds nothing to do on later starts."""

    def __init__(
        self,
        tenant: Tenant,
        service: Client,
        code_host: Client,
        wait_until: Callable[[Callable[[], bool], str], None],
    ) -> None:
        self.tenant = tenant
        self.service = service
        self.code_host = code_host
        self.wait_until = wait_until

    def run(self) -> None:
        """Return when every open head of every repository has been judged."""
        if not set(self.tenant.full_names) <= self._known().keys():
            self.service.call("POST", "/v1/repos/sync")
            self.wait_until(lambda: set(self.tenant.full_names) <= self._known().keys(), "Reading the repositories")
        if not any(self._known().values()):  # they are enabled all at once; what people disable later stays so
            self._enable()
        for name in self.tenant.full_names:
            waiting = self._heads(name)
            self.wait_until(lambda name=name, waiting=waiting: self._judged(name, waiting), f"Judging {name}'s heads")  # type: ignore[misc]

    def _known(self) -> dict[str, bool]:
        return {each["fullName"]: each["enabled"] for each in self.service.pages("/v1/repos")}

    def _enable(self) -> None:
        for name in self.tenant.full_names:
            body = {"settings": {"autoWatch": list(AUTO_WATCH)}}
            self.service.call("PATCH", f"/v1/repos/{name.replace('/', '%2F')}", body)
        self.service.call("POST", "/v1/repos/enable", {"repositories": self.tenant.full_names})

    def _heads(self, name: str) -> set[tuple[str, str]]:
        pulls = self.code_host.call("GET", f"/repos/{name}/pulls?state=open&per_page=100")
        return {(pull["head"]["sha"], check_name(pull["base"]["ref"], AUTO_WATCH)) for pull in pulls}

    def _judged(self, name: str, waiting: set[tuple[str, str]]) -> bool:
        """Tell whether all have their check; forgets those that have, so that nobody asks twice."""
        for sha, check in list(waiting):
            runs = self.code_host.call("GET", f"/repos/{name}/commits/{sha}/check-runs?per_page=100")["check_runs"]
            if any(run["name"] == check for run in runs):
                waiting.remove((sha, check))
        return not waiting
