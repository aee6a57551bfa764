"""`/settings/profile`: name, address and password of a person, signing out everywhere, and leaving an organisation.

It needs no organisation. A mailed link that confirms another address leads to `/settings/account/email`.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from rules import web_addresses
from web.context import redirect_to, unknown_button
from web.fields import filled
from web.notices import leave_notice, take_notice
from web.operations import OperationError
from web.problems import at_field
from web.views import PageView

NOTICES = {
    "name": "Your name has been changed.",
    "password": "Your password has been changed, and every other session has ended.",
    "email": "We sent a link to the new address. Open it within one hour to confirm the address.",
    "confirmed": "Your email address has been changed.",
}
"""Notices of the page, by their names."""
_LABELS = {
    "name": "Your name",
    "email": "New email address",
    "email_password": "Your password",
    "current_password": "Current password",
    "password": "New password",
}
_OPERATIONS = {"name": "change_name", "email": "change_email", "password": "change_password"}
_EXPIRED = "This link has been used, has expired, or was requested by someone else."


class Profile(PageView):
    """The name, address and password of the signed-in person."""

    path = web_addresses.PROFILE

    def get(self) -> Response:
        """Show the forms."""
        return self._show(NOTICES.get(take_notice(self.context.guard)))

    def post(self) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "name", "email", "email_password", "current_password", "password")
        do = given["do"]
        try:
            if do == "everywhere":
                self.context.call("sign_out_everywhere")
                return self.context.sign_out_response(leave_notice(web_addresses.SIGN_IN, "out"))
            if do == "leave":
                self.context.call("leave_organization")
                return redirect_to(leave_notice(web_addresses.ACCOUNT, "left"))
            if do not in _OPERATIONS:
                raise unknown_button()
            self.context.call(_OPERATIONS[do], body=_body(given))
        except OperationError as error:
            return self._show(None, _at_field(error, do), given)
        return redirect_to(leave_notice(self.path, do))

    def _show(
        self, notice: str | None, error: OperationError | None = None, given: Mapping[str, str] | None = None
    ) -> Response:
        self.context.require_visitor(self.path)
        values: dict[str, Any] = {
            "notice": notice,
            "given": given or {},
            "min_length": self.context.min_length("change_password", "password"),
        }
        return self.context.render_form("profile.html", error, _LABELS, **values)


class ConfirmEmail(PageView):
    """`/settings/account/email`: the mailed link; its form changes the address."""

    path = web_addresses.CONFIRM_EMAIL

    def get(self) -> Response:
        """Show the form: following a link changes nothing."""
        self.context.require_visitor(request.full_path)
        return self.context.render("confirm_email.html", mailed=request.args.get("token", ""))

    def post(self) -> Response:
        """Change the address."""
        given = self.context.form_fields("mailed")
        self.context.require_visitor(web_addresses.PROFILE)
        try:
            self.context.call("confirm_email", body=filled({"token": given["mailed"]}))
        except OperationError as error:
            if error.code not in {"not_found", "validation_failed", "missing_parameter"}:
                raise
            return self.context.link_expired(_EXPIRED, (web_addresses.PROFILE, "Request another link"))
        return redirect_to(leave_notice(web_addresses.PROFILE, "confirmed"))


def _body(given: Mapping[str, str]) -> dict[str, str]:
    """Return the body of the change that the button names."""
    fields = {
        "name": {"name": given["name"]},
        "email": {"email": given["email"], "password": given["email_password"]},
        "password": {"currentPassword": given["current_password"], "password": given["password"]},
    }
    return filled(fields[given["do"]])


def _at_field(error: OperationError, do: str) -> OperationError:
    """Return a refusal at the field that it is about; the form of the address has a password of its own."""
    if error.code == "wrong_password":
        return at_field("email_password" if do == "email" else "current_password", error)
    if do == "email":
        moved = [each for each in error.details if each.path == "/password"]
        if moved:
            return at_field("email_password", error)
    return error
