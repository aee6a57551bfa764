"""`/settings/members`: the people of the organisation, their roles, and invitations."""

from collections.abc import Mapping
from typing import Any

from flask import Response, g

from rules import web_addresses
from rules.access.permissions import ROLES
from web.context import unknown_button
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.operations import Call, OperationError
from web.roles import describe_role

_LABELS = {"email": "Email address", "role": "Role"}
_NOTICES = {
    "invited": "The invitation has been sent.",
    "revoked": "The invitation has been revoked.",
    "changed": "The role has been changed; it takes effect immediately.",
    "removed": "The member has been removed.",
}


class Members(DashboardPage):
    """Who belongs to the organisation, and who is invited."""

    path = web_addresses.MEMBERS
    section = web_addresses.SETTINGS
    notices = _NOTICES

    def get(
        self,
        error: OperationError | None = None,
        given: Mapping[str, str] | None = None,
        link: Mapping[str, Any] | None = None,
    ) -> Response:
        """Show the members, and the invitations that wait."""
        members, invitations = self.read(
            Call("list_members", query={"limit": 100, **filters("cursor")}),
            Call("list_invitations", query={"limit": 100, "state": "pending"}),
        )
        values: dict[str, Any] = {
            "members": members["data"],
            "next_cursor": members["nextCursor"],
            "invitations": invitations["data"],
            "roles": [role for role in ROLES if role != "owner" or g.member.role == "owner"],
            "describe_role": describe_role,
            "all_roles": ROLES,
            "given": given or {},
            "link": link,
        }
        return self.show_form("settings/members.html", error, _LABELS, **values)

    def post(self) -> Response:
        """Do what the button says."""
        given = self.context.form_fields("do", "email", "role", "user_id", "invitation_id")
        link = None
        try:
            if given["do"] == "link":
                params = {"invitationId": given["invitation_id"]}
                link = self.context.call("get_invitation_link", path_params=params).content
            else:
                return redirect_with_notice(self.path, self._perform(given))
        except OperationError as error:
            return self.get(error, given)
        return self.get(link=link)

    def _perform(self, given: Mapping[str, str]) -> str:
        """Return the name of the notice of what was done. Raise OperationError."""
        do, call = given["do"], self.context.call
        if do == "invite":
            call("create_invitation", body={name: given[name] for name in ("email", "role") if given[name]})
            return "invited"
        if do == "revoke":
            call("revoke_invitation", path_params={"invitationId": given["invitation_id"]})
            return "revoked"
        if do == "change":
            call("update_member", path_params={"userId": given["user_id"]}, body={"role": given["role"]})
            return "changed"
        if do == "remove":
            call("remove_member", path_params={"userId": given["user_id"]})
            return "removed"
        raise unknown_button()
