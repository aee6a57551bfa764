"""A freeze of one branch with 1,000 open heads and with 5,000, without rules of exceptions and with two.

Aims: with two rules at most twice the calls and 1.5 times the CPU of the worker; no difference where no rule applies.
A second freeze of the same heads reads no fact again: no pull request has changed.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from tools.bench.servers import cpu_seconds, machine, memory_mb
from tools.bench.stack import LOGIN, Stack, conclusions, running, scaled, until, wait_for_rest, warm
from tools.bench.writes import freeze, lift

SIZES = (scaled(1000), scaled(5000))
LATENCY_MS = 50
POLLS_OF_HEADS = 50 / 1_000_000
"""Seconds between two looks at GitHub, for each head: to list all of them takes the simulator time."""
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
    wait_for(stack, "success", heads)
    without = measure(stack, heads)
    print(f"  no rule:                     {without}")
    if heads == SIZES[0]:
        add_rule(stack, "elsewhere", FILES, {"type": "glob", "patterns": ["other/*"]})
        print(f"  a rule that does not apply:  {measure(stack, heads)}")
    add_rule(stack, "files", FILES, {"type": "organization"})
    add_rule(stack, "label", LABEL, {"type": "organization"})
    ruled = measure(stack, heads)
    print(f"  two rules:                   {ruled}")
    print(f"    calls {ruled.calls / without.calls:.2f} x (aim 2), CPU {ruled.cpu / without.cpu:.2f} x (aim 1.5)")
    if heads == SIZES[0]:
        print(f"  two rules, nothing changed:  {measure(stack, heads)}")


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


def measure(stack: Stack, heads: int) -> FreezeCost:
    """Freeze everything, wait until it is at rest, and lift it."""
    stack.control("GET", "/calls?reset=true")
    worker = stack.processes["worker-1"]
    cpu, began = cpu_seconds(worker), time.monotonic()
    freeze_id, _ = freeze(stack, LOGIN, "Measuring rules")
    wait_for(stack, "failure", heads)
    blocked = time.monotonic() - began
    wait_for_rest(stack)
    calls = stack.control("GET", "/calls")["total"]
    cost = FreezeCost(calls, cpu_seconds(worker) - cpu, memory_mb(worker), blocked)
    lift(stack, LOGIN, freeze_id)
    wait_for(stack, "success", heads)
    wait_for_rest(stack)
    return cost


def wait_for(stack: Stack, conclusion: str, heads: int) -> None:
    """Wait until GitHub shows a conclusion on every head."""
    until(lambda: conclusions(stack) == {conclusion: heads}, POLLS_OF_HEADS * heads)


def add_rule(stack: Stack, name: str, condition: dict[str, Any], scope: dict[str, Any]) -> None:
    """Add a rule, that no head meets."""
    allow = json.dumps({"all": [condition]})
    stack.stores.sql(_RULE, id=f"exr_{name}", scope=json.dumps(scope), allow=allow)
