"""The API: one router over all resources, and what every call has in common."""

import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from tools.fake_stripe.calls import Exchange
from tools.fake_stripe.core import NO_REQUEST, Core
from tools.fake_stripe.idempotency import Kept
from tools.fake_stripe.protocol.expansion import expand
from tools.fake_stripe.protocol.forms import decode
from tools.fake_stripe.protocol.routing import Call, Route
from tools.fake_stripe.refusals import Refusal, invalid
from tools.fake_stripe.resources import (
    checkout_sessions,
    customers,
    events,
    invoices,
    payment_methods,
    portal,
    prices,
    products,
    subscription_schedules,
    subscriptions,
    test_clocks,
)
from tools.fake_stripe.timeline import catch_up
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

ROUTES: tuple[Route, ...] = (
    *customers.ROUTES,
    *products.ROUTES,
    *prices.ROUTES,
    *payment_methods.ROUTES,
    *checkout_sessions.ROUTES,
    *subscriptions.ROUTES,
    *subscription_schedules.ROUTES,
    *invoices.ROUTES,
    *portal.ROUTES,
    *events.ROUTES,
    *test_clocks.ROUTES,
)
VERSION = "2026-10-28.endive"


@dataclass(slots=True)
class Request:
    """A request of the API: what it is, and what came of it so far."""

    id: str
    incoming: Incoming
    form: str
    route: Route | None
    ids: dict[str, str]
    params: dict[str, Any]

    @property
    def idempotency_key(self) -> str | None:
        """Return the key of a request that may be repeated; other methods ignore it."""
        return self.incoming.headers.get("idempotency-key") if self.incoming.method == "POST" else None


def match(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Return the route of a path, with the ids in it."""
    for route in ROUTES:
        found = route.pattern.fullmatch(path) if route.method == method else None
        if found:
            return route, {name: unquote(text) for name, text in found.groupdict().items()}
    return None


def answer(core: Core, incoming: Incoming) -> Answer:
    """Answer a request as Stripe does, and record it."""
    matched = match(incoming.method, incoming.path)
    route, ids = matched or (None, {})
    form = incoming.raw.decode("utf-8", "replace") or incoming.query_string
    request = Request(f"req_{secrets.token_hex(7)}", incoming, form, route, ids, {})
    headers = {"Request-Id": request.id, "Stripe-Version": VERSION}
    if request.idempotency_key:
        headers["Idempotency-Key"] = request.idempotency_key
    with core.lock:
        catch_up(core)
        try:
            found = _respond(core, request)
        except Refusal as refusal:
            found = Answer(refusal.status, refusal.body(request.id))
        found.headers = {**headers, **found.headers}
        core.calls.record(
            Exchange(
                incoming.method,
                incoming.path,
                route.template if route else None,
                request.params,
                found.status,
                found.body,
                request.idempotency_key,
                "Idempotent-Replayed" in found.headers,
            ),
        )
    return found


def record_fault(core: Core, incoming: Incoming, status: int) -> None:
    """Record a request that a fault kept from the API; status 0: it got no answer."""
    matched = match(incoming.method, incoming.path)
    template, key = matched[0].template if matched else None, incoming.headers.get("idempotency-key")
    with core.lock:
        core.calls.record(Exchange(incoming.method, incoming.path, template, {}, status, None, key, replayed=False))


def _respond(core: Core, request: Request) -> Answer:
    incoming, key = request.incoming, request.idempotency_key
    credential = core.keys.identify(incoming.headers.get("authorization"))
    version = incoming.headers.get("stripe-version", VERSION)
    if version != VERSION:
        raise invalid(f"Invalid Stripe API version: {version}. This simulation has {VERSION} only.")
    if request.route is None:
        message = (
            f"Unrecognized request URL ({incoming.method}: {incoming.path}). If you are trying to list objects, remove "
            "the trailing slash. If you are trying to retrieve an object, make sure you passed a valid (non-empty) "
            "identifier in your code. Please see https://stripe.com/docs or we can help at https://support.stripe.com/."
        )
        raise invalid(message, status=404)
    core.keys.require(credential, request.route.permission)
    if key:
        kept = core.idempotency.find(key, incoming.method, incoming.path, request.form, core.moment)
        if kept:
            replayed = {"Idempotent-Replayed": "true", "Original-Request": kept.request_id}
            return Answer(kept.status, orjson.loads(kept.answer), replayed)
    params = request.route.accepted.read(decode(request.form))  # what is refused here is not kept for the key
    request.params = params
    core.request = {"id": request.id, "idempotency_key": key}
    try:
        found = _handle(core, request, params)
    finally:
        core.request = NO_REQUEST
    if key:
        text = orjson.dumps(found.body).decode()
        first = Kept(incoming.method, incoming.path, request.form, found.status, text, request.id, core.moment)
        core.idempotency.keep(key, first)
    return found


def _handle(core: Core, request: Request, params: dict[str, Any]) -> Answer:
    """Call the handler. A refusal is an answer here, since it is kept for the idempotency key too."""
    assert request.route is not None
    call = Call(core, request.incoming.path, request.ids, params)
    try:
        body = request.route.handler(call)
        return Answer(200, _copy(expand(core.store, body, params.get("expand", []))))
    except Refusal as refusal:
        return Answer(refusal.status, refusal.body(request.id))


def _copy(body: Any) -> Any:
    """Return an answer as it is now; the objects in it go on changing."""
    return orjson.loads(orjson.dumps(body))
