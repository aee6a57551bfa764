"""What a webhook of GitHub costs: CPU of the API process for one about our own check, and for a push. Aim: 300 µs.

Of each check that we write GitHub sends two, which request nothing. Measured in process, one request after the other.
"""

import asyncio
import json
from dataclasses import replace

import uvloop

from integrations.github.signatures import sign
from tests.harness.app_key import make_app_key
from tools.bench.credentials import make_application, make_config
from tools.bench.in_process import Lifespan, make_request, measure
from tools.bench.servers import Storage, machine, storage
from tools.bench.stack import WEBHOOK_SECRET

SECONDS = 3.0
BODY_BYTES = 12_000
"""Of a `check_run` at GitHub, with its repository, organisation and sender."""
_APP = {"id": 1, "slug": "change-freeze"}
_SENDER = {"login": "change-freeze[bot]", "id": 1}


def delivery(event: str, **payload: object) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a webhook."""
    body = {"action": "completed", "sender": _SENDER, "repository": {"id": 1}, "installation": {"id": 7}, **payload}
    rest = {f"{key}_url": f"https://api.github.com/repos/acme/web/{key}" for key in map(str, range(BODY_BYTES // 70))}
    raw = json.dumps({**body, "organization": rest}).encode()
    headers = {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "x-hub-signature-256": sign(WEBHOOK_SECRET, raw),
    }
    return raw, headers


async def compare(stores: Storage) -> None:
    """Measure, and print."""
    config = replace(
        make_config(stores),
        github_app_id=1,
        github_app_private_key=make_app_key().private,
        github_webhook_secret=WEBHOOK_SECRET,
    )
    application = make_application(config)
    print(f"A webhook of {BODY_BYTES // 1000} KB ({machine()}; one process, one request after the other)")
    async with Lifespan(application):
        for name, (body, headers) in {
            "our own check": delivery("check_run", check_run={"head_sha": "a" * 40, "app": _APP}),
            "a push": delivery("push", ref="refs/heads/main"),
        }.items():
            cost = await measure(make_request(application, "POST", "/webhooks/github", headers, body, 202), SECONDS)
            print(f"  {name:14} {cost.cpu:6.0f} µs of CPU, {cost.wall:6.0f} µs of wall-clock time")


def main() -> None:
    """Measure and print."""
    with storage() as stores, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(compare(stores))
