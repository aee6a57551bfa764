"""The documentation pages, made from the contract: the reference (`/docs`) and the error codes (`/docs/errors`).

Both are plain HTML that can be read without JavaScript; the reference is then replaced by a renderer served from
this origin. They are rendered once per process.
"""

import hashlib
from functools import cache, lru_cache
from itertools import groupby

from flask import Blueprint, Response, render_template, request
from werkzeug.http import quote_etag

from rules import web_addresses
from schemas.contract import Contract, ErrorCode, Operation
from web.forms import POLICY

RENDERER = "vendor/redoc-2.5.4/redoc.standalone.js"
# The renderer writes its styles into the page, draws with data: images, and searches in a worker made from a blob.
_RENDERER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def reference_pages(contract: Contract) -> Blueprint:
    """Return the pages."""
    pages = Blueprint("reference", __name__)

    @cache
    def reference_html() -> bytes:
        """Return the page of the reference."""
        return render_template(
            "docs/reference.html",
            info=contract.document["info"],
            tags=contract.document["tags"],
            operations=contract.operations.values(),
            document=contract.document,
            renderer=RENDERER,
        ).encode()

    @cache
    def errors_html() -> bytes:
        """Return the page of the error codes."""
        return render_template(
            "docs/errors.html",
            by_status=_by_status(contract),
            cross_cutting=contract.cross_cutting,
            answered_by=_answered_by(contract),
        ).encode()

    @pages.get(web_addresses.REFERENCE)
    def reference() -> Response:
        """Show the reference."""
        return page_of(reference_html(), _RENDERER_POLICY)

    @pages.get(web_addresses.ERROR_CODES)
    def errors() -> Response:
        """Show the error codes."""
        return page_of(errors_html())

    return pages


def _by_status(contract: Contract) -> list[tuple[int, list[ErrorCode]]]:
    """Return the codes of the catalogue grouped by status, in the catalogue's order."""
    rows = sorted(contract.errors.values(), key=lambda row: row.status)
    return [(status, list(group)) for status, group in groupby(rows, key=lambda row: row.status)]


def _answered_by(contract: Contract) -> dict[str, list[Operation]]:
    """Return for each code the operations that list it."""
    return {
        code: [operation for operation in contract.operations.values() if code in operation.error_codes]
        for code in contract.errors
    }


def page_of(html: bytes, policy: str = POLICY) -> Response:
    """Return a page that is the same for everybody; nothing, to who has it already."""
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "public, no-cache",
        "ETag": _tag(html),
    }
    page = Response(html, mimetype="text/html", headers=headers)
    page.make_conditional(request)
    return page


@lru_cache(maxsize=64)
def _tag(html: bytes) -> str:
    return quote_etag(hashlib.sha256(html).hexdigest()[:32])
