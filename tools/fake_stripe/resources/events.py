"""Events."""

from fnmatch import fnmatchcase

from tools.fake_stripe.protocol.lists import matches, page
from tools.fake_stripe.protocol.parameters import Fields, Many, Moment, Text
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.store import Json

LIST = Fields({"created": Moment(), "type": Text(), "types": Many(Text())})


def retrieve(call: Call) -> Json:
    """Return an event as it was sent."""
    return call.named("event")


def list_all(call: Call) -> Json:
    """List events."""
    wanted, types = call.params.get("type"), call.params.get("types")
    found = [each for each in call.store.all("event") if matches(each, call.params)]
    if wanted:
        found = [each for each in found if fnmatchcase(each["type"], wanted)]
    return page(call, [each for each in found if types is None or each["type"] in types])


ROUTES = (
    Route("GET", "/v1/events", list_all, "event_read", LIST),
    Route("GET", "/v1/events/{id}", retrieve, "event_read"),
)
