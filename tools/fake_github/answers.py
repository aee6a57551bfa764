"""Answers of the API and how they are paged."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlencode

from tools.fake_github.model.refusals import Refusal
from tools.simulation.answers import Answer
from tools.simulation.faults import Fault

Item = TypeVar("Item")
PER_PAGE = 30
MAX_PER_PAGE = 100
FAULT_MESSAGES = {
    401: "Bad credentials",
    403: "Resource not accessible by integration",
    404: "Not Found",
}


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


def fault_answer(fault: Fault) -> Answer:
    """Return the answer that a fault gives."""
    status = 401 if fault.kind == "revoked" else fault.status
    message = fault.message or FAULT_MESSAGES.get(status, "Server Error")
    body = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Answer(status, body, dict(fault.headers))


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def page_size(query: dict[str, str]) -> int:
    """Return how many items of a list a page has."""
    return max(1, min(_number(query, "per_page", PER_PAGE), MAX_PER_PAGE))


def paged(
    url: str,
    query: dict[str, str],
    items: Iterable[Item],
    shape: Callable[[Item], Any],
    envelope: Callable[[int, list[Any]], Any] | None = None,
) -> Answer:
    """Answer one page of a list, with the `Link` header; `envelope` wraps total and page into an object."""
    everything = list(items)
    size = page_size(query)
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
