"""Subscription schedules: the portal makes them, and the API reads and releases them."""

from tools.fake_stripe.billing.schedules import release
from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import Fields, Flag, Moment, Text
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.store import Json

KIND = "subscription_schedule"
LIST = Fields({"created": Moment(), "customer": Text()})


def retrieve(call: Call) -> Json:
    """Return a schedule."""
    return call.named(KIND)


def release_schedule(call: Call) -> Json:
    """End a schedule, and leave its subscription as it is."""
    schedule = call.named(KIND)
    release(call.core, schedule)
    return schedule


def list_all(call: Call) -> Json:
    """List schedules."""
    return page(call, [each for each in call.store.all(KIND) if matches(each, call.params, "customer")])


ROUTES = (
    Route("GET", "/v1/subscription_schedules", list_all, "subscription_read", LIST),
    Route("GET", "/v1/subscription_schedules/{id}", retrieve, "subscription_read"),
    Route(
        "POST",
        "/v1/subscription_schedules/{id}/release",
        release_schedule,
        "subscription_write",
        Fields({"preserve_cancel_date": Flag()}),
    ),
)
