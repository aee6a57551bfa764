"""The skeleton of an operation in the contract: what method, path and the operations beside it say about it."""

import re
from collections.abc import Mapping
from typing import Any

from tools.contract import Document, write
from tools.contract.derivation import path_parameters, template_names
from tools.contract.document import Operation
from tools.contract.sources import file_of_tag
from tools.scaffold.files import ScaffoldError

_METHODS = ("get", "put", "post", "patch", "delete")
_PATH = re.compile(r"(/([a-z0-9.-]+|\{[a-z][A-Za-z0-9]*\}))+")
_COPIED = ("x-database-role", "x-organization", "x-least-role")
_OPERATION_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def add_skeleton(
    document: Document, sources: Mapping[str, bytes], method: str, path: str, *, name: str | None, tag: str | None
) -> tuple[str, str]:
    """Return name and text of the source that gets the skeleton of an operation; raise ScaffoldError on failure."""
    _check_route(document, method, path)
    operation_id = name or derive_operation_id(method, path)
    taken = {operation.id: operation for operation in document.operations()}
    if not _OPERATION_ID.fullmatch(operation_id):
        raise ScaffoldError(f"the operationId {operation_id} is not snake_case")
    if operation_id in taken:
        other = taken[operation_id]
        raise ScaffoldError(
            f"{other.method.upper()} {other.path} is called {operation_id}; choose another name with --id"
        )
    nearest = _nearest(document, method, path)
    tag = tag or _tag(document, path, nearest)
    if tag not in (tags := [row["name"] for row in document.root.get("tags", ())]):
        raise ScaffoldError(f"the contract has no tag {tag}; it has {', '.join(tags)}")
    skeleton = _Skeleton(document, method, path, operation_id, nearest)
    file = file_of_tag(tag)
    text = inserted(sources.get(file, b"").decode(), ("paths", path, method), skeleton.operation())
    for schema, value in skeleton.schemas.items():
        text = inserted(text, ("components", "schemas", schema), value)
    return file, text


def inserted(text: str, keys: tuple[str, ...], value: Any) -> str:
    """Return the text of a source with a value below `keys`, behind what is there."""
    lines = text.splitlines()
    start, end, depth = 0, len(lines), 0
    for key in keys:
        if f"{'  ' * depth}{key}:" not in lines[start:end]:
            break
        start = lines.index(f"{'  ' * depth}{key}:", start, end) + 1
        outside = re.compile(rf" {{0,{2 * depth}}}\S")
        end = next((number for number in range(start, end) if outside.match(lines[number])), end)
        depth += 1
    while end > start and not lines[end - 1]:
        end -= 1
    for key in reversed(keys[depth:]):
        value = {key: value}
    space = [""] if depth < 2 and keys[0] == "paths" else []
    lines[end:end] = [*space, *("  " * depth + line if line else "" for line in write(value).decode().splitlines())]
    return "\n".join(lines).lstrip("\n") + "\n"


def derive_operation_id(method: str, path: str) -> str:
    """Return the usual name of an operation: `list_freezes`, `get_freeze`, `create_freeze`, `lift_freeze`."""
    parts = [part for part in path.split("/") if part]
    names = [_snake(part) for part in parts if not part.startswith("{")]
    last, of_one = names[-1], parts[-1].startswith("{")
    verb = {"get": "get", "put": "replace", "post": "create", "patch": "update", "delete": "delete"}[method]
    if of_one or method in {"put", "patch", "delete"}:
        return f"{verb}_{_singular(last)}"
    if _singular(last) != last:
        return f"list_{last}" if method == "get" else f"create_{_singular(last)}"
    if method == "get" or len(names) < 2:
        return f"{verb}_{last}"
    owner = names[-2]
    return f"{last}_{_singular(owner) if parts[-2].startswith('{') else owner}"


def _check_route(document: Document, method: str, path: str) -> None:
    if method not in _METHODS:
        raise ScaffoldError(f"{method.upper()} is not a method of an operation; use {', '.join(_METHODS).upper()}")
    if not _PATH.fullmatch(path) or not any(part[:1] not in {"", "{"} for part in path.split("/")):
        raise ScaffoldError(f"{path} is not a path such as /v1/freezes/{{freezeId}}/comment")
    shared = path_parameters(document, path)
    for name in template_names(path):
        if name not in shared:
            raise ScaffoldError(f"components.parameters has no path parameter {name}; add it first, see FreezeId")


def _nearest(document: Document, method: str, path: str) -> Operation:
    """Return the operation with the same effect whose path begins most like this one."""
    effect = "read" if method == "get" else "write"
    candidates = [one for one in document.operations() if one.raw.get("x-effect") == effect and one.credentialled]
    if not candidates:
        raise ScaffoldError(f"the contract has no operation with x-effect: {effect} to begin from")
    return max(candidates, key=lambda one: _shared_segments(one.path, path))


