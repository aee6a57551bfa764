"""The control plane under `/_control/`, for loopback development only: faults, settings, time, counters."""

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


ACTIONS: dict[tuple[str, str], Action[FakeStripe]] = {
    ("PUT", "settings"): _put_settings,
    ("POST", "clock"): _advance,
}


def answer(stripe: FakeStripe, incoming: Incoming) -> Answer:
    """Answer a request of the control plane; what is wrong with it is said in a 400."""
    return control.answer(stripe, ACTIONS, incoming)
