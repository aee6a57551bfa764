"""Routing on the raw path: split first, decode each segment after, so that `acme%2Fweb` is one segment.

A trie over segments answers in the length of the path, however many routes there are. A concrete segment goes
before a parameter, as OpenAPI asks.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("children", "methods", "parameter")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.methods: dict[str, tuple[T, Sequence[str]]] = {}


class Found(Generic[T]):
    """What a path leads to: the target of each method with its parameters' names, and their values."""

    __slots__ = ("methods", "values")

    def __init__(self, methods: Mapping[str, tuple[T, Sequence[str]]], values: Sequence[str]) -> None:
        self.methods = methods
        self.values = values

    def allow(self) -> str:
        """Return every method of the path, for the `Allow` header."""
        names = {*self.methods, *(("HEAD",) if "GET" in self.methods else ())}
        return ", ".join(sorted(names))

    def target(self, method: str) -> tuple[T, Sequence[str]] | None:
        """Return what serves `method`; a HEAD is served by the GET."""
        return self.methods.get(method) or (self.methods.get("GET") if method == "HEAD" else None)


class Router(Generic[T]):
    """Leads raw paths to targets."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._concrete: dict[bytes, Found[T]] = {}

    def add(self, path: str, method: str, target: T) -> None:
        """Add a route: `path` as the contract writes it, `/v1/freezes/{freezeId}`."""
        node, names = self._root, []
        for segment in path.split("/")[1:]:
            if segment.startswith("{") and segment.endswith("}"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            elif "{" in segment:
                raise ValueError(f"{path}: a parameter must be a whole segment")
            else:
                node = node.children.setdefault(segment, _Node())
        if method in node.methods:
            raise ValueError(f"{method} {path} is given twice")
        node.methods[method] = (target, tuple(names))
        if not names:
            self._concrete[path.encode()] = Found(node.methods, ())

    def find(self, raw_path: bytes) -> Found[T] | None:
        """Return what the path leads to, or None; a segment that is no UTF-8 text leads nowhere."""
        found = self._concrete.get(raw_path)
        if found is not None:
            return found
        segments = _decoded(raw_path)
        if segments is None:
            return None
        values: list[str] = []
        node = _straight(self._root, segments, values)
        if node is None or not node.methods:
            values = []
            node = _descend(self._root, segments, 0, values)
        return Found(node.methods, values) if node else None


def _decoded(raw_path: bytes) -> list[str] | None:
    try:
        if b"%" not in raw_path:
            return raw_path.decode().split("/")[1:]
        segments = [unquote_to_bytes(segment).decode() for segment in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        return None
    return None if any("\0" in segment for segment in segments) else segments


def _straight(node: _Node[T], segments: Sequence[str], values: list[str]) -> _Node[T] | None:
    """Take the concrete segment wherever there is one: right for nearly every path, and half the price."""
    for segment in segments:
        child = node.children.get(segment)
        if child is None:
            if node.parameter is None or not segment:
                return None
            values.append(segment)
            child = node.parameter
        node = child
    return node


def _descend(node: _Node[T], segments: Sequence[str], depth: int, values: list[str]) -> _Node[T] | None:
    """Go back to a parameter where the concrete segment leads nowhere."""
    if depth == len(segments):
        return node if node.methods else None
    segment = segments[depth]
    child = node.children.get(segment)
    if child is not None and (found := _descend(child, segments, depth + 1, values)):
        return found
    if node.parameter is None or not segment:
        return None
    values.append(segment)
    found = _descend(node.parameter, segments, depth + 1, values)
    if found is None:
        values.pop()
    return found
