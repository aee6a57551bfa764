"""Rate limits as GitHub documents them: an hourly budget for each caller, and the secondary limits.

Primary: 5,000 points an hour, 50 more for each repository above 20, at most 12,500; REST and GraphQL apart.
Secondary: points a minute for each REST endpoint and for GraphQL, requests at the same time, and (whether checks
count is not documented) content created a minute and an hour. Counting always happens, so that the headers are right;
refusing is switched on.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tools.fake_github.calls import Calls
from tools.fake_github.identity import Caller
from tools.fake_github.model.identifiers import timestamp
from tools.fake_github.model.installations import accessible
from tools.fake_github.model.world import World
from tools.fake_github.settings import Settings
from tools.simulation.answers import Answer

HOUR, MINUTE = 3600, 60
BASE, EXTRA, FREE_REPOSITORIES, CAP = 5000, 50, 20, 12_500
DOCUMENTATION = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"
SECONDARY = f"{DOCUMENTATION}#about-secondary-rate-limits"


@dataclass(slots=True)
class Window:
    """Points used since a moment (epoch seconds)."""

    start: float
    used: float = 0


class Limits:
    """Counts what every caller uses and says when it is too much."""

    def __init__(self, world: World, settings: Settings, calls: Calls) -> None:
        self.world, self.settings, self.calls = world, settings, calls
        self._windows: dict[tuple[str, str], Window] = {}

    def reset(self) -> None:
        """Give everybody full budgets."""
        self._windows.clear()

    def _window(self, budget: str, name: str, length: int) -> Window:
        now = self.world.clock().timestamp()
        found = self._windows.get((budget, name))
        if found is None or now >= found.start + length:
            found = self._windows[budget, name] = Window(now)
        return found

    def hourly(self, caller: Caller, resource: str) -> int:
        """Return the points an hour that a caller has for `core` or `graphql`."""
        settings = self.settings
        fixed = settings.rest_points_per_hour if resource == "core" else settings.graphql_points_per_hour
        if fixed is not None:
            return fixed
        if caller.installation is None:
            return BASE
        count = len(accessible(self.world, caller.installation)) if caller.installation else 0
        return min(CAP, BASE + EXTRA * max(0, count - FREE_REPOSITORIES))

    def headers(self, caller: Caller, resource: str) -> dict[str, str]:
        """Return the `x-ratelimit-*` headers of an answer."""
        window, limit = self._window(caller.budget, resource, HOUR), self.hourly(caller, resource)
        return {
            "x-ratelimit-limit": str(limit),
            "x-ratelimit-remaining": str(max(0, int(limit - window.used))),
            "x-ratelimit-used": str(int(window.used)),
            "x-ratelimit-reset": str(int(window.start + HOUR)),
            "x-ratelimit-resource": resource,
        }

    def charge_rest(self, caller: Caller, method: str, template: str) -> Answer | None:
        """Count a REST call; the refusal when it is too much."""
        reading = method in {"GET", "HEAD", "OPTIONS"}
        refused = self._primary(caller, "core", 1)
        if refused:
            return Answer(self.settings.limit_status, refused | {"status": str(self.settings.limit_status)})
        allowed = self.settings.endpoint_points_per_minute
        return self._secondary(caller, f"{method} {template}", 1 if reading else 5, allowed, 0 if reading else 1)

    def charge_graph(self, caller: Caller, cost: int, roots: int, *, mutation: bool) -> Answer | None:
        """Count a GraphQL request of so many points; the refusal when it is too much."""
        refused = self._primary(caller, "graphql", cost)
        if refused:
            return Answer(200, {"errors": [{"type": "RATE_LIMITED", "message": refused["message"]}]})
        created = (roots if self.settings.content_counts_aliases else 1) if mutation else 0
        allowed = self.settings.graphql_points_per_minute
        return self._secondary(caller, "graphql", 5 if mutation else 1, allowed, created)

    def _primary(self, caller: Caller, resource: str, points: float) -> dict[str, Any] | None:
        window = self._window(caller.budget, resource, HOUR)
        if self.settings.primary_limits and window.used + points > self.hourly(caller, resource):
            window.used = float(self.hourly(caller, resource))
            owner = caller.budget.replace("installation", "installation ID").replace("account", "user ID")
            return {"message": f"API rate limit exceeded for {owner}.", "documentation_url": DOCUMENTATION}
        window.used += points
        return None

    def _secondary(self, caller: Caller, endpoint: str, points: int, allowed: int, created: int) -> Answer | None:
        settings = self.settings
        if settings.secondary_limits:
            minute = self._window(caller.budget, f"minute {endpoint}", MINUTE)
            minute.used += points
            if minute.used > allowed or self.calls.in_flight > settings.concurrent_requests:
                return self._wait()
        if settings.content_limits and created:
            minute = self._window(caller.budget, "content minute", MINUTE)
            hour = self._window(caller.budget, "content hour", HOUR)
            if minute.used + created > settings.content_per_minute or hour.used + created > settings.content_per_hour:
                return self._wait()
            minute.used += created
            hour.used += created
        return None

    def _wait(self) -> Answer:
        message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        status = self.settings.limit_status
        body = {"message": message, "documentation_url": SECONDARY, "status": str(status)}
        return Answer(status, body, {"Retry-After": str(self.settings.retry_after_seconds)})

    def graph_budget(self, caller: Caller, cost: int, nodes: int) -> dict[str, Any]:
        """Return what the `rateLimit` field shows."""
        window, limit = self._window(caller.budget, "graphql", HOUR), self.hourly(caller, "graphql")
        return {
            "cost": cost,
            "limit": limit,
            "nodeCount": nodes,
            "remaining": max(0, int(limit - window.used)),
            "used": int(window.used),
            "resetAt": timestamp(datetime.fromtimestamp(window.start + HOUR, UTC)),
        }
