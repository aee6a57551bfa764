"""How fast deliveries are acknowledged: 200 signed ones a second for 20 s, with and without 100,000 stored ones.

The bodies are those that the simulated GitHub sends of its own repositories: they are recorded while pull requests are
edited, pushed to, closed and opened again, branches made and deleted, and checks written. They are
sent again under ids of their own, in GitHub's proportions: most are echoes of checks (ours, and those of a build), the
others have the worker run again, which it does meanwhile, on the same processors. Two API processes, PostgreSQL with
`fsync`; an acknowledgement is a 2xx after the delivery is committed, timed from the moment at which it was due.

The 100,000 stored ones are processed, have the same bodies, and lie within the last 23 days: they are inserted by SQL.
Rounds without and with them alternate. Aims: p99 at most 100 ms, and the stored ones make it no slower.
"""

import base64
import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import create_engine, text

from integrations.github import CheckWrite
from tools.bench.deliveries import Acknowledged, Template, send
from tools.bench.seeding import CHECK
from tools.bench.servers import machine
from tools.bench.stack import INSTALLATION, LOGIN, WEBHOOK_SECRET, Stack, running, scaled, wait_for_rest, warm
from tools.bench.writes import until
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver

PER_SECOND, SECONDS = 200, 20.0
STORED = scaled(100_000)
REPOSITORIES, HEADS, ACTIVE = 200, 5, 20
ROUNDS = 2
LATENCY_MS = 50
BUILD_APP = 15368
MIX = {"check_run": 40, "build": 30, "pull_request": 15, "push": 10, "create": 3, "delete": 2}
"""Deliveries of each kind among a hundred."""
ADDRESS = "/webhooks/github"

# Copied from a table, a body is compressed already: a hundred thousand take seconds instead of a minute.
_TEMPLATES = text("""
    CREATE TEMP TABLE templates AS
    SELECT t.event, CAST(t.payload AS jsonb) AS payload, t.place
    FROM unnest(CAST(:events AS text[]), CAST(:payloads AS text[])) WITH ORDINALITY AS t (event, payload, place)
""")
_STORE = text("""
    INSERT INTO webhook_deliveries (delivery_id, event, installation_id, payload, received_at, processed_at, attempts)
    SELECT gen_random_uuid(), t.event, :installation, t.payload, now() - n * interval '20 seconds',
           now() - n * interval '20 seconds', 1
    FROM generate_series(1, :count) AS n JOIN templates t ON t.place = n % :templates + 1
""")


def main() -> None:
    """Measure and print."""
    with running(REPOSITORIES, latency_ms=LATENCY_MS, pull_requests=HEADS) as stack:
        warm(stack, f"{LOGIN}/service-1")
        templates = mixed(record_webhooks(stack))
        url = stack.api + ADDRESS
        size = sum(len(each.body) for each in templates) / len(templates) / 1000
        print(f"{PER_SECOND} webhooks a second for {SECONDS:.0f} s, {size:.0f} kB each ({machine()})")
        send(url, WEBHOOK_SECRET, templates, per_second=50, seconds=4)
        worst: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for stored in (False, True):
                store(stack, templates, STORED if stored else 0)
                wait_for_rest(stack)
                found = send(url, WEBHOOK_SECRET, templates, per_second=PER_SECOND, seconds=SECONDS)
                worst[stored].append(found.p99_ms)
                report(stack, found, STORED if stored else 0)
    print(f"  p99 with {STORED} stored / without: {min(worst[True]) / min(worst[False]):.2f} (best round of each)")


