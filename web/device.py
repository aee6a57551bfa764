"""`/device`: a person signs in a device that shows them a code, or denies it (RFC 8628, 3.3 and 5.4).

The code is submitted by a form even if the address contains it, so that following a link approves nothing; then the
page names the device, where it is, for which organisation, and what it will be able to do.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from rules import web_addresses
from rules.access.login_sessions import LIFETIME
from web.context import missing_field
from web.fields import filled
from web.operations import OperationError
from web.problems import at_field
from web.roles import describe_role
from web.views import PageView

_LABELS = {"user_code": "Code", "organization_id": "Organisation", "scopes": "Permissions"}
UNKNOWN_CODE = "This code is not valid. It may be mistyped, used, or older than ten minutes."


class Device(PageView):
    """The page, in three steps: the code, the consent, and the result."""

    path = web_addresses.DEVICE

    def get(self) -> Response:
        """Show the form for the code."""
        code = request.args.get("user_code", "")
        self.context.require_visitor(f"{self.path}?{urlencode({'user_code': code})}" if code else self.path)
        return self.context.render("device.html", user_code=code)

    def post(self) -> Response:
        """Show the device that waits under the code, or approve or deny it."""
        given = self.context.form_fields("user_code", "decision", "organization_id")
        self.context.require_visitor(self.path)
        code = given["user_code"]
        try:
            if given["decision"] in {"approve", "deny"}:
                return self._decide(given)
            return self._consent_page(code)
        except OperationError as error:
            unknown = error.code == "not_found" or any(detail.path == "/userCode" for detail in error.details)
            shown = at_field("user_code", OperationError(404, "not_found", UNKNOWN_CODE)) if unknown else error
            return self.context.render_form("device.html", shown, _LABELS, user_code=code)

    def _consent_page(self, code: str) -> Response:
        if not code:
            raise missing_field("user_code", "Enter the code that your device shows.")
        device = self.context.call("device_lookup", body={"userCode": code}).content
        _, [listed] = self.context.read(self.path, "list_my_organizations")
        organizations = listed["data"]
        active = next((each for each in organizations if each["active"]), None)
        return self.context.render(
            "consent.html",
            device=device,
            organizations=organizations,
            chosen=active or next(iter(organizations), None),
            describe_role=describe_role,
            scopes=self._vocabulary(),
            days=LIFETIME.days,
        )

    def _decide(self, given: dict[str, str]) -> Response:
        body: dict[str, Any] = filled(
            {
                "userCode": given["user_code"],
                "decision": given["decision"],
                "organizationId": given["organization_id"],
            }
        )
        if request.form.get("with_scopes"):
            body["scopes"] = request.form.getlist("scope")
        return self.context.render("decided.html", device=self.context.call("device_approve", body=body).content)

    def _vocabulary(self) -> Mapping[str, str]:
        """Return the descriptions of the scopes."""
        found: Mapping[str, str] = self.context.contract.tool_scopes
        return found
