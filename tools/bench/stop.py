"""A freeze of many heads: since when nothing can merge, with a stop and without; GitHub at 50 ms a call.

Aims: from the 201 to `blockedAt`, 5 s for 10,000 heads in 1,000 repositories, and 1.5 s with a ruleset of their
organisation; 1.5 s for 1,000 in 100; and as much later as GitHub takes to enforce rulesets. Where it counts checks as
created content, 80 a minute, the same. A freeze of few heads costs no call for a stop.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import create_engine, text

from tools.bench.seeding import Account, plain
from tools.bench.servers import machine
from tools.bench.stack import INSTALLATION, LOGIN, Stack, scaled, serving, warm
from tools.bench.writes import until
from tools.fake_github.model.installations import PERMISSIONS

LATENCY_MS = 50
POLL_INTERVAL = 0.5
READ = """
    UPDATE branch_enforcement
    SET decisive_check = 'change-freeze/main', own_rule = true, open_ways = '{}', rules_read_at = now()
"""
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

    @property
    def permissions(self) -> dict[str, str]:
        """What the App may do."""
        return {name: level for name, level in PERMISSIONS.items() if self.organization or name != OF_ORGANIZATIONS}

    @property
    def permitted(self) -> str:
        """The statement that stores this as GitHub has it: where they differ, everything is read again."""
        return f"UPDATE installations SET permissions = '{json.dumps(self.permissions)}'"  # noqa: S608 - a constant


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
    print(f"From the 201 until nothing can merge, one worker, {LATENCY_MS} ms a call ({machine()})")
    print("| heads | repositories | | `blockedAt` after s | aim | `enforcedAt` after s | calls until then |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        print(_measure(case), flush=True)


def _measure(case: Case) -> str:
    repositories = scaled(case.repositories)
    account = Account(LOGIN, INSTALLATION, [plain("service-{}", repositories, case.heads)], case.permissions)
    settings = {"latencyMs": LATENCY_MS, "rulesetDelaySeconds": case.delay}
    environment = {"GITHUB_RULESET_DELAY": str(case.delay)}
    if case.limited:
        environment["GITHUB_CONTENT_LIMIT"] = "aliases"
    with serving([account], settings=settings, environment=environment) as stack:
        warm(stack, "acme/service-1")
        _run(stack, READ, case.permitted, *([AUTHORIZED] if case.stops else []))
        stack.control("GET", "/calls?reset=true")
        began = time.monotonic()
        freeze = _freeze(stack)
        until(lambda: _shown(stack, freeze, "blockedAt"), POLL_INTERVAL)
        waited = time.monotonic() - began
        blocked = _seconds(stack, freeze, "blockedAt")
        enforced = "-"
        if not case.limited:
            until(lambda: _shown(stack, freeze, "enforcedAt"), POLL_INTERVAL)
            enforced = f"{_seconds(stack, freeze, 'enforcedAt'):.1f}"
        calls = _calls(stack)
    said = f"{blocked:.1f} (seen after {waited:.1f})"
    heads = repositories * case.heads
    return f"| {heads} | {repositories} | {case.name} | {said} | {case.aim} | {enforced} | {calls} |"


def _run(stack: Stack, *statements: str) -> None:
    engine = create_engine(stack.stores.database_url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement.replace(":", "\\:")))
    engine.dispose()


def _freeze(stack: Stack) -> str:
    body = {"scope": {"type": "organization"}, "reason": "Measuring the stop", "impactAcknowledged": True}
    answer = stack.call("POST", "/v1/freezes", body)
    answer.raise_for_status()
    return str(answer.json()["id"])


def _read(stack: Stack, freeze: str) -> dict[str, Any]:
    answer = stack.call("GET", f"/v1/freezes/{freeze}")
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def _shown(stack: Stack, freeze: str, name: str) -> bool:
    return _read(stack, freeze).get(name) is not None


def _seconds(stack: Stack, freeze: str, name: str) -> float:
    """Return how long after its start a freeze was blocked, or enforced."""
    shown = _read(stack, freeze)
    return (datetime.fromisoformat(shown[name]) - datetime.fromisoformat(shown["startedAt"])).total_seconds()


def _calls(stack: Stack) -> str:
    counts: Counter[str] = Counter(stack.control("GET", "/calls")["byOperation"])
    return ", ".join(f"{count} {name}" for name, count in counts.most_common(5))
