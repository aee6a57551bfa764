"""The API whose readiness warns and fails (`gunicorn tests.app.failing_api:product`), and one that cannot begin."""

import warnings
from typing import Any

import app.main
from handlers import service
from services.core.read_context import ReadContext


async def get_readiness(context: ReadContext) -> object:
    """Warn, and fail."""
    warnings.warn("a warning\nof two lines", UserWarning, stacklevel=1)
    raise RuntimeError(f"a failure at {context.now}")


service.get_readiness = get_readiness
product = app.main.app


async def without_lifespan(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Refuse to begin."""
    await receive()
    await send({"type": "lifespan.startup.failed", "message": f"no {scope['type']}"})
