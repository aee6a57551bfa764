"""Which page a path is."""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl

from tools.fake_stripe.core import Core
from tools.fake_stripe.pages import checkout_page, invoice_page, portal_page
from tools.fake_stripe.pages.html import page
from tools.fake_stripe.store import Json
from tools.fake_stripe.timeline import catch_up
from tools.simulation.answers import Answer
from tools.simulation.wire import Incoming

Page = Callable[[Core, Json, dict[str, str] | None], Answer]
PAGES: tuple[tuple[re.Pattern[str], str, Page], ...] = (
    (re.compile(r"/c/pay/(\w+)"), "checkout.session", checkout_page.show),
    (re.compile(r"/p/session/(\w+)"), "billing_portal.session", portal_page.show),
    (re.compile(r"/i/(\w+)"), "invoice", invoice_page.show),
)


def answer(core: Core, incoming: Incoming) -> Answer:
    """Show a page, or take what a person sent with its form."""
    with core.lock:
        catch_up(core)
        for pattern, kind, show in PAGES:
            matched = pattern.fullmatch(incoming.path)
            found = core.store.find(kind, matched[1]) if matched else None
            if found and incoming.method in {"GET", "POST"}:
                sent = dict(parse_qsl(incoming.raw.decode("utf-8", "replace"))) if incoming.method == "POST" else None
                return show(core, found, sent)
    return page("Page not found", "<p>There is no such page.</p>", 404)