def record_webhooks(stack: Stack) -> dict[str, list[bytes]]:
    """Do what people and the service do in some repositories, and return the bodies of the webhooks, by kind."""
    receiver = GitHubWebhookReceiver()
    stack.control("PUT", "/settings", {"webhookUrl": receiver.url, "latencyMs": 0})
    heads = stack.control("GET", "/checks")["heads"]
    for head in [head for head in heads if head["number"] == 1][:ACTIVE]:
        _work(stack, head["repository"], f"change-{head['number']}", head["number"])
    received = 0
    while received != len(receiver.received) or not received:
        received = len(receiver.received)
        time.sleep(0.5)
    stack.control("PUT", "/settings", {"webhookUrl": stack.api + ADDRESS, "latencyMs": LATENCY_MS})
    receiver.stop()
    found: dict[str, list[bytes]] = defaultdict(list)
    for event, _, body in receiver.received:
        found[event].append(body)
    found["build"] = [_of_a_build(body) for body in found["check_run"]]
    return found


def _work(stack: Stack, repository: str, branch: str, number: int) -> None:
    """Push, edit, close and open again, make and delete a branch, and have our check written."""
    path = f"/repos/{repository}"
    change = {"message": "A change", "content": base64.b64encode(b"more").decode(), "branch": branch}
    pushed = stack.as_person("PUT", f"{path}/contents/more.txt", change)
    pushed.raise_for_status()
    sha = pushed.json()["commit"]["sha"]
    for body in ({"title": "A better title"}, {"state": "closed"}, {"state": "open"}):
        stack.as_person("PATCH", f"{path}/pulls/{number}", body).raise_for_status()
    stack.as_person("POST", f"{path}/git/refs", {"ref": "refs/heads/new", "sha": sha}).raise_for_status()
    stack.as_person("DELETE", f"{path}/git/refs/heads/new").raise_for_status()
    owner, _, name = repository.partition("/")
    check = CheckWrite("", CHECK, sha, "success", "No freeze", "Merging is allowed", "bench")
    written = stack.as_app().create_check_rest(owner, name, check)
    if written.error:
        raise written.error


def _of_a_build(body: bytes) -> bytes:
    """Turn the webhook of our check into that of a build's."""
    payload = json.loads(body)
    run = payload["check_run"]
    run["name"], run["app"] = "ci/build", {**run["app"], "id": BUILD_APP, "slug": "github-actions"}
    run["check_suite"]["app"], payload["sender"]["login"] = run["app"], "github-actions[bot]"
    return json.dumps(payload, separators=(",", ":")).encode()


def mixed(found: dict[str, list[bytes]]) -> list[Template]:
    """Return five hundred deliveries in the proportions of `MIX`, shuffled in the same way every time."""
    chance = random.Random(4711)
    templates = [
        Template("check_run" if kind == "build" else kind, chance.choice(found[kind]))
        for kind, share in MIX.items()
        for _ in range(share * 5)
    ]
    chance.shuffle(templates)
    return templates


def store(stack: Stack, templates: Sequence[Template], count: int) -> None:
    """Leave so many processed deliveries in the table, once those that wait are done with."""
    engine = create_engine(stack.stores.database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        waiting = text("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL")
        until(lambda: not connection.scalar(waiting))
        connection.execute(text("TRUNCATE webhook_deliveries"))
        if count:
            bodies = templates[:100]
            payloads = [each.body.decode() for each in bodies]
            connection.execute(_TEMPLATES, {"events": [each.event for each in bodies], "payloads": payloads})
            connection.execute(_STORE, {"installation": INSTALLATION, "count": count, "templates": len(bodies)})
        connection.execute(text("ANALYZE webhook_deliveries"))
        connection.execute(text("CHECKPOINT"))
    engine.dispose()


def report(stack: Stack, found: Acknowledged, stored: int) -> None:
    """Print a round, and how many of its deliveries are in the table."""
    engine = create_engine(stack.stores.database_url)
    with engine.connect() as connection:
        kept = connection.scalar(text("SELECT count(*) FROM webhook_deliveries")) or 0
    engine.dispose()
    print(
        f"  {stored:6} stored before: p50 {found.p50_ms:.1f} ms   p99 {found.p99_ms:.1f} ms (aim 100)   "
        f"worst {found.worst_ms:.1f} ms   {found.statuses}, {kept - stored} of {found.sent} kept, "
        f"{found.connections} connections, sender late by {found.late_ms:.1f} ms at most"
    )


if __name__ == "__main__":
    main()
