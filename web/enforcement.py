"""The page of a setup's authorisation: what an administrator at the code host confirms, and what came of it.

GitHub sends the person here with `code` and `state` in the address. Nothing happens by that: the page says who asked
for what, and only its form does it. The form is safe from other sites by the `Origin` of its request (or, since a page
without referrer sends none, by `Sec-Fetch-Site`), and by a token that fits a cookie which other sites cannot have sent.
Code and state are in no log, and leave in no `Referer`. Every refusal is a page too.
"""

import hashlib
import hmac
import logging
import secrets
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Response, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from rules.errors import ServiceError
from services.enforcement.authorizing import PATH, NotAuthorizedError
from services.enforcement.confirming import Authorizations

logger = logging.getLogger(__name__)

SHOWN = 200
"""Rulesets that a page lists."""
LONGEST_FORM = 16_384
COOKIE_SECONDS = 600
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FOREIGN = NotAuthorizedError(
    "Not sent from this page", "The form has to be sent from the page that showed it, in the same browser.", 403
)


def enforcement_pages(authorizations: Authorizations, web_url: str) -> Blueprint:
    """Return the page; `web_url` is the origin that people see it under."""
    pages = Blueprint("enforcement", __name__)
    secure = web_url.startswith("https://")
    cookie = "__Host-setup" if secure else "setup"

    @pages.get(PATH)
    def ask() -> Response:
        state = request.args.get("state", "")
        if "error" in request.args:
            raise NotAuthorizedError("Not authorised", "You did not let the service act for you. Nothing was written.")
        if not request.args.get("code"):
            raise NotAuthorizedError("Not an authorisation", "This address comes from GitHub, with a code and a state.")
        asked = authorizations.look(state)
        browser = request.cookies.get(cookie) or secrets.token_urlsafe(24)
        page = _page(
            "confirm.html",
            asked=asked,
            shown=asked.changes[:SHOWN],
            code=request.args["code"],
            state=state,
            token=_token(browser, state),
        )
        page.set_cookie(
            cookie, browser, max_age=COOKIE_SECONDS, secure=secure, httponly=True, samesite="Strict", path="/"
        )
        return page

    @pages.post(PATH)
    def confirm() -> Response:
        request.max_content_length = LONGEST_FORM
        state, code = request.form.get("state", ""), request.form.get("code", "")
        if not _sent_from_here(web_url) or not _fits(request.cookies.get(cookie, ""), state):
            raise _FOREIGN
        return _page("confirmed.html", result=authorizations.confirm(state, code), most=SHOWN)

    pages.register_error_handler(NotAuthorizedError, _refused)
    pages.register_error_handler(ServiceError, _failed)
    pages.register_error_handler(HTTPException, _unusable)
    pages.register_error_handler(Exception, _broken)
    return pages


def _token(browser: str, state: str) -> str:
    return hmac.new(browser.encode(), state.encode(), hashlib.sha256).hexdigest()


def _fits(browser: str, state: str) -> bool:
    given = request.form.get("token", "")
    return bool(browser) and hmac.compare_digest(given.encode(), _token(browser, state).encode())


def _sent_from_here(web_url: str) -> bool:
    origin = request.headers.get("Origin", "null")
    if origin == "null":
        return request.headers.get("Sec-Fetch-Site") == "same-origin"
    wanted, given = urlsplit(web_url), urlsplit(origin)
    return (given.scheme, given.netloc.lower()) == (wanted.scheme, wanted.netloc.lower())


def _page(template: str, status: int = 200, **values: Any) -> Response:
    page = make_response(render_template(template, **values), status)
    page.headers.update(_HEADERS)
    return page


def _refused(error: NotAuthorizedError) -> Response:
    return _page("refused.html", error.status, title=error.title, message=error.message)


def _failed(error: ServiceError) -> Response:
    """Show what the code host, or a rule of ours, refused."""
    return _page("refused.html", 502, title="Not possible now", message=error.message)


def _unusable(error: HTTPException) -> Response:
    return _page("refused.html", error.code or 400, title="Not usable", message="The form could not be read.")


def _broken(error: Exception) -> Response:
    """Show that something failed; the log has the cause, and neither code nor state."""
    logger.error("the page of an authorisation failed", exc_info=error)
    message = "Something failed on our side. What was written stays; apply again for a new address."
    return _page("refused.html", 500, title="That did not work", message=message)
