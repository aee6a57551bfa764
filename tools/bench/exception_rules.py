"""A freeze of one branch with 1,000 open heads, without rules of exceptions and with two.

Aims: with two rules at most twice the calls and 1.5 times the CPU of the worker; no difference where no rule applies.
A second freeze of the same heads reads no fact again: no pull request has changed.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import create_engine, text

from tools.bench.fan_out import conclusions
from tools.bench.seeding import Account, plain
from tools.bench.servers import cpu_seconds, machine
from tools.bench.stack import INSTALLATION, LOGIN, Stack, scaled, serving, wait_for_rest, warm
from tools.bench.writes import until

HEADS = scaled(1000)
LATENCY_MS = 50
POLL_INTERVAL = 0.05
FILES = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
LABEL = {"label": {"name": "hotfix", "setBy": {"accounts": ["captain"]}}}
_RULE = text("""
    INSERT INTO exception_rules (id, organization_id, name, enabled, reason, scope, freezes, schedule_ids, allow,
                                 identities, created_at, created_by, updated_at)
    SELECT CAST(:id AS text), id, :id, true, 'Measuring rules', CAST(:scope AS jsonb), 'all', '{}',
           CAST(:allow AS jsonb), '{"accounts": {"captain": 1}, "teams": {}}', now(), '{}', now()
    FROM organizations
""")


def main() -> None:
    """Measure and print."""
    account = Account(LOGIN, INSTALLATION, [plain("service-{}", 1, HEADS)])
    unlimited = {"GITHUB_POINTS_PER_MINUTE": "1000000"}  # the freezes follow each other at once
    with serving([account], settings={"latencyMs": LATENCY_MS}, environment=unlimited) as stack:
        print(f"A freeze of {HEADS} heads, one worker, {LATENCY_MS} ms a call ({machine()})")
        warm(stack, f"{LOGIN}/service-1")
        until(lambda: conclusions(stack) == {"success": HEADS}, POLL_INTERVAL)
        without = measure(stack)
        print(f"  no rule:                     {without}")
        add_rule(stack, "elsewhere", FILES, {"type": "glob", "patterns": ["other/*"]})
        print(f"  a rule that does not apply:  {measure(stack)}")
        add_rule(stack, "files", FILES, {"type": "organization"})
        add_rule(stack, "label", LABEL, {"type": "organization"})
        ruled = measure(stack)
        print(f"  two rules:                   {ruled}")
        print(f"    calls {ruled.calls / without.calls:.2f} x (aim 2), CPU {ruled.cpu / without.cpu:.2f} x (aim 1.5)")
        print(f"  two rules, nothing changed:  {measure(stack)}")


@dataclass(frozen=True, slots=True)
class FreezeCost:
    """Calls to GitHub and CPU seconds of the worker until it was at rest, and seconds until all heads were blocked."""

    calls: int
    cpu: float
    blocked: float

    def __str__(self) -> str:
        return f"{self.calls} calls, {self.cpu:.2f} s CPU, all blocked after {self.blocked:.1f} s"


def measure(stack: Stack) -> FreezeCost:
    """Freeze everything, wait until it is at rest, and lift it."""
    stack.control("GET", "/calls?reset=true")
    cpu, began = cpu_seconds(stack.processes["worker-1"]), time.monotonic()
    body = {"scope": {"type": "organization"}, "reason": "Measuring rules", "impactAcknowledged": True}
    answer = stack.call("POST", "/v1/freezes", body)
    answer.raise_for_status()
    until(lambda: conclusions(stack) == {"failure": HEADS}, POLL_INTERVAL)
    blocked = time.monotonic() - began
    wait_for_rest(stack)
    cost = FreezeCost(stack.control("GET", "/calls")["total"], cpu_seconds(stack.processes["worker-1"]) - cpu, blocked)
    stack.call("POST", f"/v1/freezes/{answer.json()['id']}/lift", {}).raise_for_status()
    until(lambda: conclusions(stack) == {"success": HEADS}, POLL_INTERVAL)
    wait_for_rest(stack)
    return cost


def add_rule(stack: Stack, name: str, condition: dict[str, Any], scope: dict[str, Any]) -> None:
    """Add a rule, that no head meets."""
    engine = create_engine(stack.stores.database_url)
    with engine.begin() as connection:
        values = {"id": f"exr_{name}", "scope": json.dumps(scope), "allow": json.dumps({"all": [condition]})}
        connection.execute(_RULE, values)
    engine.dispose()


if __name__ == "__main__":
    main()
