"""The skeleton of an operation in the contract: what method, path and the operations beside it say about it."""

import re
from collections.abc import Mapping
from os.path import commonpath
from pathlib import PurePosixPath
from typing import Any

from tools.contract import Document, write
from tools.contract.derivation import path_parameters, template_names
from tools.contract.document import Operation
from tools.contract.sources import file_of_tag
from tools.contract.vocabulary import SNAKE_CASE, pascal_case
from tools.scaffold.files import ScaffoldError

_VERBS = {"get": "get", "put": "replace", "post": "create", "patch": "update", "delete": "delete"}
_PATH = re.compile(r"(/([a-z0-9.-]+|\{[a-z][A-Za-z0-9]*\}))+")
_COPIED = ("x-database-role", "x-organization", "x-least-role")
_JSON = "application/json"


def add_skeleton(
    document: Document, sources: Mapping[str, bytes], method: str, path: str, *, name: str | None, tag: str | None
) -> tuple[str, str]:
    """Return name and text of the source that gets the skeleton of an operation; raise ScaffoldError on failure."""
    _check_route(document, method, path)
    name = name or derive_operation_id(method, path)
    if not SNAKE_CASE.fullmatch(name):
        raise ScaffoldError(f"the operationId {name} is not snake_case")
    for other in document.operations():
        if other.id == name:
            route = f"{other.method.upper()} {other.path}"
            raise ScaffoldError(f"{route} is called {name}; choose another name with --id")
    tag = tag or _tag(document, path)
    if tag not in (tags := [row["name"] for row in document.root.get("tags", ())]):
        raise ScaffoldError(f"the contract has no tag {tag}; it has {', '.join(tags)}")
    operation, schemas = _skeleton(document, method, path, name)
    file = file_of_tag(tag)
    text = inserted(sources.get(file, b"").decode(), ("paths", path, method), operation)
    for schema, members in schemas.items():
        value = {"type": "object", "description": "", **members}
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
    names = [re.sub(r"[.-]", "_", part) for part in parts if not part.startswith("{")]
    last, of_one = names[-1], parts[-1].startswith("{")
    verb = _VERBS[method]
    if of_one or method in {"put", "patch", "delete"}:
        return f"{verb}_{_singular(last)}"
    if _singular(last) != last:
        return f"list_{last}" if method == "get" else f"create_{_singular(last)}"
    if method == "get" or len(names) < 2:
        return f"{verb}_{last}"
    owner = names[-2]
    return f"{last}_{_singular(owner) if parts[-2].startswith('{') else owner}"


def _check_route(document: Document, method: str, path: str) -> None:
    if method not in _VERBS:
        raise ScaffoldError(f"{method.upper()} is not a method of an operation; use {', '.join(_VERBS).upper()}")
    if not _PATH.fullmatch(path) or not any(part[:1] not in {"", "{"} for part in path.split("/")):
        raise ScaffoldError(f"{path} is not a path such as /v1/freezes/{{freezeId}}/comment")
    shared = path_parameters(document, path)
    for name in template_names(path):
        if name not in shared:
            raise ScaffoldError(f"components.parameters has no path parameter {name}; add it first, see FreezeId")


def _nearest(document: Document, path: str, effect: str) -> Operation:
    """Return the operation with an effect whose path begins most like this one."""
    candidates = [one for one in document.operations() if one.raw.get("x-effect") == effect and one.credentialled]
    if not candidates:
        raise ScaffoldError(f"the contract has no operation with x-effect: {effect} to begin from")
    return max(candidates, key=lambda one: _shared_segments(one.path, path))


def _tag(document: Document, path: str) -> str:
    """Return the tag of the path that begins most like this one."""
    tags = {one.path: str(one.raw["tags"][0]) for one in document.operations()}
    closest = max(tags, key=lambda one: _shared_segments(one, path), default="/")
    if _shared_segments(closest, path) <= _shared_segments("/v1", path):
        raise ScaffoldError(f"no path begins like {path}; choose a tag with --tag")
    return tags[closest]


def _shared_segments(one: str, other: str) -> int:
    return len(PurePosixPath(commonpath([one, other])).parts)


def _skeleton(document: Document, method: str, path: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the operation, without what follows from it, and the members of the schemas that it needs."""
    effect = "read" if method == "get" else "write"
    nearest = _nearest(document, path, effect).raw
    operation = {
        "operationId": name,
        "summary": _summary(name),
        "description": "",
        "security": nearest["security"],
        "x-effect": effect,
        **{key: nearest[key] for key in _COPIED if key in nearest},
    }
    schemas: dict[str, Any] = {}
    if method not in {"get", "delete"}:
        request = f"{pascal_case(name)}Request"
        if request in document.components("schemas"):
            raise ScaffoldError(f"components.schemas has {request} already; choose another name with --id")
        schemas[request] = {"additionalProperties": False, "properties": {}}
        operation["requestBody"] = {"required": True, "content": {_JSON: _content(request, "request", {})}}
    if method == "delete":
        return {**operation, "responses": {"204": {"description": "Done."}}}, schemas
    created = name.startswith("create_")
    shown = _shown(document, method, path, created=created)
    if shown is None:
        answer, members, example = _answer(name)
        if answer not in document.components("schemas"):
            schemas[answer] = members
        response = {"description": "Done.", "content": {_JSON: _content(answer, "response", example)}}
    else:
        content = _examples_of(shown)
        response = {"description": "Done.", "content": {_JSON: {key: content[key] for key in ("schema", "examples")}}}
        if created:
            parameters = {template_names(shown.path)[-1]: "$response.body#/id"}
            response["links"] = {"self": {"operationId": shown.id, "parameters": parameters}}
    return {**operation, "responses": {"201" if created else "200": response}}, schemas


def _content(schema: str, example: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": {example: {"value": value}}}


def _shown(document: Document, method: str, path: str, *, created: bool) -> Operation | None:
    """Return the operation that reads the object which a write creates, or which its path names."""
    read = re.escape(path) + r"/\{[^/]+\}" if created else re.escape(path[: path.rfind("}") + 1])
    reads = (one for one in document.operations() if one.method == "get" != method and re.fullmatch(read, one.path))
    return next((one for one in reads if _examples_of(one)), None)


def _examples_of(operation: Operation) -> Mapping[str, Any]:
    """Return schema and examples of what an operation answers; empty if it has none."""
    contents = (success.get("content", {}).get(_JSON, {}) for success in operation.successes.values())
    return next((content for content in contents if content.get("examples")), {})


def _answer(name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return name, members and example of the schema that a new operation answers with."""
    verb, _, noun = name.partition("_")
    if verb != "list":
        return pascal_case(noun if verb in {"get", "create"} else f"{name}_response"), {"properties": {}}, {}
    rows, cursor = {"type": "array", "items": {"type": "object"}}, {"type": "string", "nullable": True}
    members = {"required": ["data", "nextCursor"], "properties": {"data": rows, "nextCursor": cursor}}
    return f"{pascal_case(_singular(noun))}List", members, {"data": [], "nextCursor": None}


def _summary(operation_id: str) -> str:
    """Return `Comment a freeze` for `comment_freeze`, `List freezes` for `list_freezes`."""
    verb, _, noun = operation_id.replace("_", " ").partition(" ")
    article = "" if not noun or _singular(noun) != noun else "an " if noun[0] in "aeiou" else "a "
    return f"{verb.capitalize()} {article}{noun}".rstrip()


def _singular(name: str) -> str:
    if name.endswith("ies"):
        return name[:-3] + "y"
    if name.endswith(("ches", "shes", "sses", "xes")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name
