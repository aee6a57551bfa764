"""`/status`: whether the service works, for anyone, also during maintenance. Nothing on it needs a sign-in."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, Response

from rules import web_addresses
from web.forms import render_page
from web.operations import Call, OperationError, Operations

COMPONENTS = {
    "database": ("Database", "Everything that is decided is stored here."),
    "redis": ("Redis", "Without it, work starts a few seconds later."),
    "codeHost": ("GitHub", "Without it, checks that are written stay, and others follow later."),
    "mail": ("Mail", "Without it, mails are sent later."),
    "worker": ("Workers", "They write checks at GitHub."),
    "sweeper": ("Sweep", "Workers start and end windows with it, and find lost work."),
}
"""Names of the components, and what depends on them."""

Window = tuple[datetime, str]
"""The start of a maintenance window, and the message of the operator."""


def status_pages(
    operations: Operations, find_window: Callable[[], Window | None], clock: Callable[[], datetime]
) -> Blueprint:
    """Return the page; `find_window` returns the maintenance window that is open now."""
    pages = Blueprint("status", __name__)

    @pages.get(web_addresses.STATUS)
    def status() -> Response:
        """Show the components, and the maintenance window."""
        checks = _read_checks(operations)
        window = find_window()
        states = {checks.get(name, "unknown") for name in COMPONENTS}
        values: dict[str, Any] = {
            "components": COMPONENTS,
            "checks": checks,
            "window": window,
            "works": window is None and "unavailable" not in states,
            "now": clock(),
        }
        return render_page("status.html", **values)

    return pages


def _read_checks(operations: Operations) -> Mapping[str, str]:
    """Return the state of each component; without the database nothing else is known."""
    try:
        checks: Mapping[str, str] = operations.call(Call("get_readiness")).content["checks"]
    except OperationError:
        return {"database": "unavailable"}
    return checks
