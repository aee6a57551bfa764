"""`/invitation`: who invites to which organisation, with which role; accepted only by its form.

The mailed link shows the invitation to anyone who has it. Only the account of the invited address accepts it, and
finds it by its id as well, so that no sign-in on the way carries the secret. If the address has no account, whoever has
the link that was only mailed chooses name and password, and is in.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from flask import Response, g, request

from rules import web_addresses
from web.accounts import end_session
from web.context import redirect_to
from web.fields import filled
from web.notices import leave_notice
from web.operations import OperationError
from web.roles import describe_role
from web.views import PageView

_JOIN = "join_by_invitation"
_LABELS = {"name": "Your name", "password": "Password"}
_GONE = "This invitation does not exist, is not for you, or has been accepted, revoked, or has expired."


class Invitation(PageView):
    """The page of one invitation."""

    path = web_addresses.INVITATION

    def get(self) -> Response:
        """Show the invitation of a mailed token, or one to the address of the signed-in visitor."""
        token, invitation_id = request.args.get("token", ""), request.args.get("id", "")
        if token:
            self.context.find_visitor()
            found = self.context.mailed_links.find("invitation", token)
        else:
            found = self._find_own(invitation_id)
        if found is None:
            return self._gone()
        powers = describe_role(found["role"])
        back = _address(found["id"])
        needed = "" if self.context.sign_up.permits(found["email"]) else token  # to sign up
        values: dict[str, Any] = {"invitation": found, "powers": powers, "back": back, "mailed": needed}
        return self.context.render("invitation.html", **values, **self._joining(found, token))

    def post(self) -> Response:
        """Accept it, or join by its link."""
        given = self.context.form_fields("id", "mailed", "name", "password")
        if given["mailed"]:
            return self._join(given)
        invitation_id = given["id"]
        self.context.require_visitor(_address(invitation_id))
        if not invitation_id:
            return self._gone()
        try:
            self.context.call("accept_invitation", path_params={"invitationId": invitation_id})
        except OperationError as error:
            if error.code not in {"invitation_not_found", "invalid_parameter"}:
                raise
            return self._gone()
        return redirect_to(leave_notice(web_addresses.HOME, "joined"))

    def _joining(self, found: Mapping[str, Any], token: str) -> dict[str, Any]:
        """Return what the form needs by which the link creates an account; nothing if it does not."""
        if not found.get("joinable") or g.get("visitor"):
            return {"joins": False}
        return {"joins": True, "token_of_mail": token, "min_length": self.context.min_length(_JOIN, "password")}

    def _join(self, given: Mapping[str, str]) -> Response:
        """Create the account of the invited address, and show its organisation."""
        found = self.context.mailed_links.find("invitation", given["mailed"])
        if found is None:
            return self._gone()
        body = filled({"token": given["mailed"], "name": given["name"], "password": given["password"]})
        try:
            joined = self.context.call(_JOIN, body=body)
        except OperationError as error:
            if error.code == "invitation_not_found":
                return self._gone()
            if error.code == "already_exists":  # an account came to be meanwhile: it signs in
                return redirect_to(f"{web_addresses.SIGN_IN}?{urlencode({'next': _address(found['id'])})}")
            values = {"invitation": found, "powers": describe_role(found["role"]), "back": _address(found["id"])}
            joining = {**self._joining(found, given["mailed"]), "name": given["name"]}
            return self.context.render_form("invitation.html", error, _LABELS, **values, **joining)
        end_session(self.context)
        return self.context.with_cookies(joined, leave_notice(web_addresses.HOME, "joined"))

    def _find_own(self, invitation_id: str) -> Mapping[str, Any] | None:
        _, [pending] = self.context.read(_address(invitation_id), "list_pending_invitations")
        return next((each for each in pending["data"] if each["id"] == invitation_id), None)

    def _gone(self) -> Response:
        return self.context.message_page("Not found", _GONE, 404)


def _address(invitation_id: str) -> str:
    return f"{web_addresses.INVITATION}?{urlencode({'id': invitation_id})}"
