"""The page of an error that no page of ours answers, such as an unknown address: for browsers, in place of JSON."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from rules import web_addresses
from web.forms import HEADERS
from web.problems import error_title
from web.reader_zone import reader_zone

_API = (
    "/v1/", "/api/", "/oauth/token", "/oauth/revoke", "/webhooks/", "/.well-known/", "/calendars/", web_addresses.MCP
)  # fmt: skip
"""Beginnings of the addresses that programs call: their errors are JSON for everyone."""
_NO_PAGE = "There is no page at this address."


def find_error_page(
    path: str, accept: str, status: int, message: str, request_id: str
) -> tuple[dict[str, str], str] | None:
    """Return the headers and the HTML of a page about an error; None if it accepts no HTML, or is a program's."""
    if "text/html" not in accept or path.startswith(_API):
        return None
    shown = _NO_PAGE if status == 404 else message
    values = {"title": error_title(status), "message": shown, "request_id": request_id if status >= 500 else ""}
    html = _templates().get_template("error.html").render(values)
    return {"content-type": "text/html; charset=utf-8", "referrer-policy": "no-referrer", **HEADERS}, html


@cache
def _templates() -> Environment:
    """Return the templates, outside of any request of a page."""
    loader = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(addresses=web_addresses, url_for=_address_of_file, reader_zone=reader_zone)
    return environment


def _address_of_file(_endpoint: str, filename: str) -> str:
    return f"/static/{filename}"
