"""Parts of pages that ask again until something has happened, and then stop.

The part is an element with `hx-get` of its own address and `hx-trigger="every … s"`; each answer replaces it, and says
when to ask next. Without scripts the page has a link that opens it again.
"""

from dataclasses import dataclass

from flask import Response, request

from web.context import redirect_to

_INTERVALS = ((10, 1), (30, 3), (42, 10))
"""Pairs: up to this number of polls, one every so many seconds. Three minutes in all."""
_LATE = 10
"""Number of polls after which something takes longer than usual."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How a part asks again."""

    polls: int
    """How often it will have asked then."""
    seconds: int

    @property
    def is_late(self) -> bool:
        """True if it takes longer than usual."""
        return self.polls > _LATE


def next_wait() -> Wait | None:
    """Return how the part that is requested asks again; None if it has asked often enough."""
    text = request.args.get("polls", "")
    polls = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0
    seconds = next((seconds for most, seconds in _INTERVALS if polls < most), None)
    return Wait(polls + 1, seconds) if seconds else None


def open_page(address: str) -> Response:
    """Return the answer to a poll that has the browser open another page of ours; a visitor is redirected there."""
    if request.headers.get("HX-Request") != "true":
        return redirect_to(address)
    headers = {"HX-Redirect": address, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return Response(headers=headers, mimetype="text/html")
