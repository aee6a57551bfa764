"""Routing on the raw path: split first, then decode each segment, so that `acme%2Fweb` is one segment.

A trie over segments finds a route in time proportional to the length of the path. A concrete segment takes precedence
over a parameter, as OpenAPI requires. The last parameter of a route may take the rest of the path, slashes included.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes

T = TypeVar("T")

_MAX_ENCODED_PATH_LENGTH = 16_384
"""Of a path with percent-encoding, which is decoded on the event loop; the longest valid one has a fifth of it."""
_MAX_DEEP_PATH_LENGTH = 4096
"""Of a path with more segments than its route: enough for the longest branch name, encoded."""


class _Node(Generic[T]):
    __slots__ = ("children", "methods", "parameter", "takes_rest")

    def __init__(self) -> None:
        self.takes_rest = False
        self.children: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.methods: dict[str, tuple[T, Sequence[str]]] = {}


class Match(Generic[T]):
    """The route of a path: the target of each method with the names of its parameters, and their values."""

    __slots__ = ("methods", "values")

    def __init__(self, methods: Mapping[str, tuple[T, Sequence[str]]], values: Sequence[str]) -> None:
        self.methods = methods
        self.values = values

    def allow(self) -> str:
        """Return the methods of the path, for the `Allow` header."""
        names = {*self.methods, *(("HEAD",) if "GET" in self.methods else ())}
        return ", ".join(sorted(names))

    def target(self, method: str) -> tuple[T, Sequence[str]] | None:
        """Return the target of `method`, or None; HEAD is served by GET."""
        return self.methods.get(method) or (self.methods.get("GET") if method == "HEAD" else None)


class Router(Generic[T]):
    """Maps raw paths to targets."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._concrete: dict[bytes, Match[T]] = {}
        self._depth = 0
        """The number of segments of the longest route."""
        self._deep: tuple[bytes, ...] = ()
        """What the paths of routes begin with that take the rest of the path."""

    def add(self, path: str, method: str, target: T, *, takes_rest: bool = False) -> None:
        """Add a route, with the path as in the contract: `/v1/freezes/{freezeId}`.

        With `takes_rest`, its last parameter takes the rest of the path, without slashes at its end.
        """
        node, names = self._root, []
        self._depth = max(self._depth, path.count("/"))
        for segment in path.split("/")[1:]:
            if segment.startswith("{") and segment.endswith("}"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            elif "{" in segment:
                raise ValueError(f"{path}: a parameter must be a whole segment")
            else:
                node = node.children.setdefault(segment, _Node())
        if takes_rest:
            node.takes_rest = True
            self._deep = (*self._deep, path.partition("{")[0].encode())
        if method in node.methods:
            raise ValueError(f"{method} {path} is defined twice")
        node.methods[method] = (target, tuple(names))
        if not names:
            self._concrete[path.encode()] = Match(node.methods, ())

    def is_too_deep(self, raw_path: bytes) -> bool:
        """True if a path has more segments than any route, so that it need not be read."""
        return raw_path.count(b"/") > self._depth and not (
            raw_path.startswith(self._deep) and len(raw_path) <= _MAX_DEEP_PATH_LENGTH
        )

    def find(self, raw_path: bytes) -> Match[T] | None:
        """Return the match of the path, or None; a path that is not UTF-8, or very long and encoded, has none."""
        found = self._concrete.get(raw_path)
        if found is not None:
            return found
        if self.is_too_deep(raw_path):
            return None
        segments = _decoded(raw_path)
        if segments is None:
            return None
        values: list[str] = []
        node = _find_greedy(self._root, segments, values)
        if node is None or not node.methods:
            values = []
            node = _find_with_backtracking(self._root, segments, 0, values)
        return Match(node.methods, values) if node else None


def _decoded(raw_path: bytes) -> list[str] | None:
    try:
        if b"%" not in raw_path:
            return raw_path.decode().split("/")[1:]
        if len(raw_path) > _MAX_ENCODED_PATH_LENGTH:
            return None
        segments = [unquote_to_bytes(segment).decode() for segment in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        return None
    return None if any("\0" in segment for segment in segments) else segments


def _find_greedy(node: _Node[T], segments: Sequence[str], values: list[str]) -> _Node[T] | None:
    """Prefer the concrete segment at every step: right for nearly every path, at half the cost."""
    for depth, segment in enumerate(segments):
        child = node.children.get(segment)
        if child is None:
            child = node.parameter
            if child is None or not segment:
                return None
            if child.takes_rest:
                values.append(_rest(segments, depth))
                return child
            values.append(segment)
        node = child
    return node


def _rest(segments: Sequence[str], depth: int) -> str:
    rest = "/".join(segments[depth:])
    return rest.rstrip("/") or rest


def _find_with_backtracking(node: _Node[T], segments: Sequence[str], depth: int, values: list[str]) -> _Node[T] | None:
    """Try the parameter where the concrete segment leads to no route."""
    if depth == len(segments):
        return node if node.methods else None
    segment = segments[depth]
    child = node.children.get(segment)
    if child is not None and (found := _find_with_backtracking(child, segments, depth + 1, values)):
        return found
    if node.parameter is None or not segment:
        return None
    if node.parameter.takes_rest:
        values.append(_rest(segments, depth))
        return node.parameter
    values.append(segment)
    found = _find_with_backtracking(node.parameter, segments, depth + 1, values)
    if found is None:
        values.pop()
    return found
