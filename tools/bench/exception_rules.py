"""A freeze of one branch with 1,000 open heads and with 5,000, without rules of exceptions and with two.

Aims: with two rules at most twice the calls and 1.5 times the CPU of the worker; no difference where no rule applies.
A second freeze of the same heads reads no fact again: no pull request has changed.
"""

import json
from dataclasses import dataclass
from typing import Any

from tools.bench.servers import cpu_seconds, machine, memory_mb
from tools.bench.stack import LOGIN, Stack, heads_of, running, scaled, wait_for_rest, warm
from tools.bench.writes import Writes, freeze, lift

SIZES = (scaled(1000), scaled(5000))
LATENCY_MS = 50
FILES = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
LABEL = {"label": {"name": "hotfix", "setBy": {"accounts": ["captain"]}}}
_RULE = """
    INSERT INTO exception_rules (id, organization_id, name, enabled, reason, scope, freezes, schedule_ids, allow,
                                 identities, created_at, created_by, updated_at)
    SELECT CAST(:id AS text), id, :id, true, 'Measuring rules', CAST(:scope AS jsonb), 'all', '{}',
           CAST(:allow AS jsonb), '{"accounts": {"captain": 1}, "teams": {}}', now(), '{}', now()
    FROM organizations
"""


def main() -> None:
    """Measure and print."""
    for heads in SIZES:
        unlimited = {"GITHUB_POINTS_PER_MINUTE": "1000000"}  # the freezes follow each other at once
        with running(1, heads, latency_ms=LATENCY_MS, environment=unlimited) as stack:
            compare(stack, heads)


def compare(stack: Stack, heads: int) -> None:
    """Measure freezes of so many heads, and print."""
    print(f"A freeze of {heads} heads, one worker, {LATENCY_MS} ms a call ({machine()})")
    warm(stack, f"{LOGIN}/service-1")
    without = measure(stack)
    print(f"  no rule:                     {without}")
    if heads == SIZES[0]:
        add_rule(stack, "elsewhere", FILES, {"type": "glob", "patterns": ["other/*"]})
        print(f"  a rule that does not apply:  {measure(stack)}")
    add_rule(stack, "files", FILES, {"type": "organization"})
    add_rule(stack, "label", LABEL, {"type": "organization"})
    ruled = measure(stack)
    print(f"  two rules:                   {ruled}")
    print(f"    calls {ruled.calls / without.calls:.2f} x (aim 2), CPU {ruled.cpu / without.cpu:.2f} x (aim 1.5)")
    if heads == SIZES[0]:
        print(f"  two rules, nothing changed:  {measure(stack)}")


@dataclass(frozen=True, slots=True)
class FreezeCost:
    """Calls to GitHub and CPU seconds of the worker until it was at rest, its memory then, and when all was blocked."""

    calls: int
    cpu: float
    memory: float
    """In MB."""
    blocked: float
    """In seconds after the freeze."""

    def __str__(self) -> str:
        blocked = f"all blocked after {self.blocked:.1f} s"
        return f"{self.calls} calls, {self.cpu:.2f} s CPU, {blocked}, worker {self.memory:.0f} MB"


def measure(stack: Stack) -> FreezeCost:
    """Freeze everything, wait until it is at rest, and lift it."""
    stack.control("GET", "/calls?reset=true")
    worker, heads, writes = stack.processes["worker-1"], heads_of(stack), Writes(stack)
    cpu = cpu_seconds(worker)
    freeze_id, since = freeze(stack, LOGIN, "Measuring rules")
    blocked = writes.wait("failure", since, heads)
    wait_for_rest(stack)
    calls = stack.control("GET", "/calls")["total"]
    cost = FreezeCost(calls, cpu_seconds(worker) - cpu, memory_mb(worker), blocked)
    writes.wait("success", lift(stack, LOGIN, freeze_id), heads)
    wait_for_rest(stack)
    return cost


def add_rule(stack: Stack, name: str, condition: dict[str, Any], scope: dict[str, Any]) -> None:
    """Add a rule, that no head meets."""
    allow = json.dumps({"all": [condition]})
    stack.stores.sql(_RULE, id=f"exr_{name}", scope=json.dumps(scope), allow=allow)
