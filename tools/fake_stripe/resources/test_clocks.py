"""Test clocks: customers with a time of their own."""

from tools.fake_stripe.billing.periods import DAY
from tools.fake_stripe.protocol.lists import page
from tools.fake_stripe.protocol.parameters import Fields, Text, Whole
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import invalid
from tools.fake_stripe.store import Json
from tools.fake_stripe.timeline import advance

KIND = "test_helpers.test_clock"
LIFETIME = 30 * DAY


def create(call: Call) -> Json:
    """Add a clock that stands still."""
    made = call.store.add(
        KIND,
        {
            "created": call.core.moment,
            "deletes_after": call.core.moment + LIFETIME,
            "frozen_time": call.params["frozen_time"],
            "livemode": False,
            "name": call.params.get("name"),
            "status": "ready",
            "status_details": {},
        },
    )
    call.core.announce("test_helpers.test_clock.created", made)
    return made


def retrieve(call: Call) -> Json:
    """Return a clock."""
    return call.named(KIND)


def advance_clock(call: Call) -> Json:
    """Let time pass for the customers of a clock. It is ready as soon as it is read again, as Stripe's is later."""
    clock, target = call.named(KIND), call.params["frozen_time"]
    if target <= clock["frozen_time"]:
        message = "`frozen_time` must be after the clock's current frozen time."
        raise invalid(message, "frozen_time")
    call.core.announce("test_helpers.test_clock.advancing", clock)
    advance(call.core, clock, target)
    call.core.announce("test_helpers.test_clock.ready", clock)
    return {**clock, "status": "advancing", "status_details": {"advancing": {"target_frozen_time": target}}}


def delete(call: Call) -> Json:
    """Delete a clock with its customers."""
    clock = call.named(KIND)
    for customer in call.store.all("customer"):
        if customer["test_clock"] == clock["id"]:
            call.store.delete(customer)
    call.store.delete(clock)
    call.core.announce("test_helpers.test_clock.deleted", clock)
    return {"id": clock["id"], "object": KIND, "deleted": True}


def list_all(call: Call) -> Json:
    """List clocks."""
    return page(call, call.store.all(KIND))


ROUTES = (
    Route(
        "POST",
        "/v1/test_helpers/test_clocks",
        create,
        "test_clock_write",
        Fields({"frozen_time!": Whole(), "name": Text(300)}),
    ),
    Route("GET", "/v1/test_helpers/test_clocks", list_all, "test_clock_read"),
    Route("GET", "/v1/test_helpers/test_clocks/{id}", retrieve, "test_clock_read"),
    Route(
        "POST",
        "/v1/test_helpers/test_clocks/{id}/advance",
        advance_clock,
        "test_clock_write",
        Fields({"frozen_time!": Whole()}),
    ),
    Route("DELETE", "/v1/test_helpers/test_clocks/{id}", delete, "test_clock_write"),
)
