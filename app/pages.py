"""Flask's pages, beside the operations: what the contract does not know, under `/docs` and `/static`."""

import importlib.util
from typing import Any, cast

from a2wsgi import WSGIMiddleware

from app.connexion_adapter import Application
from schemas.contract import Contract

_THREADS = 4


def mounted_pages(contract: Contract) -> Application | None:
    """Return `web.pages` as an ASGI application, or None while there is none."""
    if importlib.util.find_spec("web.pages") is None:
        return None
    from web.pages import create_pages

    pages: Any = create_pages(contract)
    return cast(Application, WSGIMiddleware(pages, workers=_THREADS))
