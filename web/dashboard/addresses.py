"""Addresses of pages that are about one thing."""

from urllib.parse import quote


def address_of(page: str, item_id: str) -> str:
    """Return the address of the page about one thing; `page` has `{id}` in its place."""
    return page.replace("{id}", quote(item_id, safe=""))
