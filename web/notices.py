"""Notices: what a form has done, said once by the page that follows it.

The name of the notice travels in a cookie, which the page takes away: a page that is loaded again, sent to somebody or
opened from the history does not say it again. A page shows notices of its own alone, so a cookie cannot say anything
else.
"""

from dataclasses import replace
from urllib.parse import urlsplit

from flask import Response, g, request

from web.forms import FormGuard

_SECONDS = 60
"""For how long a browser keeps a notice that no page has taken."""


def leave_notice(address: str, name: str) -> str:
    """Have the page of the address show the notice of this name; return the address."""
    g.left_notice = f"{name}:{urlsplit(address).path}"
    return address


def take_notice(guard: FormGuard) -> str:
    """Return the name of the notice that was left for the page that is requested, or an empty text."""
    name, _, path = request.cookies.get(_cookie(guard).cookie, "").partition(":")
    if path != request.path:
        return ""
    g.took_notice = True
    return name


def keep_notice(page: Response, guard: FormGuard) -> Response:
    """Return an answer that has the browser keep the notice that was left, or forget the one that was taken."""
    if left := g.get("left_notice"):
        _cookie(guard).set_cookie(page, left)
    elif g.get("took_notice"):
        _cookie(guard).delete_cookie(page)
    return page


def _cookie(guard: FormGuard) -> FormGuard:
    return replace(guard, name="notice", max_age=_SECONDS)
