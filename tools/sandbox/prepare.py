"""From an installation to enabled repositories, through the API: sync repositories, enable them, wait for checks.

The service verifies that GitHub's rules require those checks after administrators have authorised it.
"""

from collections.abc import Callable

from tools.sandbox.clients import Client
from tools.sandbox.tenants import AUTO_WATCH, Tenant


class Preparation:
    """Prepares one organisation; on later starts there is nothing to do."""

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
        """Sync the repositories; enable them if none is enabled, and wait until every head has its checks."""
        if not set(self.tenant.full_names) <= self._known().keys():
            self.service.call("POST", "/v1/repos/sync")
            self.wait_until(lambda: set(self.tenant.full_names) <= self._known().keys(), "Reading the repositories")
        if not any(self._known().values()):  # they are enabled at once; what people disable later stays disabled
            self._enable()
            self.wait_until(self._has_all_checks, "Writing the first checks")

    def verify_rules(self) -> None:
        """Have the service read the rules, once it is known whether it may write them."""
        self.service.call("POST", "/v1/enforcement/verify", {"scope": {"type": "organization"}})
        self.wait_until(lambda: self._pending("verify") == 0, "Verifying the rules")

    def _known(self) -> dict[str, bool]:
        return {each["fullName"]: each["enabled"] for each in self.service.pages("/v1/repos")}

    def _enable(self) -> None:
        for name in self.tenant.full_names:
            body = {"settings": {"autoWatch": list(AUTO_WATCH)}}
            self.service.call("PATCH", f"/v1/repos/{name.replace('/', '%2F')}", body)
        self.service.call("POST", "/v1/repos/enable", {"repositories": self.tenant.full_names})

    def _has_all_checks(self) -> bool:
        """Return True if every open head has all the checks that it is required to have."""
        heads = self.fake_github.call("GET", "/_control/checks")["heads"]
        ours = [head for head in heads if head["repository"] in self.tenant.full_names]
        required = all(set(head["required"]) <= head["checks"].keys() for head in ours)
        return required and self._pending("seed") == 0

    def _pending(self, what: str) -> int:
        return int(self.service.call("GET", "/v1/enforcement?limit=1")["pending"][what])
