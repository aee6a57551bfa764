"""Flask's pages, beside the operations: under `/docs`, `/static` and `/enforcement`, which the contract knows not."""

import importlib.util
from collections.abc import Mapping
from typing import Any, cast

from a2wsgi import WSGIMiddleware

from app.connexion_adapter import Application
from schemas.contract import Contract, Realm
from services.enforcement.confirming import Authorizations
from services.unit import Units

_THREADS = 4


def mounted_pages(contract: Contract, realms: Mapping[Realm, Units] | None = None) -> Application | None:
    """Return `web.pages` as an ASGI application, or None while there is none.

    With `realms` whose units know a code host, the page of an authorisation is among them.
    """
    if importlib.util.find_spec("web.pages") is None:
        return None
    from web.enforcement import enforcement_pages
    from web.pages import create_pages

    pages: Any = create_pages(contract)
    units = realms["organization"] if realms else None
    github = units.surroundings.github if units else None
    if units is not None and github is not None:
        pages.register_blueprint(enforcement_pages(Authorizations(units, github), units.surroundings.web_url))
    return cast(Application, WSGIMiddleware(pages, workers=_THREADS))
