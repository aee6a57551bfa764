"""The pages for people: signing up and in, mailed links, invitations, devices, connecting GitHub, the first page.

They call the services that the API calls, in units of the realm `identity`, and are of use without JavaScript. Each is
a class with a path, `ask` for GET, which changes nothing, and `act` for the form that it shows. Whatever is refused is
a page too, with the status that the contract gives the refusal.
"""

from collections.abc import Callable
from typing import Protocol

from flask import Blueprint, Response
from werkzeug.exceptions import HTTPException

from rules.errors import ServiceError
from schemas.contract import Contract
from services.core.unit_of_work import UnitOfWorkFactory
from web.desk import Desk, SignInNeededError, lead_to_sign_in, open_desk
from web.device import Device
from web.forms import ForeignFormError
from web.home import Home
from web.installed import Installed
from web.invitation import Invitation
from web.problems import as_refusal
from web.signing import Forgot, Reset, SignIn, SignOut, SignUp, Verify

PAGES = (Home, SignUp, Verify, SignIn, SignOut, Forgot, Reset, Invitation, Device, Installed)
PATHS = tuple(page.path for page in PAGES)


class Page(Protocol):
    """One page."""

    path: str

    def ask(self) -> Response:
        """Show it."""

    def act(self) -> Response:
        """Do what its form says."""


def people_pages(
    contract: Contract, uow_factory: UnitOfWorkFactory, organizations: UnitOfWorkFactory, refuse: Callable[[], None]
) -> Blueprint:
    """Return the pages; `units` are those of the realm `identity`, `organizations` those of the other one.

    `refuse` raises while people are to come back later.
    """
    desk = open_desk(contract, uow_factory, organizations)
    pages = Blueprint("people", __name__)
    pages.before_request(refuse)
    for make in PAGES:
        page: Page = make(desk)
        pages.add_url_rule(page.path, f"{make.__name__}_ask", page.ask, methods=["GET"])
        pages.add_url_rule(page.path, f"{make.__name__}_act", page.act, methods=["POST"])
    _refuse_as_pages(pages, desk)
    return pages


def _refuse_as_pages(pages: Blueprint, desk: Desk) -> None:
    def foreign(error: ForeignFormError) -> Response:
        return desk.show("refused.html", 403, title=error.title, message=error.message)

    def unusable(error: HTTPException) -> Response:
        message = "The form could not be read."
        return desk.show("refused.html", error.code or 400, title="Not usable", message=message)

    def broken(error: Exception) -> Response:
        return desk.refuse(as_refusal(error))

    pages.register_error_handler(SignInNeededError, lead_to_sign_in)
    pages.register_error_handler(ForeignFormError, foreign)
    pages.register_error_handler(ServiceError, desk.refuse)
    pages.register_error_handler(HTTPException, unusable)
    pages.register_error_handler(Exception, broken)
