"""A freeze of many heads: since when nothing can merge, with a stop and without; GitHub at 50 ms a call.

Aims: from the 201 to `blockedAt`, 5 s for 10,000 heads in 1,000 repositories, and 1.5 s with a ruleset of their
organisation; 1.5 s for 1,000 in 100; and as much later as GitHub takes to enforce rulesets. Where it counts checks as
created content, 80 a minute, the same. A freeze of few heads costs no call for a stop.
"""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from tools.bench.stack import Stack, running, scaled, until
from tools.fake_github.model.installations import PERMISSIONS

LATENCY_MS = 50
POLL_INTERVAL = 0.5
READ = """
    UPDATE branch_enforcement
    SET decisive_check = 'change-freeze/main', own_rule = true, open_ways = '{}', rules_read_at = now()
"""
PERMITTED = "UPDATE installations SET permissions = CAST(:permissions AS jsonb)"
"""Stores what the App may do as GitHub has it: where they differ, everything is read again."""
AUTHORIZED = "UPDATE repositories SET rulesets_authorized_at = now()"
OF_ORGANIZATIONS = "organization_administration"


@dataclass(frozen=True, slots=True)
class Case:
    """A freeze to be measured."""

    name: str
    repositories: int
    heads: int
    aim: str
    stops: bool = True
    delay: int = 0
    limited: bool = False
    organization: bool = False
    """Whether the App may write rulesets of the organisation."""


CASES = (
    Case("without a stop", 1000, 10, "-", stops=False),
    Case("with a stop", 1000, 10, "5.0"),
    Case("with a stop of the organisation", 1000, 10, "1.5", organization=True),
    Case("with a stop, rulesets 5 s late", 1000, 10, "10.0", delay=5),
    Case("with a stop, 80 checks a minute", 1000, 10, "5.0", limited=True),
    Case("without a stop", 100, 10, "-", stops=False),
    Case("with a stop", 100, 10, "1.5"),
    Case("20 heads: none needed", 20, 1, "-"),
)


def main() -> None:
    """Measure and print."""
    print(f"From the 201 until nothing can merge, one worker, {LATENCY_MS} ms a call")
    print("| heads | repositories | | `blockedAt` after s | aim | `enforcedAt` after s | calls until then |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        print(_measure(case), flush=True)


def _measure(case: Case) -> str:
    repositories = scaled(case.repositories)
    permissions = {name: level for name, level in PERMISSIONS.items() if case.organization or name != OF_ORGANIZATIONS}
    limited = {"GITHUB_CONTENT_LIMIT": "aliases"} if case.limited else {}
    with running(
        repositories,
        case.heads,
        permissions=permissions,
        latency_ms=LATENCY_MS,
        settings={"rulesetDelaySeconds": case.delay},
        environment={"GITHUB_RULESET_DELAY": str(case.delay), **limited},
    ) as stack:
        stack.stores.sql(READ)
        stack.stores.sql(PERMITTED, permissions=json.dumps(permissions))
        if case.stops:
            stack.stores.sql(AUTHORIZED)
        freeze_id, _ = stack.freeze()
        answered_at = datetime.now(UTC)
        blocked = (_wait(stack, freeze_id, "blockedAt") - answered_at).total_seconds()
        waited = (datetime.now(UTC) - answered_at).total_seconds()
        enforced = None if case.limited else (_wait(stack, freeze_id, "enforcedAt") - answered_at).total_seconds()
        counts = Counter[str](stack.control("GET", "/calls")["byOperation"]).most_common(5)
    said = f"{blocked:.1f} (seen after {waited:.1f})"
    calls = ", ".join(f"{count} {name}" for name, count in counts)
    heads = repositories * case.heads
    return f"| {heads} | {repositories} | {case.name} | {said} | {case.aim} | {enforced or '-'} | {calls} |"


def _wait(stack: Stack, freeze_id: str, name: str) -> datetime:
    """Wait until a freeze shows a moment, and return that."""
    shown: str = until(lambda: stack.call("GET", f"/v1/freezes/{freeze_id}").json().get(name), POLL_INTERVAL)
    return datetime.fromisoformat(shown)
