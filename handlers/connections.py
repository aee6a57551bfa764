"""Operations of the tag Connections: the authorization server for MCP clients, and the connections that it makes."""

from collections.abc import Mapping
from typing import Any

from rules.access.oauth import OFFLINE_ACCESS, OAuthError
from schemas.contract import load_contract
from schemas.oauth import required, respond
from schemas.replies import HeadedReply, RawReply, SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.identity import devices
from services.identity.oauth import authorization, connections, metadata, tokens
from services.identity.oauth.authorization import Decision

_ANY_ORIGIN = {"Access-Control-Allow-Origin": "*"}
"""Scripts of any origin may read the response."""
_PUBLIC = {"Cache-Control": "public, max-age=300", **_ANY_ORIGIN}


def get_protected_resource_metadata(uow: UnitOfWork) -> object:
    """Return the metadata of the MCP server, at the address of its origin."""
    return HeadedReply(metadata.protected_resource(uow, list(load_contract().tool_scopes)), _PUBLIC)


def get_mcp_resource_metadata(uow: UnitOfWork) -> object:
    """Return the metadata of the MCP server, at its own address."""
    return get_protected_resource_metadata(uow)


def get_authorization_server_metadata(uow: UnitOfWork) -> object:
    """Return the authorization server metadata."""
    scopes = [*load_contract().tool_scopes, OFFLINE_ACCESS]
    return HeadedReply(metadata.authorization_server(uow, scopes), _PUBLIC)


def preview_authorization(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Return what a consent page shows, or where the browser is redirected to."""
    return authorization.preview(uow, body["query"], load_contract().tool_scopes)


def decide_authorization(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Approve or deny what a client requests."""
    decision = Decision(body["decision"] == "approve", body.get("organization_id"), body.get("scopes", []))
    return SecretReply(authorization.decide(uow, body["query"], decision, load_contract().tool_scopes))


def oauth_token(uow: UnitOfWork, raw_body: bytes, headers: Mapping[str, str]) -> object:
    """Exchange a code, a refresh token or a device code for tokens."""
    return respond(raw_body, headers, lambda given: _exchange(uow, given), extra_headers=_ANY_ORIGIN)


def oauth_revoke(uow: UnitOfWork, raw_body: bytes, headers: Mapping[str, str]) -> object:
    """End the connection that a token belongs to."""

    def revoke(given: Mapping[str, str]) -> None:
        tokens.revoke(uow, required(given, "token"), given.get("client_id"))

    reply = respond(raw_body, headers, revoke, extra_headers=_ANY_ORIGIN)
    return reply if isinstance(reply, RawReply) else RawReply(200, {"Cache-Control": "no-store", **_ANY_ORIGIN}, b"")


def list_connections(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the connections of the current user."""
    return connections.list_mine(uow, cursor, limit)


def end_connection(uow: UnitOfWork, connection_id: str) -> None:
    """End one of the current user's connections."""
    connections.end_mine(uow, connection_id)


def list_organization_connections(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the connections in the organisation."""
    return connections.list_of_organization(uow, cursor, limit)


def end_organization_connection(uow: UnitOfWork, connection_id: str) -> None:
    """End a connection in the organisation."""
    connections.end_of_organization(uow, connection_id)


def _exchange(uow: UnitOfWork, given: Mapping[str, str]) -> object:
    grant_type, client_id = required(given, "grant_type"), required(given, "client_id")
    tokens.require_resource(uow, given.get("resource"))
    if grant_type == "authorization_code":
        names = ("code", "redirect_uri", "client_id", "code_verifier")
        return tokens.exchange_code(uow, *(required(given, name) for name in names))
    if grant_type == "refresh_token":
        return tokens.refresh(uow, required(given, "refresh_token"), client_id, given.get("scope"))
    if grant_type == devices.GRANT_TYPE:
        return devices.exchange_device_code(uow, grant_type, required(given, "device_code"), client_id, connects=True)
    supported = ("authorization_code", "refresh_token", devices.GRANT_TYPE)
    raise OAuthError("unsupported_grant_type", f"grant_type must be one of {', '.join(supported)}.")
