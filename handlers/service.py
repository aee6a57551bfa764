"""Operations of the tag Service: the contract itself, health checks and metrics."""

import asyncio
import os

from prometheus_client import CONTENT_TYPE_LATEST

from rules.errors import ServiceError
from rules.version import VERSION
from schemas.published import published
from schemas.replies import RawReply
from services.core.lease_holder import RUNNING_KINDS
from services.core.read_context import HealthCheck, ReadContext

_CACHED = "public, max-age=300"
_CHECK_TIMEOUT_SECONDS = 1.0


async def get_openapi_json(_: ReadContext) -> RawReply:
    """Return the contract as JSON, references included."""
    document = published()
    return RawReply(
        200, {"Content-Type": "application/json", "ETag": document.tag, "Cache-Control": _CACHED}, document.json
    )


async def get_openapi_yaml(_: ReadContext) -> RawReply:
    """Return the contract as YAML, as it is written."""
    document = published()
    return RawReply(
        200, {"Content-Type": "application/yaml", "ETag": document.tag, "Cache-Control": _CACHED}, document.yaml
    )


async def get_health(_: ReadContext) -> object:
    """Report that the process is alive, and the release that it runs."""
    return {"status": "ok", "version": VERSION}


async def get_readiness(context: ReadContext) -> object:
    """Report whether requests can be served; fail without the database, only report other dependencies."""
    await context.health_checks["database"]()
    names = ("redis", "code_host", "mail")
    states = await asyncio.gather(*(_state(context.health_checks.get(name)) for name in names))
    running = {row["kind"]: "ok" if row["runs"] else "unavailable" for row in await context.fetch(RUNNING_KINDS)}
    processes = {kind: running.get(kind, "unknown") for kind in ("worker", "sweeper")}
    return {"status": "ready", "checks": {"database": "ok", **dict(zip(names, states, strict=True)), **processes}}


async def _state(check: HealthCheck | None) -> str:
    if check is None:
        return "unknown"
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            await check()
    except Exception:  # noqa: BLE001 - any error means that it is unavailable
        return "unavailable"
    return "ok"


async def get_metrics(context: ReadContext) -> RawReply:
    """Return the metrics of all worker processes of this machine, unless an address of its own serves them."""
    if os.environ.get("METRICS_BIND"):
        raise ServiceError("not_found", "Metrics are not served here.")
    return RawReply(200, {"Content-Type": CONTENT_TYPE_LATEST}, context.render_metrics())
