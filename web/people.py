"""The pages for people: accounts, mailed links, invitations, devices, clients, billing, and the dashboard.

They call operations as any client does, and work without JavaScript. An error is a page too, with the status that the
operation answered.
"""

import logging
from collections.abc import Callable
from functools import partial

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import HTTPException

from rules import web_addresses
from rules.errors import ServiceError
from web.account import Account
from web.accounts import Forgot, Reset, SignIn, SignOut, SignUp, Verify
from web.authorize import Authorize
from web.billing import Billing, Changes, Payment
from web.connections import Connections
from web.context import INVALID_SESSION, PageContext, SignInRequiredError, redirect_to
from web.dashboard import pages as dashboard
from web.dashboard.page import WITHOUT_ORGANIZATION, DashboardPage, NoOrganizationError
from web.device import Device
from web.forms import ForeignFormError
from web.installed import Installed
from web.invitation import Invitation
from web.linked_organization import OtherOrganizationError
from web.notices import keep_notice
from web.operations import OperationError
from web.profile import ConfirmEmail, Profile
from web.resuming import kept_fields
from web.return_addresses import safe_redirect
from web.slack import SlackLink, SlackWorkspace
from web.views import PageView

logger = logging.getLogger(__name__)

PAGES: tuple[type[PageView], ...] = (
    Account, SignUp, Verify, SignIn, SignOut, Forgot, Reset, Invitation, Device, Installed,
    Authorize, Connections, Billing, Payment, Changes, SlackWorkspace, SlackLink, Profile,
    ConfirmEmail, *dashboard.PAGES,
)  # fmt: skip
PATHS = tuple(page.path for page in PAGES)


def people_pages(context: PageContext, refuse_in_maintenance: Callable[[], None]) -> Blueprint:
    """Return the pages; `refuse_in_maintenance` raises a ServiceError during a maintenance window."""
    pages = Blueprint("people", __name__)
    pages.before_request(refuse_in_maintenance)
    pages.after_request(partial(keep_notice, guard=context.guard))
    for page in PAGES:
        pages.add_url_rule(page.path.replace("{id}", "<item_id>"), view_func=page.as_view(page.__name__, context))
    _answer_errors_with_pages(pages, context)
    return pages


def _answer_errors_with_pages(pages: Blueprint, context: PageContext) -> None:
    def refused_by_operation(error: OperationError) -> Response:
        if error.code in INVALID_SESSION:
            return context.sign_in_redirect(SignInRequiredError(safe_redirect(request.path)))
        if error.code in WITHOUT_ORGANIZATION:
            return without_organization(error)
        return context.error_page(error)

    def without_organization(_error: NoOrganizationError | OperationError) -> Response:
        return redirect_to(web_addresses.HOME)

    def foreign(error: ForeignFormError) -> Response:
        return _resumed(context, error) or context.message_page(error.title, error.message, 403)

    def refused(error: ServiceError) -> Response:
        return context.error_page(context.to_operation_error(error))

    def unreadable(error: HTTPException) -> Response:
        return context.message_page("Invalid request", "The form could not be read.", error.code or 400)

    def failed(error: Exception) -> Response:
        logger.error("a page failed", exc_info=error)
        message = "Something failed on our side; freezes are unchanged."
        return context.error_page(OperationError(500, "internal_error", message))

    pages.register_error_handler(SignInRequiredError, context.sign_in_redirect)
    pages.register_error_handler(NoOrganizationError, without_organization)
    pages.register_error_handler(OtherOrganizationError, partial(_ask_to_switch, context))
    pages.register_error_handler(ForeignFormError, foreign)
    pages.register_error_handler(OperationError, refused_by_operation)
    pages.register_error_handler(ServiceError, refused)
    pages.register_error_handler(HTTPException, unreadable)
    pages.register_error_handler(Exception, failed)


def _ask_to_switch(context: PageContext, error: OtherOrganizationError) -> Response:
    """Return the page whose form switches to the organisation of a link: a link alone changes nothing."""
    _, [organizations] = context.read(error.back, "list_my_organizations")
    for each in organizations["data"]:
        if each["id"] == error.organization_id:
            return context.render("other_organization.html", organization=each, back=error.back)
    return context.message_page("Not found", "You are not a member of the organisation of this link.", 404)


def _resumed(context: PageContext, error: ForeignFormError) -> Response | None:
    """Return the way back to a form of the dashboard that was shown under another sign-in; None for any other form."""
    view = getattr(current_app.view_functions[request.endpoint or ""], "view_class", PageView)
    kept = kept_fields() if error.ours and issubclass(view, DashboardPage) else ""
    if not kept:
        return None
    token = context.session_token()
    return context.resume(request.path, kept, token, 403) if token else context.sign_in_in_place(kept)
