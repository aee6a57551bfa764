"""`/connections`: the clients that a person has connected, and for administrators those of the organisation."""

from typing import Any

import orjson
from flask import Response

from rules import web_addresses
from web.context import redirect_to, unknown_button
from web.notices import leave_notice, take_notice
from web.views import PageView

LIST_OF_ORGANIZATION = "list_organization_connections"
NOTICES = {"ended": "The client has been disconnected. It has no access any more."}
"""Notices of the page, by their names."""
_OPERATIONS = {"end": "end_connection", "end_of_organization": "end_organization_connection"}


def _lines(url: str) -> tuple[tuple[str, str, str], ...]:
    """Return for each client what to copy, and where it goes: the same as in `docs/guide/mcp.md`, for a person."""
    server = orjson.dumps({"name": "change-freeze", "type": "http", "url": url}).decode()
    file = orjson.dumps({"mcpServers": {"change-freeze": {"url": url}}}).decode()
    return (
        (
            "Claude Code",
            f"claude mcp add --transport http change-freeze {url}",
            "In a shell; then /mcp in Claude Code.",
        ),
        ("VS Code", f"code --add-mcp '{server}'", "In a shell."),
        ("Cursor", file, "In ~/.cursor/mcp.json."),
        ("Any other client", url, "Where it asks for the address of a server."),
    )


class Connections(PageView):
    """The page; its forms end connections."""

    path = web_addresses.CONNECTIONS

    def get(self) -> Response:
        """Show the connections."""
        visitor, [own] = self.context.read(self.path, "list_connections")
        lines = _lines(self.context.mcp_url)
        values: dict[str, Any] = {"own": own["data"], "of_organization": None, "clients": lines}
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
