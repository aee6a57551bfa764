"""What a webhook of GitHub costs: CPU of the API's processes for one about our own check, and for a push. Aim: 300 µs.

Of each check that we write GitHub sends two, which request nothing.
"""

import json

from integrations.github.signatures import sign
from tests.harness.app_key import make_app_key
from tools.bench.load import Asked, in_turns
from tools.bench.servers import WebServer, storage, web
from tools.bench.stack import WEBHOOK_SECRET, app_settings

BODY_BYTES = 12_000
"""Of a `check_run` at GitHub, with its repository, organisation and sender."""
_APP = {"id": 1, "slug": "change-freeze"}
_SENDER = {"login": "change-freeze[bot]", "id": 1}


def delivery(server: WebServer, event: str, **payload: object) -> Asked:
    """Return a webhook."""
    body = {"action": "completed", "sender": _SENDER, "repository": {"id": 1}, "installation": {"id": 7}, **payload}
    rest = {f"{key}_url": f"https://api.github.com/repos/acme/web/{key}" for key in map(str, range(BODY_BYTES // 70))}
    raw = json.dumps({**body, "organization": rest})
    headers = [
        "Content-Type: application/json",
        f"X-GitHub-Event: {event}",
        "X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958",
        f"X-Hub-Signature-256: {sign(WEBHOOK_SECRET, raw.encode())}",
    ]
    return Asked(server, "/webhooks/github", headers, raw)


def main() -> None:
    """Measure and print."""
    ours = app_settings(make_app_key())
    with storage() as stores, web({**stores.environment, **ours}, ready="/healthz") as server:
        check = delivery(server, "check_run", check_run={"head_sha": "a" * 40, "app": _APP})
        asked = {"our own check": check, "a push": delivery(server, "push", ref="refs/heads/main")}
        found = in_turns(asked, connections=1)
    print(f"A webhook of {BODY_BYTES // 1000} KB (one connection)")
    for name, load in found.items():
        print(f"  {name:14} {load}")
