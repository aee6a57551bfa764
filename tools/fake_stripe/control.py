"""The control plane under `/_control/`, for loopback development only: faults, settings, time, webhooks, counters."""

from collections.abc import Callable
from typing import Any

import orjson

from tools.fake_stripe.stripe import FakeStripe
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

Json = dict[str, Any]
Action = Callable[[FakeStripe, dict[str, str], Json], Answer]


def _list_faults(stripe: FakeStripe, _query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, {"faults": [fault.as_json() for fault in stripe.faults.active]})


def _add_fault(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    details = dict(body)
    fault = stripe.faults.add(details.pop("kind", ""), details.pop("scope", ""), **details)
    return Answer(201, fault.as_json())


def _clear_faults(stripe: FakeStripe, query: dict[str, str], _body: Json) -> Answer:
    stripe.faults.clear(int(query["id"]) if "id" in query else None)
    return Answer(204)


def _get_settings(stripe: FakeStripe, _query: dict[str, str], _body: Json) -> Answer:
    return Answer(200, stripe.settings.as_json())


def _put_settings(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    stripe.settings.update(body)
    stripe.store.changes += 1
    return Answer(200, stripe.settings.as_json())


def _put_key(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Do `{"key", "permissions": {permission: read or write}}`, or `{"key", "expired": true}`."""
    if body.get("expired"):
        stripe.keys.expired.add(body["key"])
    else:
        stripe.keys.restricted[body["key"]] = body["permissions"]
    stripe.store.changes += 1
    return Answer(204)


def _advance(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Do `{"seconds"}` or `{"to": seconds since the epoch}`."""
    seconds = body["to"] - stripe.moment if "to" in body else body.get("seconds", 0)
    if seconds < 0:
        raise ValueError("time does not go back")
    stripe.advance(seconds)
    return Answer(200, {"now": stripe.moment})


def _list_webhooks(stripe: FakeStripe, _query: dict[str, str], _body: Json) -> Answer:
    sender = stripe.sender
    sent = [delivery.as_json() for delivery in sender.deliveries.values()]
    return Answer(200, {"deliveries": sent, "held": [delivery.event["id"] for delivery in sender.held]})


def _release(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Do `{"order": sent, reversed, shuffled or doubled, "seed"}`."""
    return Answer(202, {"released": stripe.sender.release(body.get("order", "sent"), body.get("seed", 0))})


def _resend(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Do `{"event": id}`."""
    stripe.sender.resend(body["event"])
    return Answer(202, {})


def _get_calls(stripe: FakeStripe, query: dict[str, str], _body: Json) -> Answer:
    shown = stripe.calls.as_json()
    if query.get("reset") == "true":
        stripe.calls.reset()
    return Answer(200, shown)


def _reset_calls(stripe: FakeStripe, _query: dict[str, str], _body: Json) -> Answer:
    stripe.calls.reset()
    return Answer(204)


def _reset(stripe: FakeStripe, _query: dict[str, str], _body: Json) -> Answer:
    stripe.reset()
    return Answer(204)


ACTIONS: dict[tuple[str, str], Action] = {
    ("GET", "faults"): _list_faults,
    ("POST", "faults"): _add_fault,
    ("DELETE", "faults"): _clear_faults,
    ("GET", "settings"): _get_settings,
    ("PUT", "settings"): _put_settings,
    ("PUT", "keys"): _put_key,
    ("POST", "clock"): _advance,
    ("GET", "webhooks"): _list_webhooks,
    ("POST", "webhooks/release"): _release,
    ("POST", "webhooks/resend"): _resend,
    ("GET", "calls"): _get_calls,
    ("DELETE", "calls"): _reset_calls,
    ("POST", "reset"): _reset,
}


def answer(stripe: FakeStripe, incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400."""
    action = ACTIONS.get((incoming.method, incoming.path.removeprefix("/_control/")))
    if action is None:
        known = sorted(f"{verb} /_control/{name}" for verb, name in ACTIONS)
        return Answer(404, {"message": "no such control", "known": known})
    try:
        with stripe.lock:
            return action(stripe, incoming.query, orjson.loads(incoming.raw) if incoming.raw.strip() else {})
    except (ValueError, KeyError, TypeError) as error:
        return Answer(400, {"message": f"{type(error).__name__}: {error}"})
