"""What an MCP client and its person send while the client is connected."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.callers import Caller, answered
from tests.harness.mcp_client import McpClient, Result

CLIENT_ID = "https://client.example/oauth/metadata.json"
REDIRECT = "http://localhost:53076/callback"
DOCUMENT: dict[str, Any] = {
    "client_id": CLIENT_ID,
    "client_name": "Example Client",
    "redirect_uris": ["http://localhost/callback", "https://client.example/callback?kind=web"],
    "token_endpoint_auth_method": "none",
}
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
RESOURCE = f"{factories.AUDIENCE}/mcp"
REQUEST = {
    "response_type": "code",
    "client_id": CLIENT_ID,
    "redirect_uri": REDIRECT,
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
    "scope": "freeze:read freeze:write",
    "state": "a state",
    "resource": RESOURCE,
}
PREVIEW, DECIDE = "/api/auth/oauth/preview", "/api/auth/oauth/decide"


def query_of(**changes: str | None) -> str:
    """Return the query of an authorization request; None leaves a parameter out."""
    given = {**REQUEST, **changes}
    return urlencode({name: value for name, value in given.items() if value is not None})


def answer_of(location: str) -> dict[str, str]:
    """Return the parameters of a redirect to a client, each of which is there once."""
    found = parse_qs(urlsplit(location).query, strict_parsing=True)
    assert all(len(values) == 1 for values in found.values()), location
    return {name: values[0] for name, values in found.items()}


@dataclass(frozen=True, slots=True)
class Client:
    """A client without a secret."""

    http: httpx.Client
    session: Session

    def preview(self, query: str) -> httpx.Response:
        return self.http.post(PREVIEW, json={"query": query})

    def token(self, **form: str | None) -> httpx.Response:
        given = {"client_id": CLIENT_ID, **form}
        return self.http.post("/oauth/token", data={name: value for name, value in given.items() if value is not None})

    def redeem(self, code: str, /, **changes: str | None) -> httpx.Response:
        given = {"redirect_uri": REDIRECT, "code_verifier": VERIFIER, "resource": RESOURCE, "code": code}
        return self.token(**{"grant_type": "authorization_code", **given, **changes})

    def refresh(self, token: str, **changes: str | None) -> httpx.Response:
        return self.token(grant_type="refresh_token", refresh_token=token, **changes)

    def revoke(self, token: str, **changes: str) -> httpx.Response:
        return self.http.post("/oauth/revoke", data={"token": token, "client_id": CLIENT_ID, **changes})

    def connect(self, person: Caller, organization_id: str, *scopes: str, query: str | None = None) -> dict[str, Any]:
        """Have a person connect the client, and return its tokens."""
        return answered(self.redeem(code_of(decide(person, organization_id, scopes, query=query))))


def decide(
    person: Caller,
    organization_id: str | None,
    scopes: Sequence[str] = (),
    *,
    query: str | None = None,
    decision: str = "approve",
    **request: Any,
) -> httpx.Response:
    """Have a person decide on the client; all requested scopes unless some are named."""
    body: dict[str, Any] = {"query": query_of() if query is None else query, "decision": decision}
    if decision == "approve":
        body |= {"organizationId": organization_id, "scopes": list(scopes or ("freeze:read", "freeze:write"))}
    return person.post(DECIDE, {name: value for name, value in body.items() if value is not None}, **request)


def code_of(decided: httpx.Response) -> str:
    """Return the code of an approval."""
    assert decided.status_code == 200, decided.text
    return answer_of(decided.json()["location"])["code"]


def tool(http: httpx.Client, token: str, name: str, **arguments: Any) -> Result:
    """Call a tool of the MCP server with a token that it accepts."""
    return McpClient(Caller(http, token)).call(name, **arguments)


def entry(http: httpx.Client, token: str) -> httpx.Response:
    """Return the response of the MCP server to a token."""
    return McpClient(Caller(http, token)).send("tools/list")
