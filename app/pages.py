"""Flask's pages, beside the operations: what the contract does not know, under `/docs` and `/static`."""

import importlib.util
from typing import Any

from a2wsgi import WSGIMiddleware

from app.connexion_adapter import Application
from schemas.contract import Contract

_THREADS = 4


def mounted_pages(contract: Contract) -> Application | None:
    """Return `web.pages` as an ASGI application, or None while there is none."""
    if importlib.util.find_spec("web.pages") is None:
        return None
    from web.pages import create_pages

    application: Any = WSGIMiddleware(create_pages(contract), workers=_THREADS)
    return application  # type: ignore[no-any-return]
