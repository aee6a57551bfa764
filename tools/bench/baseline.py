"""The same question answered by a bare Starlette route: what the machine allows.

It runs the very statements that our edge runs for credential, limit and state, on the same kind of pool and Redis
client, and answers the rows as they are. It knows no contract: nothing is validated, and an error would be a plain 500.

Run as `gunicorn tools.bench.baseline:starlette`, with DATABASE_URL and REDIS_URL.
"""

import os

import orjson
import redis.asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.database import Reads
from app.edge.authentication import _FIND_KEY
from app.edge.rate_limits import _SCRIPT
from services.freezes.state import statements_of_branch
from services.identity.api_key_secrets import secret_hash

SQL = statements_of_branch("")[0]

reads = Reads(os.environ.get("DATABASE_URL", ""), 8)
limits = redis.asyncio.Redis.from_url(os.environ.get("REDIS_URL", "redis://"), max_connections=200)
script: dict[str, str] = {}


async def state(request: Request) -> Response:
    """Ask PostgreSQL and Redis what the edge asks them, and answer."""
    secret = request.headers["authorization"].removeprefix("Bearer ")
    [key] = await reads.fetch(_FIND_KEY, (secret_hash(secret),))
    organization = key["organization_id"]
    if "sha" not in script:
        script["sha"] = await limits.script_load(_SCRIPT)
    count, left = await limits.execute_command("EVALSHA", script["sha"], 1, f"rate:{organization}", 60_000)  # type: ignore[no-untyped-call]
    values = {"organization": organization, "now": key["now"], **request.query_params}
    body = orjson.dumps(await reads.fetch(SQL, values, organization), default=str)
    headers = {"RateLimit-Remaining": str(10**9 - count), "RateLimit-Reset": str(left // 1000)}
    return Response(body, media_type="application/json", headers=headers)


starlette = Starlette(routes=[Route("/v1/freeze-state", state)])
