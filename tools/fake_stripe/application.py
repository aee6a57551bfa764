"""The ASGI application: control plane, hosted pages and API, with faults around the API."""

from starlette.types import Receive, Scope, Send

from tools.fake_stripe import api, control, pages
from tools.fake_stripe.stripe import FakeStripe
from tools.simulation.answers import Answer
from tools.simulation.faults import CALL_KINDS, Fault
from tools.simulation.wire import Incoming, is_loopback, read, reply, withhold

INVALID = "invalid_request_error"
FAULT_ERRORS = {
    401: {"message": "Invalid API Key provided: sk_test_*********", "type": INVALID},
    429: {"code": "rate_limit", "message": "Request rate limit exceeded.", "type": INVALID},
}
UNKNOWN_ERROR = {"message": "An unknown error occurred.", "type": "api_error"}


def fault_answer(fault: Fault) -> Answer:
    """Return the answer that a fault gives."""
    status = 401 if fault.kind == "revoked" else fault.status
    error = dict(FAULT_ERRORS.get(status, UNKNOWN_ERROR))
    if fault.message:
        error["message"] = fault.message
    return Answer(status, {"error": error}, dict(fault.headers))


class Application:
    """Serves one Stripe."""

    def __init__(self, stripe: FakeStripe) -> None:
        self.stripe = stripe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        incoming = await read(scope, receive)
        if incoming.path.startswith("/v1/"):
            await self._converse(incoming, receive, send)
        elif not incoming.path.startswith("/_control/"):
            await reply(send, pages.answer(self.stripe, incoming), {})
        elif is_loopback(scope):
            await reply(send, control.answer(self.stripe, incoming), {})
        else:
            await reply(send, Answer(403, {"message": "the control plane is for this machine only"}), {})

    async def _converse(self, incoming: Incoming, receive: Receive, send: Send) -> None:
        """Apply faults around an answer of the API."""
        fault = self.stripe.faults.hit(CALL_KINDS, f"{incoming.method} {incoming.path}")
        if fault is None or fault.kind == "slow_body":
            await reply(send, api.answer(self.stripe, incoming), {}, fault.seconds if fault else 0.0)
            return
        instead = None if fault.kind in {"timeout", "disconnect"} else fault_answer(fault)
        if fault.after:
            api.answer(self.stripe, incoming)
        else:
            api.record_fault(self.stripe, incoming, instead.status if instead else 0)
        if instead:
            await reply(send, instead, {})
        else:
            await withhold(fault, receive, send)
