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
from tools.bench.servers import Storage, storage, web
from tools.mcp_requests import ERAS, VERSIONS, request_of

CALL = {"name": "svc_get_freeze_state", "arguments": {"repo": "acme/web", "branch": "main"}}


def token_of_client(stores: Storage) -> str:
    """Return the access token of a connected client."""
    with stores.rows() as session:
        organization = session.query(Organization).one()
        grant = factories.connection(session, factories.member(session, organization), organization)
        return issue_grant_token(factories.signer(session), grant, grant.scopes, now=factories.now())


def main() -> None:
    """Measure and print."""
    with storage() as stores, web(stores.environment) as server:
        asked = {"HTTP": Asked(server, PATH, [f"Authorization: Bearer {seed(stores)}"])}
        token = token_of_client(stores)
        for era in ERAS:
            headers, body = request_of("tools/call", CALL, era)
            lines = [f"{name}: {value}" for name, value in headers.items()]
            asked[era] = Asked(server, web_addresses.MCP, [f"Authorization: Bearer {token}", *lines], body.decode())
        found = in_turns(asked, connections=1)
    http = found["HTTP"]
    print("MCP (one connection)")
    print(f"  GET /v1/freeze-state {http}")
    for era in ERAS:
        cost = found[era]
        print(f"  its tool, {era} ({VERSIONS[era]}) {cost}, {cost.cpu / http.cpu:.1f} times its CPU (aim 3)")
