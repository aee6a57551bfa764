"""The API: one router over all calls, and what every call has in common."""

import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from tools.fake_stripe import catalogue, checkout, customers, portal, subscription_calls
from tools.fake_stripe.calls import Exchange
from tools.fake_stripe.core import Core
from tools.fake_stripe.idempotency import Kept
from tools.fake_stripe.parameters import decode, read
from tools.fake_stripe.refusals import Refusal, invalid
from tools.fake_stripe.routes import Call, Route
from tools.fake_stripe.store import Json, Store
from tools.fake_stripe.timeline import catch_up
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

ROUTES: tuple[Route, ...] = (
    *customers.ROUTES,
    *catalogue.ROUTES,
    *checkout.ROUTES,
    *subscription_calls.ROUTES,
    *portal.ROUTES,
)
VERSION = "2026-10-28.endive"
REFERENCES = {("subscription", "latest_invoice"): "invoice", ("price", "product"): "product"}
"""Fields that hold an id and can be expanded, with the kind that the id is of."""
INCLUDED = {("price", "currency_options")}
"""Fields that an answer has only if they are expanded."""


@dataclass(slots=True)
class Request:
    """A request of the API: what it is, and what came of it so far."""

    id: str
    incoming: Incoming
    form: str
    route: Route | None
    named: str
    params: Json

    @property
    def idempotency_key(self) -> str | None:
        """Return the key of a request that may be repeated; other methods ignore it."""
        return self.incoming.headers.get("idempotency-key") if self.incoming.method == "POST" else None


def match(method: str, path: str) -> tuple[Route | None, str]:
    """Return the route of a path, and the id in it."""
    for route in ROUTES:
        found = route.pattern.fullmatch(path) if route.method == method else None
        if found:
            return route, unquote(found.groupdict().get("id", ""))
    return None, ""


def answer(core: Core, incoming: Incoming) -> Answer:
    """Answer a request as Stripe does, and record it."""
    route, named = match(incoming.method, incoming.path)
    form = incoming.raw.decode("utf-8", "replace") or incoming.query_string
    request = Request(f"req_{secrets.token_hex(7)}", incoming, form, route, named, {})
    with core.lock:
        catch_up(core)
        try:
            found = _respond(core, request)
        except Refusal as refusal:
            found = Answer(refusal.status, refusal.body())
        found.headers = {"Request-Id": request.id, "Stripe-Version": VERSION, **found.headers}
        template = route.template if route else None
        core.calls.exchanges.append(Exchange(incoming.method, template, request.params, found.status, found.body))
    return found


def record_fault(core: Core, incoming: Incoming, status: int) -> None:
    """Record a request that a fault kept from the API; status 0: it got no answer."""
    route, _ = match(incoming.method, incoming.path)
    with core.lock:
        core.calls.exchanges.append(Exchange(incoming.method, route.template if route else None, {}, status, None))


def _respond(core: Core, request: Request) -> Answer:
    incoming, key = request.incoming, request.idempotency_key
    core.keys.require(incoming.headers.get("authorization"))
    version = incoming.headers.get("stripe-version", VERSION)
    if version != VERSION:
        raise invalid(f"Invalid Stripe API version: {version}. This simulation has {VERSION} only.")
    if request.route is None:
        raise invalid(f"Unrecognized request URL ({incoming.method}: {incoming.path}).", status=404)
    if key:
        kept = core.idempotency.find(key, incoming.path, request.form, core.moment)
        if kept:
            replayed = {"Idempotent-Replayed": "true", "Original-Request": kept.request_id}
            return Answer(kept.status, orjson.loads(kept.answer), replayed)
    request.params = read(request.route.accepted, decode(request.form))  # what is refused here is not kept for the key
    try:
        body = request.route.handler(Call(core, incoming.path, request.named, request.params))
        found = Answer(200, _expanded(core.store, _copy(body), request.params.get("expand", [])))
    except Refusal as refusal:  # kept for the key too
        found = Answer(refusal.status, refusal.body())
    if key:
        text = orjson.dumps(found.body).decode()
        kept = Kept(incoming.path, request.form, found.status, text, request.id, core.moment)
        core.idempotency.kept[key] = kept
    return found


def _copy(body: Any) -> Any:
    """Return an answer as it is now; the objects in it go on changing."""
    return orjson.loads(orjson.dumps(body))


def _expanded(store: Store, body: Json, paths: list[str]) -> Json:
    """Return an answer with objects in the place of their ids, in it or in each object of its list.

    Raise Refusal for what cannot be expanded.
    """
    for path in paths:
        name = path.removeprefix("data.")
        for each in [body] if name == path else body["data"]:
            kind = REFERENCES.get((each["object"], name))
            if kind:
                each[name] = each[name] and store.objects[kind][each[name]]
            elif (each["object"], name) in INCLUDED:
                each[name] = store.hidden[each["id"]][name]
            else:
                raise invalid(f"This property cannot be expanded ({path}).", "expand")
    return body
