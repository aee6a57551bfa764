"""The page of a ruleset authorisation: what an administrator at GitHub confirms, and the result.

GitHub sends the person here with `code` and `state` in the address. Nothing happens by that: the page says who
requested what, and only its protected form does it. Code and state are in no log, and leave in no `Referer`. An error
is a page too.
"""

import logging

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from rules.errors import NotAuthorizedError, ServiceError
from rules.web_addresses import ENFORCEMENT_AUTHORIZED
from web.forms import MAX_FORM_BYTES, ForeignFormError, FormGuard, render_page
from web.ports import RulesetAuthorizations

logger = logging.getLogger(__name__)

MAX_LISTED = 200
"""Rulesets that the page lists."""
COOKIE_SECONDS = 600


def enforcement_pages(authorizations: RulesetAuthorizations, web_url: str) -> Blueprint:
    """Return the page; `web_url` is the origin that people see it under."""
    pages = Blueprint("enforcement", __name__)
    guard = FormGuard("setup", web_url, "Strict", COOKIE_SECONDS)

    @pages.get(ENFORCEMENT_AUTHORIZED)
    def show() -> Response:
        """Show what the administrator authorises, after GitHub has led back here."""
        state = request.args.get("state", "")
        if "error" in request.args:
            raise NotAuthorizedError("Not authorised", "You did not authorise the service. Nothing was written.")
        if not request.args.get("code"):
            raise NotAuthorizedError("Not an authorisation", "GitHub leads to this address with a code and a state.")
        pending = authorizations.read_request(state)
        secret = guard.browser_secret()
        page = render_page(
            "enforcement/confirm.html",
            pending=pending,
            shown=pending.changes[:MAX_LISTED],
            forbids_deletion=any(change.forbids_deletion for change in pending.changes),
            code=request.args["code"],
            state=state,
            token=guard.token(secret, state),
        )
        guard.set_cookie(page, secret)
        return page

    @pages.post(ENFORCEMENT_AUTHORIZED)
    def confirm() -> Response:
        """Write the rulesets, as the administrator who has authorised it."""
        request.max_content_length = MAX_FORM_BYTES
        state, code = request.form.get("state", ""), request.form.get("code", "")
        guard.check(state)
        result = authorizations.confirm(state, code)
        return render_page("enforcement/confirmed.html", result=result, max_listed=MAX_LISTED)

    pages.register_error_handler(ForeignFormError, _foreign)
    pages.register_error_handler(NotAuthorizedError, _not_authorized)
    pages.register_error_handler(ServiceError, _refused)
    pages.register_error_handler(HTTPException, _unreadable)
    pages.register_error_handler(Exception, _failed)
    return pages


def _foreign(error: ForeignFormError) -> Response:
    return _message(error.title, error.message, 403)


def _not_authorized(error: NotAuthorizedError) -> Response:
    return _message(error.title, error.message, error.status)


def _refused(error: ServiceError) -> Response:
    """Show what GitHub, or a rule of ours, refused."""
    return _message("Not possible now", error.message, 502)


def _unreadable(error: HTTPException) -> Response:
    return _message("Invalid request", "The form could not be read.", error.code or 400)


def _failed(error: Exception) -> Response:
    """Show that something failed; the log has the cause, and neither code nor state."""
    logger.error("the page of an authorisation failed", exc_info=error)
    message = "Something failed on our side. Rulesets that were written stay; apply again for a new address."
    return _message("Something went wrong", message, 500)


def _message(title: str, message: str, status: int) -> Response:
    return render_page("enforcement/message.html", status, title=title, message=message)
