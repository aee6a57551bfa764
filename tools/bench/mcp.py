"""What a tool call of a connected client costs beside the same operation over HTTP.

`GET /v1/freeze-state` and the tool that calls it, both from memory, in turns, in both eras of the protocol. Aim: a tool
call takes at most 3 times the CPU.
"""

from models.organizations import Organization
from rules import web_addresses
from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories
from tools.bench.freeze_state import PATH, seed
from tools.bench.load import Asked, in_turns
from tools.bench.servers import Storage, WebServer, machine, storage, web
from tools.mcp_requests import ERAS, VERSIONS, Era, request_of

CALL = {"name": "svc_get_freeze_state", "arguments": {"repo": "acme/web", "branch": "main"}}


def token_of_client(stores: Storage) -> str:
    """Return the access token of a connected client."""
    with stores.rows() as session:
        organization = session.query(Organization).one()
        member = factories.user(session)
        factories.membership(session, organization, member)
        grant = factories.connection(session, member, organization)
        return issue_grant_token(factories.signer(session), grant, grant.scopes, now=factories.now())


def tool_call(server: WebServer, token: str, era: Era) -> Asked:
    """Return the call of the tool."""
    headers, body = request_of("tools/call", CALL, era)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return Asked(server, web_addresses.MCP, [f"Authorization: Bearer {token}", *lines], body)


def main() -> None:
    """Measure and print."""
    with storage() as stores:
        key, token = seed(stores), token_of_client(stores)
        with web("app.main:app", stores.environment, PATH) as server:
            asked = {"HTTP": Asked(server, PATH, [f"Authorization: Bearer {key}"])}
            asked |= {era: tool_call(server, token, era) for era in ERAS}
            found = in_turns(asked, connections=1)
    http = found["HTTP"]
    print(f"MCP ({machine()}; one connection)")
    print(f"  GET /v1/freeze-state {http.cpu:6.0f} µs of CPU   statuses {http.statuses}")
    for era in ERAS:
        cost = found[era]
        print(
            f"  its tool, {era} ({VERSIONS[era]}) {cost.cpu:6.0f} µs, {cost.cpu / http.cpu:.1f} times (aim 3)   "
            f"statuses {cost.statuses}"
        )
