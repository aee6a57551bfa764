"""Requests to the app, signed as Slack signs them."""

import hmac
import http.client
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode, urlsplit

from tools.fake_slack.core import Core
from tools.fake_slack.model import Json

FORM, JSON = "application/x-www-form-urlencoded", "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the app answered; status 0: nothing in time."""

    status: int
    body: Any = None


def send_form(core: Core, fields: Json) -> Reply:
    """Send a command or an interaction."""
    return send(core, urlencode(fields).encode(), FORM)


def send_event(core: Core, body: Json, retry: int = 0) -> Reply:
    """Send an event; `retry` is how many times it was sent before."""
    repeated = {"X-Slack-Retry-Num": str(retry), "X-Slack-Retry-Reason": "http_timeout"} if retry else {}
    return send(core, json.dumps(body).encode(), JSON, repeated)


def send(core: Core, body: bytes, content_type: str, more: dict[str, str] | None = None) -> Reply:
    """Send signed bytes, and keep what was sent with its answer. The lock is not held meanwhile: the app may call."""
    if core.settings.request_url is None:
        return Reply(0)
    stamp = str(int(core.clock()))
    base = b"v0:" + stamp.encode() + b":" + body
    signature = "v0=" + hmac.new(core.settings.signing_secret.encode(), base, sha256).hexdigest()
    headers = {
        "Content-Type": content_type,
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": signature,
        "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
        **(more or {}),
    }
    parts = urlsplit(core.settings.request_url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=core.settings.request_timeout)
    try:
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        reply = Reply(answer.status, _parsed(answer.read()))
    except (OSError, http.client.HTTPException):
        reply = Reply(0)
    finally:
        connection.close()
    kept = {"contentType": content_type, "body": body.decode(), "status": reply.status, "answer": reply.body}
    core.requests.append(kept)
    return reply


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
