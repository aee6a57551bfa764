"""`/zones`: the time zones that forms suggest, which a field reads when it gets the focus."""

from functools import cache

from flask import Blueprint, Response, render_template

from rules import web_addresses
from rules.time.zones import zone_names
from web.reference import page_of


def zone_pages() -> Blueprint:
    """Return the page."""
    pages = Blueprint("zones", __name__)

    @cache
    def zones_html() -> bytes:
        return render_template("dashboard/suggestions.html", suggested=_suggested()).encode()

    @pages.get(web_addresses.ZONES)
    def zones() -> Response:
        """Show the zones."""
        return page_of(zones_html())

    return pages


def _suggested() -> list[str]:
    """Return the zones of a region, by name. Any other of the IANA database can be typed."""
    return sorted(zone for zone in zone_names() if "/" in zone and not zone.startswith(("Etc/", "US/")))
