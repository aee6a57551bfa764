"""`/settings/keys`: API keys; the secret of a new one is shown once."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from flask import Response, request

from rules import web_addresses
from web.context import missing_field, unknown_button
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.operations import Call, OperationError

EXPIRIES = (("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"), ("", "Never"))
"""Days until a key expires, and the words for it."""
GRACES = (("0", "Ends now"), ("3600", "Works for another hour"), ("86400", "Works for another day"))
"""Seconds that the old secret of a rotated key still works, and the words for it."""
_LABELS = {"name": "Name", "scopes": "Permissions", "expires": "Expires", "expires_at": "Expires", "agent": "Agent"}


class ApiKeys(DashboardPage):
    """The API keys of the organisation."""

    path = web_addresses.API_KEYS
    section = web_addresses.SETTINGS
    notices = {"revoked": "The key has been revoked."}

    def get(self, error: OperationError | None = None, given: Mapping[str, str] | None = None) -> Response:
        """Show the keys."""
        state = filters("state").get("state", "active")
        wanted = {} if state == "all" else {"state": state}
        keys, scopes = self.read(
            Call("list_api_keys", query={"limit": 50, **wanted, **filters("cursor")}),
            Call("list_api_key_scopes", query={"limit": 100}),
        )
        values: dict[str, Any] = {
            "keys": keys["data"],
            "next_cursor": keys["nextCursor"],
            "scopes": scopes["data"],
            "chosen": request.form.getlist("scope"),
            "state": state,
            "expiries": EXPIRIES,
            "graces": GRACES,
            "given": given or {"expires": "90"},
        }
        return self.show_form("settings/api_keys.html", error, _LABELS, **values)

    def post(self) -> Response:
        """Create a key, give one a new secret, or revoke one."""
        given = self.context.form_fields("do", "name", "expires", "agent", "api_key_id", "grace")
        params = {"apiKeyId": given["api_key_id"]}
        try:
            if given["do"] == "revoke":
                self.context.call("revoke_api_key", path_params=params)
                return redirect_with_notice(self.path, "revoked")
            if given["do"] == "create":
                created = self.context.call("create_api_key", body=self._body(given)).content
            elif given["do"] == "rotate":
                body = {"graceSeconds": int(given["grace"])} if given["grace"] in dict(GRACES) else {}
                created = self.context.call("rotate_api_key", path_params=params, body=body).content
            else:
                raise unknown_button()
        except OperationError as error:
            return self.get(error, given)
        self.read()
        return self.show("settings/api_key_secret.html", created=created)

    def _body(self, given: Mapping[str, str]) -> dict[str, Any]:
        days = given["expires"]
        if days not in dict(EXPIRIES):  # an expiry that cannot be read must not become a key that never expires
            raise missing_field("expires", "Choose when the key expires.")
        expires_at = (self.context.clock() + timedelta(days=int(days))).isoformat() if days else None
        body: dict[str, Any] = {"scopes": request.form.getlist("scope"), "expiresAt": expires_at}
        if given["agent"]:
            body["agent"] = True
        return {"name": given["name"], **body} if given["name"] else body
