"""`python -m tools.sandbox.listen`: show the webhooks of an organisation of the sandbox as they are sent.

Makes a webhook that leads to this program, verifies and prints each message, passes it on if that is wanted, and
deletes the webhook at the end.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from threading import Event, Lock
from typing import Any

import requests
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tools.sandbox.certificates import server_context
from tools.sandbox.clients import TIMEOUT, Client, Refused
from tools.sandbox.console import say
from tools.sandbox.settings import REPORT, ROOT
from tools.sandbox.tenants import TENANTS
from tools.simulation.webhook_receiver import WebhookReceiver

NOT_YET, UNVERIFIED, NOT_PASSED_ON = 503, 400, 502


class Listener(WebhookReceiver):
    """Prints what is signed with `secret`; what comes before that is known is sent again."""

    def __init__(self, directory: Path, *, whole: bool = False, forward_to: str | None = None) -> None:
        self.secret: str | None = None
        self.whole, self.forward_to = whole, forward_to
        self._printing = Lock()
        super().__init__("/", server_context(directory))

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Verify, print and pass on one message."""
        if self.secret is None:
            return NOT_YET
        sent = {name.lower(): value for name, value in headers.items()}
        try:
            Webhook(self.secret).verify(body, sent)
        except WebhookVerificationError as error:
            self._say(f"refused: {error}")
            return UNVERIFIED
        status = self._pass_on(sent, body) if self.forward_to else self.status
        told = f" → {status}" if self.forward_to else ""
        self._say(f"{summary(json.loads(body))}  {sent['webhook-id']} verified{told}")
        if self.whole:
            self._say(body.decode())
        return status

    def _pass_on(self, headers: dict[str, str], body: bytes) -> int:
        kept = {name: value for name, value in headers.items() if name.startswith("webhook-") or name == "content-type"}
        try:
            return requests.post(str(self.forward_to), body, headers=kept, timeout=TIMEOUT).status_code
        except requests.RequestException:
            return NOT_PASSED_ON

    def _say(self, text: str) -> None:
        with self._printing:
            say(text)


def summary(message: dict[str, Any]) -> str:
    """Return when something happened, what, and to what, in one line."""
    target = (message["data"].get("entry") or {}).get("target") or {}
    name = json.dumps(target["name"], ensure_ascii=True) if target.get("name") else target.get("id", "")
    return f"{message['timestamp']}  {message['type']:<24} {name}".rstrip()


def listen(report: dict[str, Any], listener: Listener, organization: str, events: list[str], stop: Event) -> None:
    """Have an organisation's events sent to the listener until `stop` is set."""
    administrator = report["organizations"][organization]["sessions"]["admin"]
    service = Client(report["baseUrl"], administrator)
    wanted = {"name": f"Listener at {listener.url}", "url": listener.url, "events": events}
    made = service.call("POST", "/v1/webhooks", wanted)
    listener.secret = made["secret"]
    say(f"{organization} sends {', '.join(events)} to {listener.url}, signed with {listener.secret}. Ctrl-C ends it.")
    try:
        stop.wait()
    finally:
        service.call("DELETE", f"/v1/webhooks/{made['webhook']['id']}")


def main() -> int:
    """Listen until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tools.sandbox.listen", description=__doc__)
    parser.add_argument("events", nargs="*", default=["*"], help="such as freeze.started or freeze.*; default: all")
    parser.add_argument("--organization", choices=[tenant.slug for tenant in TENANTS], default=TENANTS[0].slug)
    parser.add_argument("--json", action="store_true", help="print also the whole body of each message")
    parser.add_argument("--forward-to", metavar="URL", help="post each message there, and answer as it does")
    default = Path(os.environ.get("SANDBOX_DIR") or ROOT / ".sandbox")
    parser.add_argument("--directory", type=Path, default=default, help="of the sandbox")
    given = parser.parse_args()
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        report = json.loads((given.directory / REPORT).read_text())
    except FileNotFoundError:
        print(f"No sandbox is ready in {given.directory}: `make run` starts one.", file=sys.stderr)
        return 1
    listener = Listener(given.directory, whole=given.json, forward_to=given.forward_to)
    try:
        listen(report, listener, given.organization, given.events, stop)
    except (Refused, requests.RequestException) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        listener.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
