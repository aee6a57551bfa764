"""Flask's pages, beside the operations, at addresses which the contract knows not (`PAGES` and `PAGES_UNDER`)."""

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, cast

from a2wsgi import WSGIMiddleware

from app.edge.connexion_adapter import Application
from schemas.contract import Contract, Realm
from services.core.unit_of_work import UnitOfWorkFactory
from services.enforcement.confirming import Authorizations

_THREADS = 12
"""More than there are connections: a thread holds none while a password is hashed, or the code host is waited for."""


def _always_open() -> None:
    """Refuse nobody."""


def mounted_pages(
    contract: Contract,
    realms: Mapping[Realm, UnitOfWorkFactory] | None = None,
    refuse: Callable[[], None] = _always_open,
) -> Application | None:
    """Return `web.pages` as an ASGI application, or None while there is none.

    With `realms` the pages for people are among them, and where their units know a code host, that of an authorisation.
    `refuse` raises while people are to come back later.
    """
    if importlib.util.find_spec("web.pages") is None:
        return None
    from web.enforcement import enforcement_pages
    from web.pages import create_pages
    from web.people import people_pages

    pages: Any = create_pages(contract)
    if realms is not None:
        pages.register_blueprint(people_pages(contract, realms["identity"], realms["organization"], refuse))
        uow_factory = realms["organization"]
        github = uow_factory.dependencies.github
        if github is not None:
            pages.register_blueprint(
                enforcement_pages(Authorizations(uow_factory, github), uow_factory.dependencies.web_url)
            )
    return cast(Application, WSGIMiddleware(pages, workers=_THREADS))
