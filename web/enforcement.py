"""The page of a setup's authorisation: what an administrator at the code host confirms, and what came of it.

GitHub sends the person here with `code` and `state` in the address. Nothing happens by that: the page says who asked
for what, and only its form does it (`web/forms.py` tells what that is safe by). Code and state are in no log, and leave
in no `Referer`. Every refusal is a page too.
"""

import logging

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from rules.errors import ServiceError
from services.enforcement.authorizing import PATH, NotAuthorizedError
from services.enforcement.confirming import Authorizations
from web.forms import LONGEST_FORM, ForeignFormError, Guard, shown

logger = logging.getLogger(__name__)

SHOWN = 200
"""Rulesets that a page lists."""
COOKIE_SECONDS = 600


def enforcement_pages(authorizations: Authorizations, web_url: str) -> Blueprint:
    """Return the page; `web_url` is the origin that people see it under."""
    pages = Blueprint("enforcement", __name__)
    guard = Guard("setup", web_url, "Strict", COOKIE_SECONDS)

    @pages.get(PATH)
    def ask() -> Response:
        state = request.args.get("state", "")
        if "error" in request.args:
            raise NotAuthorizedError("Not authorised", "You did not let the service act for you. Nothing was written.")
        if not request.args.get("code"):
            raise NotAuthorizedError("Not an authorisation", "This address comes from GitHub, with a code and a state.")
        asked = authorizations.read_request(state)
        browser = guard.browser()
        page = shown(
            "confirm.html",
            asked=asked,
            shown=asked.changes[:SHOWN],
            code=request.args["code"],
            state=state,
            token=guard.token(browser, state),
        )
        guard.remember(page, browser)
        return page

    @pages.post(PATH)
    def confirm() -> Response:
        request.max_content_length = LONGEST_FORM
        state, code = request.form.get("state", ""), request.form.get("code", "")
        guard.check(state)
        return shown("confirmed.html", result=authorizations.confirm(state, code), most=SHOWN)

    pages.register_error_handler(ForeignFormError, _foreign)
    pages.register_error_handler(NotAuthorizedError, _refused)
    pages.register_error_handler(ServiceError, _failed)
    pages.register_error_handler(HTTPException, _unusable)
    pages.register_error_handler(Exception, _broken)
    return pages


def _foreign(error: ForeignFormError) -> Response:
    return shown("refused.html", 403, title=error.title, message=error.message)


def _refused(error: NotAuthorizedError) -> Response:
    return shown("refused.html", error.status, title=error.title, message=error.message)


def _failed(error: ServiceError) -> Response:
    """Show what the code host, or a rule of ours, refused."""
    return shown("refused.html", 502, title="Not possible now", message=error.message)


def _unusable(error: HTTPException) -> Response:
    return shown("refused.html", error.code or 400, title="Not usable", message="The form could not be read.")


def _broken(error: Exception) -> Response:
    """Show that something failed; the log has the cause, and neither code nor state."""
    logger.error("the page of an authorisation failed", exc_info=error)
    message = "Something failed on our side. What was written stays; apply again for a new address."
    return shown("refused.html", 500, title="That did not work", message=message)
