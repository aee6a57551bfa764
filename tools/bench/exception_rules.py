"""A freeze of one branch with 1,000 open heads and with 5,000, without rules of exceptions and with two.

Aims: with two rules at most twice the calls and 1.5 times the CPU of the worker; no difference where no rule applies.
A second freeze of the same heads reads no fact again: no pull request has changed.
"""

from typing import Any

from sqlalchemy import select

from models.organizations import Organization
from tests import factories
from tools.bench.servers import cpu_seconds
from tools.bench.stack import ORGANIZATION, Stack, Writes, running, scaled, wait_for_rest

SIZES = (scaled(1000), scaled(5000))
LATENCY_MS = 50
FILES = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
CAPTAIN = {"accounts": {"captain": 1}, "teams": {}}
LABEL = {"label": {"name": "hotfix", "setBy": {"accounts": ["captain"]}}}


def main() -> None:
    """Measure and print."""
    for heads in SIZES:
        unlimited = {"GITHUB_POINTS_PER_MINUTE": "1000000"}  # the freezes follow each other at once
        print(f"A freeze of {heads} heads, one worker, {LATENCY_MS} ms a call")
        with running(1, heads, latency_ms=LATENCY_MS, environment=unlimited) as stack:
            calls, cpu = measure(stack, "no rule")
            if heads == SIZES[0]:
                add_rule(stack, FILES, {"type": "glob", "patterns": ["other/*"]})
                measure(stack, "a rule that does not apply")
            add_rule(stack, FILES, ORGANIZATION)
            add_rule(stack, LABEL, ORGANIZATION)
            ruled_calls, ruled_cpu = measure(stack, "two rules")
            print(f"    calls {ruled_calls / calls:.2f} x (aim 2), CPU {ruled_cpu / cpu:.2f} x (aim 1.5)")
            if heads == SIZES[0]:
                measure(stack, "two rules, nothing changed")


def measure(stack: Stack, name: str) -> tuple[int, float]:
    """Freeze everything, wait until it is at rest, print, and lift it; return calls of GitHub and the worker's CPU."""
    stack.control("GET", "/calls?reset=true")
    worker, heads, writes = stack.processes["worker-1"], stack.heads(), Writes(stack)
    before = cpu_seconds(worker)
    freeze_id, since = stack.freeze()
    blocked = writes.wait("failure", since, heads)
    wait_for_rest(stack)
    calls = stack.control("GET", "/calls")["total"]
    cpu = cpu_seconds(worker) - before
    print(f"  {name:27} {calls} calls, {cpu:.2f} s CPU, all blocked after {blocked:.1f} s")
    writes.wait("success", stack.lift(freeze_id), heads)
    wait_for_rest(stack)
    return calls, cpu


def add_rule(stack: Stack, condition: dict[str, Any], scope: dict[str, Any]) -> None:
    """Add a rule, that no head meets."""
    with stack.stores.rows() as session:
        ours = session.scalars(select(Organization)).one()
        factories.exception_rule(session, ours, allow={"all": [condition]}, scope=scope, identities=CAPTAIN)
