"""`/settings/account`: the organisations of a signed-in person, their invitations and their sessions."""

from collections.abc import Mapping
from typing import Any

from flask import Response

from rules import web_addresses
from rules.time.zones import zone_names
from web.context import redirect_to, unknown_button
from web.devices import device_label
from web.fields import filled
from web.notices import leave_notice, take_notice
from web.operations import OperationError
from web.return_addresses import safe_redirect
from web.views import PageView

NOTICES = {
    "left": "You left the organisation.",
    "deleted": "The organisation has been deleted.",
    "ended": "The session has been ended.",
}
"""Notices of the page, by their names."""
_LABELS = {"name": "Organisation name"}


class Account(PageView):
    """The page; its forms create an organisation, switch between several, and end a session."""

    path = web_addresses.ACCOUNT

    def get(self) -> Response:
        """Show the page."""
        return self._show(NOTICES.get(take_notice(self.context.guard)))

    def post(self) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "organization_id", "session_id", "name", "zone", "next")
        if given["do"] == "switch":
            self.context.call("set_active_organization", body=filled({"organizationId": given["organization_id"]}))
            back = safe_redirect(given["next"])
            return redirect_to(leave_notice(back, "switched") if back == web_addresses.HOME else back)
        if given["do"] == "end":
            self.context.call("revoke_session", path_params={"sessionId": given["session_id"]})
            return redirect_to(leave_notice(self.path, "ended"))
        if given["do"] in {"create", "another"}:
            return self._create(given)
        raise unknown_button()

    def _create(self, given: Mapping[str, str]) -> Response:
        """Create an organisation in the time zone of the browser, if it is known."""
        zone = given["zone"] if given["zone"] in zone_names() else ""
        body: dict[str, Any] = {**filled({"name": given["name"], "timezone": zone})}
        if given["do"] == "another":
            body["another"] = True
        try:
            self.context.call("bootstrap_organization", body=body)
        except OperationError as error:
            return self._show(None, error, given["name"])
        return redirect_to(leave_notice(web_addresses.HOME, "made"))

    def _show(self, notice: str | None, error: OperationError | None = None, name: str = "") -> Response:
        lists = ("list_my_organizations", "list_pending_invitations", "list_sessions")
        _, [organizations, invitations, sessions] = self.context.read(self.path, *lists)
        values: dict[str, Any] = {
            "organizations": organizations["data"],
            "invitations": invitations["data"],
            "sessions": sessions["data"],
            "notice": notice,
            "name": name,
            "device_label": device_label,
        }
        return self.context.render_form("account.html", error, _LABELS, **values)
