"""The Flask application of the pages: its files, its templates, and what becomes of errors outside any page."""

from typing import Any, NoReturn

from flask import Flask, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import Map

from rules import web_addresses
from rules.access.permissions import shown_actor
from rules.billing.prices import format_amount
from rules.errors import MethodNotAllowedError, ServiceError
from rules.freezes.scope_words import describe_scope
from schemas.contract import Contract
from web.dashboard.addresses import address_of
from web.dashboard.blocking import FILTERS
from web.guide import guide_pages
from web.instants import format_distance, format_instant, format_local
from web.reader_zone import format_for_reader, reader_zone
from web.reference import reference_pages
from web.zones import zone_pages

HTMX = "vendor/htmx-4.0.1/htmx.min.js"
_YEAR = 31_536_000
_FIVE_MINUTES = 300


class _Addresses(Map):
    """The addresses of the pages. A doubled slash is another address: Flask would redirect to the `Host` header.

    An argument of the map, because Flask adds the rule of its static files before the map can be changed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "merge_slashes": False})


class _Pages(Flask):
    url_map_class = _Addresses

    def get_send_file_max_age(self, filename: str | None) -> int:
        """Return for how many seconds a file may be cached: long where a new version has a new address."""
        return _YEAR if (filename or "").startswith("vendor/") else _FIVE_MINUTES


def create_pages(contract: Contract) -> Flask:
    """Return the Flask application with the documentation pages, to which the other pages are added.

    An error outside any page, such as an unknown address, is raised as a ServiceError.
    """
    pages = _Pages("web", root_path=__file__.rpartition("/")[0])
    pages.config.update(PROPAGATE_EXCEPTIONS=True, PROVIDE_AUTOMATIC_OPTIONS=False)
    pages.jinja_env.trim_blocks = pages.jinja_env.lstrip_blocks = True
    pages.jinja_env.globals.update(addresses=web_addresses, htmx=HTMX, reader_zone=reader_zone)
    pages.jinja_env.filters.update(
        instant=format_for_reader,
        instant_utc=format_instant,
        local=format_local,
        distance=format_distance,
        amount=format_amount,
        of=address_of,
        actor=shown_actor,
    )
    pages.jinja_env.filters.update(FILTERS, scope_words=describe_scope)
    pages.register_error_handler(HTTPException, _raise_as_service_error)
    pages.register_blueprint(reference_pages(contract))
    pages.register_blueprint(guide_pages())
    pages.register_blueprint(zone_pages())
    return pages


def _raise_as_service_error(error: HTTPException) -> NoReturn:
    if isinstance(error, MethodNotAllowed):
        raise MethodNotAllowedError(request.method, ", ".join(sorted(error.valid_methods or ()))) from None
    if isinstance(error, NotFound):
        raise ServiceError("not_found", "There is nothing at this address.") from None
    raise ServiceError("invalid_parameter", error.description or error.name) from None
