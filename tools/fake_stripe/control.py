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


def _advance(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"seconds"}`."""
    if body["seconds"] < 0:
        raise ValueError("time does not go back")
    stripe.advance(body["seconds"])
    return Answer(200, {"now": stripe.moment})


def _release(stripe: FakeStripe, _query: dict[str, str], body: Json) -> Answer:
    """Body: `{"order": sent, reversed, shuffled or doubled}`."""
    return Answer(202, {"released": stripe.sender.release(body.get("order", "sent"))})


ACTIONS: dict[tuple[str, str], Action[FakeStripe]] = {
    ("PUT", "settings"): _put_settings,
    ("POST", "clock"): _advance,
    ("POST", "webhooks/release"): _release,
}


def answer(stripe: FakeStripe, incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400."""
    return control.answer(stripe, ACTIONS, incoming)
