"""`/installed`: where GitHub sends a person who has installed the App; its form claims the installation.

Without parameters it is where the way to GitHub begins: it shows the connection, and gives the address at GitHub.

The address names an installation, a state and a code. Nothing happens by following it, since anyone can write one. The
page names the organisation to connect, only to the person who requested the installation for it, and the claim itself
proves the rest.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from rules import web_addresses
from web.connecting import EXPIRED, act_in, find_requested, show_refusal
from web.context import NO_ORGANIZATION
from web.fields import filled
from web.operations import OperationError
from web.views import PageView

CLAIM, INSTALL = "claim_installation", "get_install_url"
_FIELDS = {"installation_id": "installationId", "state": "state", "code": "code"}
_REQUESTED = "GitHub has asked an owner of the account to install the App. Start again once they have approved it."
_NOT_CONFIGURED = (
    'GitHub sent no authorisation. The operator of this service has to enable "Request user authorization (OAuth) '
    'during installation" for the App.'
)


class Installed(PageView):
    """The page to which GitHub leads after the App was installed: it claims the installation."""

    path = web_addresses.INSTALLED

    def get(self) -> Response:
        """Show what will be connected; without parameters, the present connection and how to change it."""
        if not request.args:
            return self._status()
        given = {name: request.args.get(name, "") for name in _FIELDS}
        if not all(given.values()):
            if request.args.get("setup_action") == "request":
                return self.context.message_page("Waiting for approval", _REQUESTED, 200)
            return self.context.message_page("Not an authorisation", _NOT_CONFIGURED, 404)
        self.context.require_visitor(request.full_path)
        try:
            requested = self._requested(given["state"])
        except OperationError as error:
            return self._refused(error)
        return self.context.render("installed.html", organization=requested["organization"], given=given)

    def post(self) -> Response:
        """Claim the installation, or give the address at GitHub."""
        given = self.context.form_fields(*_FIELDS, "do")
        if given.pop("do") == "install":
            self.context.require_visitor(self.path)
            return self._status(self.context.call(INSTALL).content["url"])
        visitor = self.context.require_visitor(web_addresses.HOME)
        try:
            organization = self._requested(given["state"])["organization"]
            act_in(self.context, visitor, organization)
            claimed = self.context.call(CLAIM, body=_claim_body(given)).content
        except OperationError as error:
            return self._refused(error)
        return self.context.render("connected.html", organization=organization, installation=claimed)

    def _status(self, url: str | None = None) -> Response:
        visitor = self.context.require_visitor(self.path)
        organization = visitor.organization
        if organization is None:
            return self.context.message_page("No organisation", NO_ORGANIZATION, 404)
        return self.context.render(
            "connect.html",
            organization=organization,
            connection=self.context.call("get_installation_status").content,
            url=url,
            may_install=self.context.may(organization["role"], INSTALL),
        )

    def _requested(self, state: str) -> Mapping[str, Any]:
        return find_requested(self.context, "get_installation_request", CLAIM, state)

    def _refused(self, error: OperationError) -> Response:
        return show_refusal(self.context, error, "state", EXPIRED, (self.path, "Start again"))


def _claim_body(given: dict[str, str]) -> dict[str, Any]:
    number = given["installation_id"]
    whole = number.isascii() and number.isdecimal() and len(number) < 17
    body: dict[str, Any] = {_FIELDS[name]: text for name, text in filled(given).items()}
    return {**body, "installationId": int(number) if whole else number}
