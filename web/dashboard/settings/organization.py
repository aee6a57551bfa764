"""`/settings`: the organisation's name and rules, and its deletion."""

from collections.abc import Mapping
from typing import Any

from flask import Response

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.page import Change, DashboardPage, next_state, redirect_with_notice, state_of
from web.operations import Call, OperationError
from web.problems import at_field

_EDITED = ("name", "settings")
_LABELS = {"name": "Name", "timezone": "Time zone", "confirmation": "Name of the organisation"}
_FIELDS = ("do", "shown", "name", "timezone", "approval", "self_approval", "check_text", "confirmation")


class OrganizationSettings(DashboardPage):
    """The settings of the organisation."""

    path = section = web_addresses.SETTINGS
    notices = {"saved": "The settings are saved."}

    def get(self, error: OperationError | None = None, given: Mapping[str, str] | None = None) -> Response:
        """Show the settings."""
        [organization] = self.read(Call("get_current_organization"))
        values: dict[str, Any] = {
            "organization": organization,
            "shown": next_state(state_of(organization, *_EDITED), given, error),
            "given": given or {},
        }
        return self.show_form("settings/organization.html", error, _LABELS, **values)

    def post(self) -> Response:
        """Save the settings, or delete the organisation."""
        given = self.context.form_fields(*_FIELDS)
        try:
            if given["do"] == "delete":
                self.context.call("delete_organization", body={"name": given["confirmation"]})
                return redirect_with_notice(web_addresses.ACCOUNT, "deleted")
            if given["do"] != "save":
                raise unknown_button()
            settings = {
                "timezone": given["timezone"],
                "approval": given["approval"] or "admin",
                "selfApproval": bool(given["self_approval"]),
                "checkText": given["check_text"] or "full",
            }
            calls = Change("get_current_organization", "update_current_organization", _EDITED)
            self.change(calls, {"name": given["name"], "settings": settings}, given["shown"])
        except OperationError as error:
            return self.get(_at_field(error, given["do"]), given)
        return redirect_with_notice(self.path, "saved")


def _at_field(error: OperationError, do: str) -> OperationError:
    """Return a refusal at the field that it is about."""
    if do == "delete" and error.details:
        return at_field("confirmation", error)
    if any(detail.path.endswith("/timezone") for detail in error.details):
        return at_field("timezone", error)
    return error
