"""The control plane under `/_control/`, for loopback development only: faults, settings, time, webhooks, counters."""

from tools.fake_stripe.stripe import FakeStripe
from tools.simulation import control
from tools.simulation.answers import Answer
from tools.simulation.control import Action, Json
from tools.simulation.wire import Incoming


def _put_settings(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    stripe.settings.update(body)
    stripe.store.changes += 1
    return Answer(200, stripe.settings.as_json())


def _put_key(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"key", "permissions": {permission: read or write}}`, or `{"key", "expired": true}`."""
    if body.get("expired"):
        stripe.keys.expired.add(body["key"])
    else:
        stripe.keys.restricted[body["key"]] = body["permissions"]
    stripe.store.changes += 1
    return Answer(204)


def _advance(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"seconds"}` or `{"to": seconds since the epoch}`."""
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
    """Body: `{"order": sent, reversed, shuffled or doubled, "seed"}`."""
    return Answer(202, {"released": stripe.sender.release(body.get("order", "sent"), body.get("seed", 0))})


def _resend(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"event": id}`."""
    stripe.sender.resend(body["event"])
    return Answer(202, {})


ACTIONS: dict[tuple[str, str], Action[FakeStripe]] = {
    ("PUT", "settings"): _put_settings,
    ("PUT", "keys"): _put_key,
    ("POST", "clock"): _advance,
    ("GET", "webhooks"): _list_webhooks,
    ("POST", "webhooks/release"): _release,
    ("POST", "webhooks/resend"): _resend,
}


def answer(stripe: FakeStripe, incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400."""
    return control.answer(stripe, ACTIONS, incoming)
