"""From an installation to judged heads, by the service's own ways: read repositories, enable them, wait for checks.

Then the service looks whether GitHub's rules require those checks.
"""

from collections.abc import Callable

from tools.sandbox.clients import Client
from tools.sandbox.tenants import AUTO_WATCH, Tenant


class Preparation:
    """Gets one organisation ready; finds nothing to do on later starts."""

    def __init__(
        self,
        tenant: Tenant,
        service: Client,
        fake_github: Client,
        wait_until: Callable[[Callable[[], bool], str], None],
    ) -> None:
        self.tenant = tenant
        self.service = service
        self.fake_github = fake_github
        self.wait_until = wait_until

    def run(self) -> None:
        """Return when every repository is known, and enabled if none was, with all its heads judged."""
        if not set(self.tenant.full_names) <= self._known().keys():
            self.service.call("POST", "/v1/repos/sync")
            self.wait_until(lambda: set(self.tenant.full_names) <= self._known().keys(), "Reading the repositories")
        if not any(self._known().values()):  # they are enabled all at once; what people disable later stays so
            self._enable()
            self.wait_until(self._judged, "Judging the heads")
            self.service.call("POST", "/v1/enforcement/verify", {"scope": {"type": "organization"}})
            self.wait_until(lambda: self._pending("verify") == 0, "Looking at the rules")

    def _known(self) -> dict[str, bool]:
        return {each["fullName"]: each["enabled"] for each in self.service.pages("/v1/repos")}

    def _enable(self) -> None:
        for name in self.tenant.full_names:
            body = {"settings": {"autoWatch": list(AUTO_WATCH)}}
            self.service.call("PATCH", f"/v1/repos/{name.replace('/', '%2F')}", body)
        self.service.call("POST", "/v1/repos/enable", {"repositories": self.tenant.full_names})

    def _judged(self) -> bool:
        """Return whether every open head has all the checks that it is required to have."""
        heads = self.fake_github.call("GET", "/_control/checks")["heads"]
        ours = [head for head in heads if head["repository"] in self.tenant.full_names]
        required = all(set(head["required"]) <= head["checks"].keys() for head in ours)
        return required and self._pending("seed") == 0

    def _pending(self, what: str) -> int:
        return int(self.service.call("GET", "/v1/enforcement?limit=1")["pending"][what])
