"""`/invitation`: who invites to which organisation, with which role; accepted only by its form.

The mailed link shows the invitation to anyone who has it. Only the account of the invited address accepts it, and
finds it by its id as well, so that no sign-in on the way carries the secret.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from rules import web_addresses
from web.context import redirect_to
from web.notices import leave_notice
from web.operations import OperationError
from web.roles import describe_role
from web.views import PageView

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
        return self.context.render("invitation.html", invitation=found, powers=powers, back=back, mailed=needed)

    def post(self) -> Response:
        """Accept it."""
        invitation_id = self.context.form_fields("id")["id"]
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

    def _find_own(self, invitation_id: str) -> Mapping[str, Any] | None:
        _, [pending] = self.context.read(_address(invitation_id), "list_pending_invitations")
        return next((each for each in pending["data"] if each["id"] == invitation_id), None)

    def _gone(self) -> Response:
        return self.context.message_page("Not found", _GONE, 404)


def _address(invitation_id: str) -> str:
    return f"{web_addresses.INVITATION}?{urlencode({'id': invitation_id})}"
