"""The same question answered by a bare Starlette route: what the machine allows.

It runs the very statements that our edge runs for credential, limit and state, on the same kind of pool and Redis
client, and answers byte-equal bodies. It knows no contract: nothing is validated, and an error would be a plain 500.

Run as `gunicorn tools.bench.baseline:starlette`, with DATABASE_URL and REDIS_URL.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import redis.asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.database import Reads
from app.edge.authentication import _FIND_KEY
from app.edge.rate_limits import _SCRIPT
from services.freezes.state import _is_enforced, statements_of_branch
from services.identity.api_key_secrets import secret_hash

SQL = statements_of_branch("")[0]

reads = Reads(os.environ.get("DATABASE_URL", ""), 8)
limits = redis.asyncio.Redis.from_url(os.environ.get("REDIS_URL", "redis://"), max_connections=200)
script: dict[str, str] = {}


async def answer(authorization: str, repo: str, branch: str) -> tuple[bytes, dict[str, str]]:
    """Ask PostgreSQL and Redis what the edge asks them, and write the body that it writes."""
    [key] = await reads.fetch(_FIND_KEY, (secret_hash(authorization.removeprefix("Bearer ")),))
    organization = key["organization_id"]
    if "sha" not in script:
        script["sha"] = await limits.script_load(_SCRIPT)
    count, left = await limits.execute_command("EVALSHA", script["sha"], 1, f"rate:{organization}", 60_000)  # type: ignore[no-untyped-call]
    rows = await reads.fetch(
        SQL, {"organization": organization, "repo": repo, "branch": branch, "now": key["now"]}, organization
    )
    headers = {"RateLimit-Remaining": str(10**9 - count), "RateLimit-Reset": str(left // 1000)}
    return orjson.dumps(_body(rows)), headers


def _body(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    found = [row for row in rows if row["id"] is not None]
    ends = [row["ends_at"] for row in found if row["ends_at"]]
    return {
        "frozen": bool(found),
        "enforced": _is_enforced({row["facts"] for row in found}),
        "coverage": "all" if found else "none",
        "frozenBranchCount": int(bool(found)),
        "watchedBranchCount": 1,
        "subject": {
            "type": "branch",
            "id": first["branch_id"],
            "name": f"{first['repository']}:{first['branch']}",
        },
        "freezes": [
            {
                "id": row["id"],
                "reason": row["reason"],
                "startedAt": _instant(row["started_at"]),
                "endsAt": _instant(row["ends_at"]),
                "exceptionsAllowed": row["exceptions_allowed"],
            }
            for row in found
        ],
        "freezesTruncated": False,
        "branches": [],
        "branchesTruncated": False,
        "frozenUntil": _instant(max(ends, default=None)) if len(ends) == len(found) else None,
        "nextChangeAt": _instant(min(ends, default=None)),
    }


def _instant(value: Any) -> str | None:
    if value is None:
        return None
    return str(value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")[:-6] + "Z")


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Close the connections at the end."""
    yield
    await reads.close()


async def state(request: Request) -> Response:
    """Answer."""
    query = request.query_params
    body, headers = await answer(request.headers["authorization"], query["repo"], query["branch"])
    return Response(body, media_type="application/json", headers=headers)


starlette = Starlette(routes=[Route("/v1/freeze-state", state)], lifespan=lifespan)
