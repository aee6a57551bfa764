"""The pages beside the interface: the reference (`/docs`) and the error codes (`/docs/errors`), made from the contract.

Both are plain HTML that can be read without JavaScript; the reference is then replaced by a renderer served from
this origin. A page that does not exist is refused like everything else, by a `ServiceError`, which whoever mounts the
pages turns into the envelope.
"""

from itertools import groupby
from typing import NoReturn

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from app.edge.errors import MethodNotAllowedError
from rules.errors import ServiceError
from schemas.contract import Contract

RENDERER = "vendor/redoc-2.5.4/redoc.standalone.js"
_A_YEAR = 31_536_000
_A_WHILE = 300
_NOTHING_ELSE = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PLAIN = f"default-src 'none'; style-src 'self'; {_NOTHING_ELSE}"
# The renderer writes its styles into the page, draws with data: images, and searches in a worker made from a blob.
_RENDERED = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    f"connect-src 'self'; worker-src blob:; {_NOTHING_ELSE}"
)


class _Pages(Flask):
    def get_send_file_max_age(self, filename: str | None) -> int:
        """Return for how many seconds a file may be kept: long where a new version has a new address."""
        return _A_YEAR if (filename or "").startswith("vendor/") else _A_WHILE


def create_pages(contract: Contract) -> Flask:
    """Return the pages as a WSGI application, to be mounted at `/docs` and `/static` with their paths unchanged."""
    pages = _Pages(__name__)
    pages.config.update(PROPAGATE_EXCEPTIONS=True, PROVIDE_AUTOMATIC_OPTIONS=False)
    pages.jinja_env.trim_blocks = pages.jinja_env.lstrip_blocks = True
    pages.register_error_handler(HTTPException, _refuse)

    @pages.get("/docs")
    def reference() -> Response:
        return _page(
            render_template(
                "reference.html",
                info=contract.document["info"],
                tags=contract.document["tags"],
                operations=contract.operations.values(),
                document=contract.document,
                renderer=RENDERER,
            ),
            _RENDERED,
        )

    @pages.get("/docs/errors")
    def errors() -> Response:
        return _page(
            render_template(
                "errors.html",
                by_status=_by_status(contract),
                cross_cutting=contract.cross_cutting,
                answered_by=_answered_by(contract),
            ),
            _PLAIN,
        )

    return pages


def _by_status(contract: Contract) -> list[tuple[int, list[object]]]:
    """Return the codes of the catalogue grouped by status, in the catalogue's order."""
    rows = sorted(contract.errors.values(), key=lambda row: row.status)
    return [(status, list(group)) for status, group in groupby(rows, key=lambda row: row.status)]


def _answered_by(contract: Contract) -> dict[str, list[object]]:
    """Return for each code the operations that list it."""
    return {
        code: [operation for operation in contract.operations.values() if code in operation.error_codes]
        for code in contract.errors
    }


def _page(html: str, policy: str) -> Response:
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Response(html, mimetype="text/html", headers=headers)


def _refuse(error: HTTPException) -> NoReturn:
    """Hand Flask's own refusals on as ours."""
    if isinstance(error, MethodNotAllowed):
        raise MethodNotAllowedError(request.method, ", ".join(sorted(error.valid_methods or ()))) from None
    if isinstance(error, NotFound):
        raise ServiceError("not_found", "There is nothing at this address.") from None
    raise ServiceError("invalid_parameter", error.description or error.name) from None
