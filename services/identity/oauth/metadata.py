"""What OAuth clients discover: the metadata of the MCP server (RFC 9728) and of the authorization server (RFC 8414)."""

from collections.abc import Sequence

from rules import web_addresses
from rules.access.access_tokens import AccessTokenSettings
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import UnitOfWork
from services.identity import devices
from services.identity.oauth.tokens import resource_of

RESOURCE_NAME = "Change-Freeze Service"


def protected_resource(uow: UnitOfWork, scopes: Sequence[str]) -> dict[str, object]:
    """Return the metadata of the MCP server; `scopes` are those that its tools need."""
    return {
        "resource": resource_of(uow),
        "authorization_servers": [uow.ports[AccessTokenSettings].issuer],
        "scopes_supported": scopes,
        "bearer_methods_supported": ["header"],
        "resource_name": RESOURCE_NAME,
    }


def authorization_server(uow: UnitOfWork, scopes: Sequence[str]) -> dict[str, object]:
    """Return the metadata of the authorization server; `scopes` are those that clients can request."""
    web = uow.ports[WebOrigin].url
    return {
        "issuer": uow.ports[AccessTokenSettings].issuer,
        "authorization_endpoint": web + web_addresses.AUTHORIZE,
        "device_authorization_endpoint": f"{web}/api/auth/device/code",
        "token_endpoint": f"{web}/oauth/token",
        "revocation_endpoint": f"{web}/oauth/revoke",
        "jwks_uri": f"{web}/.well-known/jwks.json",
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", devices.GRANT_TYPE],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }
