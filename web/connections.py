"""`/connections`: the clients that a person has connected, and for administrators those of the organisation."""

from typing import Any

from flask import Response

from rules import web_addresses
from web.context import redirect_to, unknown_button
from web.notices import leave_notice, take_notice
from web.views import PageView

LIST_OF_ORGANIZATION = "list_organization_connections"
NOTICES = {"ended": "The client has been disconnected. It has no access any more."}
"""Notices of the page, by their names."""
_OPERATIONS = {"end": "end_connection", "end_of_organization": "end_organization_connection"}


class Connections(PageView):
    """The page; its forms end connections."""

    path = web_addresses.CONNECTIONS

    def get(self) -> Response:
        """Show the connections."""
        visitor, [own] = self.context.read(self.path, "list_connections")
        values: dict[str, Any] = {"own": own["data"], "of_organization": None}
        if visitor.organization and self.context.may(visitor.organization["role"], LIST_OF_ORGANIZATION):
            listed = self.context.call(LIST_OF_ORGANIZATION, query={"limit": "100"}).content["data"]
            shown = {connection["id"] for connection in own["data"]}
            values["of_organization"] = [each for each in listed if each["id"] not in shown]
        return self.context.render("connections.html", notice=NOTICES.get(take_notice(self.context.guard)), **values)

    def post(self) -> Response:
        """End a connection."""
        given = self.context.form_fields("do", "connection_id")
        operation_id = _OPERATIONS.get(given["do"])
        if operation_id is None:
            raise unknown_button()
        self.context.call(operation_id, path_params={"connectionId": given["connection_id"]})
        return redirect_to(leave_notice(self.path, "ended"))
