"""The API whose readiness warns and fails: `gunicorn tests.app.failing_api:product`."""

import warnings

import app.main
from handlers import service
from services.core.read_context import ReadContext


async def get_readiness(context: ReadContext) -> object:
    """Warn, and fail."""
    warnings.warn("a warning\nof two lines", UserWarning, stacklevel=1)
    raise RuntimeError(f"a failure at {context.now}")


service.get_readiness = get_readiness
product = app.main.app