def _tag(document: Document, path: str, nearest: Operation) -> str:
    closest = max(document.operations(), key=lambda one: _shared_segments(one.path, path), default=nearest)
    if _shared_segments(closest.path, path) <= _shared_segments("/v1", path):
        raise ScaffoldError(f"no path begins like {path}; choose a tag with --tag")
    return str(closest.raw["tags"][0])


def _shared_segments(one: str, other: str) -> int:
    shared = 0
    for mine, theirs in zip(one.strip("/").split("/"), other.strip("/").split("/"), strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


class _Skeleton:
    def __init__(self, document: Document, method: str, path: str, operation_id: str, nearest: Operation) -> None:
        self._document = document
        self._method, self._path, self._id = method, path, operation_id
        self._nearest = nearest.raw
        self.schemas: dict[str, Any] = {}
        """The schemas that the operation needs, as `operation` has found."""

    def operation(self) -> dict[str, Any]:
        """Return the operation, without what follows from it."""
        found = {
            "operationId": self._id,
            "summary": _summary(self._id),
            "description": "",
            "security": self._nearest["security"],
            "x-effect": "read" if self._method == "get" else "write",
        }
        found |= {key: self._nearest[key] for key in _COPIED if key in self._nearest}
        if self._method not in {"get", "delete"}:
            name = f"{_pascal(self._id)}Request"
            self._add_schema(name, {"additionalProperties": False, "properties": {}})
            found["requestBody"] = {"required": True, "content": _json(name, {"request": {"value": {}}})}
        return {**found, "responses": self._responses()}

    def _responses(self) -> dict[str, Any]:
        if self._method == "delete":
            return {"204": {"description": "Done."}}
        created = self._id.startswith("create_")
        shown = self._shown(created=created)
        response = {"description": "Done.", "content": self._content(shown)}
        if created and shown is not None:
            parameters = {template_names(shown.path)[-1]: "$response.body#/id"}
            response["links"] = {"self": {"operationId": shown.id, "parameters": parameters}}
        return {"201" if created else "200": response}

    def _content(self, shown: Operation | None) -> dict[str, Any]:
        """Return schema and example of the response: those of the object that the path names, or new ones."""
        if shown is not None:
            content = next(iter(shown.successes.values()))["content"]["application/json"]
            return {"application/json": {key: content[key] for key in ("schema", "examples")}}
        verb, _, noun = self._id.partition("_")
        name = _pascal(noun) if verb in {"get", "create"} else f"{_pascal(self._id)}Response"
        members: dict[str, Any] = {"properties": {}}
        example: dict[str, Any] = {}
        if verb == "list":
            name = f"{_pascal(_singular(noun))}List"
            rows = {"type": "array", "items": {"type": "object"}}
            cursor = {"type": "string", "nullable": True}
            members = {"required": ["data", "nextCursor"], "properties": {"data": rows, "nextCursor": cursor}}
            example = {"data": [], "nextCursor": None}
        if name not in self._document.components("schemas"):
            self._add_schema(name, members)
        return _json(name, {"response": {"value": example}})

    def _shown(self, *, created: bool) -> Operation | None:
        """Return the operation that reads the object which this one returns."""
        if self._method == "get":
            return None
        reads = {one.path: one for one in self._document.operations() if one.method == "get"}
        if created:
            below = [one for path, one in reads.items() if re.fullmatch(re.escape(self._path) + r"/\{[^/]+\}", path)]
            return next((one for one in below if _has_examples(one)), None)
        found = reads.get(self._path[: self._path.rindex("}") + 1]) if "}" in self._path else None
        return found if found is not None and _has_examples(found) else None

    def _add_schema(self, name: str, members: dict[str, Any]) -> None:
        if name in self._document.components("schemas"):
            raise ScaffoldError(f"components.schemas has {name} already; choose another name with --id")
        self.schemas[name] = {"type": "object", "description": "", **members}


def _json(schema: str, examples: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": examples}}


def _has_examples(operation: Operation) -> bool:
    contents = [
        content for response in operation.successes.values() for content in response.get("content", {}).values()
    ]
    return bool(contents) and bool(contents[0].get("examples"))


def _summary(operation_id: str) -> str:
    """Return `Comment a freeze` for `comment_freeze`, `List freezes` for `list_freezes`."""
    verb, _, noun = operation_id.replace("_", " ").partition(" ")
    article = "" if not noun or _singular(noun) != noun else "an " if noun[0] in "aeiou" else "a "
    return f"{verb.capitalize()} {article}{noun}".rstrip()


def _snake(segment: str) -> str:
    return re.sub(r"[.-]", "_", segment)


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _singular(name: str) -> str:
    if name.endswith("ies"):
        return name[:-3] + "y"
    if name.endswith(("ches", "shes", "sses", "xes")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name
