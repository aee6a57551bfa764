"""Answers of the API and how they are paged."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import orjson

from tools.fake_github.model.refusals import Refusal

Item = TypeVar("Item")
PER_PAGE = 30
MAX_PER_PAGE = 100


@dataclass(slots=True)
class Answer:
    """A status, a JSON body (None sends none) and headers."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the body's bytes."""
        return b"" if self.body is None else orjson.dumps(self.body)


def refusal_answer(refusal: Refusal) -> Answer:
    """Write a refusal as the API does."""
    body: dict[str, Any] = {
        "message": refusal.message,
        "documentation_url": refusal.documentation,
        "status": str(refusal.status),
    }
    if refusal.errors is not None:
        body["errors"] = refusal.errors
    return Answer(refusal.status, body, dict(refusal.headers))


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def paged(
    url: str,
    query: dict[str, str],
    items: Iterable[Item],
    shape: Callable[[Item], Any],
    envelope: Callable[[int, list[Any]], Any] | None = None,
) -> Answer:
    """Answer one page of a list, with the `Link` header; `envelope` wraps total and page into an object."""
    everything = list(items)
    size = max(1, min(_number(query, "per_page", PER_PAGE), MAX_PER_PAGE))
    page = max(1, _number(query, "page", 1))
    last = max(1, -(-len(everything) // size))
    shown = [shape(item) for item in everything[(page - 1) * size : page * size]]
    links = []
    places = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    for relation, place in places.items():
        forward = relation in {"next", "last"}
        if (forward and page < last) or (not forward and page > 1):
            links.append(f'<{url}?{urlencode({**query, "page": place})}>; rel="{relation}"')
    headers = {"Link": ", ".join(links)} if links else {}
    return Answer(200, envelope(len(everything), shown) if envelope else shown, headers)
