"""The guide in the product: `docs/guide` at `/docs/guide`, rendered once per process.

Links between its files become links between its pages; what a file says of other files of the source is text.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flask import Blueprint, Response, render_template
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rules import web_addresses
from rules.errors import ServiceError
from web.dashboard.addresses import address_of
from web.reference import page_of

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "guide"
CHAPTERS = (
    "dashboard", "freezes", "schedules", "exceptions", "enforcement", "audit", "overview", "people-and-keys",
    "notifications", "slack", "webhooks", "automation", "cli-sign-in", "clients", "mcp", "connections", "plans",
    "compat",
)  # fmt: skip
"""Names of the files, in the order of the contents."""
_FILE = re.compile(r"(?P<name>[\w-]+)\.md(?P<anchor>#[\w-]+)?")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


class Chapter(NamedTuple):
    """One file of the guide."""

    name: str
    title: str
    html: str


def guide_pages() -> Blueprint:
    """Return the pages."""
    pages = Blueprint("guide", __name__)

    @cache
    def rendered(name: str) -> bytes:
        """Return the page of a chapter, or of the contents."""
        chapters = _chapters()
        shown = chapters.get(name)
        return render_template("docs/guide.html", chapters=chapters.values(), chapter=shown).encode()

    @pages.get(web_addresses.GUIDE)
    def contents() -> Response:
        """Show the contents."""
        return page_of(rendered(""))

    @pages.get(web_addresses.GUIDE_CHAPTER.replace("{id}", "<name>"))
    def chapter(name: str) -> Response:
        """Show a chapter."""
        if name not in CHAPTERS:
            raise ServiceError("not_found", "There is nothing at this address.")
        return page_of(rendered(name))

    return pages


@cache
def _chapters() -> dict[str, Chapter]:
    """Return the chapters by their names."""
    return {name: _render(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8")) for name in CHAPTERS}


def _render(name: str, text: str) -> Chapter:
    """Return a file as HTML: its headings have the anchors that GitHub gives them, and it has no HTML of its own."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    title = name
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            words = _words(tokens[position + 1])
            token.attrSet("id", _NOT_IN_ANCHORS.sub("", words.lower()).replace(" ", "-"))
            if token.tag == "h1":
                title = words
        elif token.type in {"fence", "table_open"}:  # may be wider than the window, and is scrolled by keyboard too
            token.attrSet("tabindex", "0")
        elif token.children:
            token.children = _linked(token.children)
    return Chapter(name, title, str(markdown.renderer.render(tokens, markdown.options, {})))


def _linked(tokens: Sequence[Token]) -> list[Token]:
    """Return the parts of a text, with links that lead somewhere from here; of other links the text alone."""
    kept: list[Token] = []
    dropped = False
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href") or ""))
            dropped = not address
            token.attrSet("href", address)
        if token.type in {"link_open", "link_close"} and dropped:
            dropped = token.type != "link_close"
            continue
        kept.append(token)
    return kept


def _address(target: str) -> str:
    """Return where a link of the guide leads to; empty if there is no such page here."""
    if target.startswith(("https://", "#")):
        return target
    found = _FILE.fullmatch(target)
    if found is None or found["name"] not in CHAPTERS:
        return ""
    return address_of(web_addresses.GUIDE_CHAPTER, found["name"]) + (found["anchor"] or "")


def _words(inline: Token) -> str:
    """Return the text of a heading."""
    return "".join(each.content for each in inline.children or ())
