"""Finds the parts of a schema that apply to a value: the chosen branch, the property, its order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.contract import Node, resolve
from schemas.dialect import branches_by_tag

Path = Sequence[str | int]


def parts(document: Mapping[str, Any], node: Node, value: Any) -> Iterator[Node]:
    """Yield the schemas that together describe `value`: the node, its `allOf`, and its possible branches."""
    node = resolve(document, node)
    yield node
    for part in node.get("allOf", ()):
        yield from parts(document, part, value)
    for branch in _branches(document, node, value):
        yield from parts(document, branch, value)


def _branches(document: Mapping[str, Any], node: Node, value: Any) -> Sequence[Node]:
    if "discriminator" not in node:
        return (*node.get("oneOf", ()), *node.get("anyOf", ()))
    tag = node["discriminator"]["propertyName"]
    chosen = value.get(tag) if isinstance(value, dict) else None
    found = branches_by_tag(document, node)
    if isinstance(chosen, str) and chosen in found:
        return (found[chosen],)
    return node.get("oneOf", ())  # type: ignore[no-any-return]


def properties(document: Mapping[str, Any], node: Node, value: Any) -> dict[str, Node]:
    """Return the properties that `value` can have, in the order of the contract."""
    found: dict[str, Node] = {}
    for part in parts(document, node, value):
        for name, schema in part.get("properties", {}).items():
            found.setdefault(name, schema)
    return found


def required(document: Mapping[str, Any], node: Node, value: Any) -> set[str]:
    """Return the names that `value` must have."""
    return {name for part in parts(document, node, value) for name in part.get("required", ())}


def additional_properties(document: Mapping[str, Any], node: Node, value: Any) -> Node:
    """Return the schema of the properties whose names `value` chooses; empty if the contract has none."""
    found = (part.get("additionalProperties") for part in parts(document, node, value))
    return next((schema for schema in found if isinstance(schema, dict)), {})


def child(document: Mapping[str, Any], node: Node, value: Any, key: str | int) -> Node:
    """Return the schema of one member of `value`; empty if the contract has none."""
    if isinstance(key, str):
        found = properties(document, node, value).get(key)
        return additional_properties(document, node, value) if found is None else found
    return next((part["items"] for part in parts(document, node, value) if "items" in part), {})


def own_code(document: Mapping[str, Any], node: Node, value: Any, path: Path, keyword: str) -> str | None:
    """Return the `x-error-code` of the property at `path`, or of its nearest ancestor that has one.

    It is one code, or a code for each of some keywords of the schema; `keyword` is the one that the value violates.
    """
    code: Any = None
    for key in path:
        node = child(document, node, value, key)
        value = member(value, key)
        found = node.get("x-error-code") or resolve(document, node).get("x-error-code")
        code = found or code
    return code.get(keyword) if isinstance(code, dict) else code


def order(document: Mapping[str, Any], node: Node, value: Any, path: Path) -> tuple[int, ...]:
    """Return the position of `path` in the contract's order of properties; unknown ones come last."""
    ranks: list[int] = []
    for key in path:
        if isinstance(key, str):
            names = list(properties(document, node, value))
            ranks.append(names.index(key) if key in names else len(names) + 1)
        else:
            ranks.append(key)
        node = child(document, node, value, key)
        value = member(value, key)
    return tuple(ranks)


def member(value: Any, key: str | int) -> Any:
    """Return `value[key]`, or None if there is none."""
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return None


def pointer(path: Path) -> str:
    """Return the JSON Pointer of `path` (RFC 6901)."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)
