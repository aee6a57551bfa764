"""The skeleton of an operation in the contract: what method, path and the operations beside it say about it."""

import re
from typing import Any

from tools.contract import Document
from tools.contract.blocks import Text, children
from tools.contract.derivation import path_parameters, template_names
from tools.contract.document import Operation
from tools.scaffold.errors import ScaffoldError

_METHODS = ("get", "put", "post", "patch", "delete")
_PATH = re.compile(r"(/([a-z0-9.-]+|\{[a-z][A-Za-z0-9]*\}))+")
_COPIED = ("x-database-role", "x-organization", "x-least-role")
_OPERATION_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def add_skeleton(source: bytes, method: str, path: str, operation_id: str | None, tag: str | None) -> str:
    """Return the contract's text with the skeleton of an operation, not completed; raise ScaffoldError on failure."""
    document = Document.parse(source)
    _check_route(document, method, path)
    operation_id = operation_id or derive_operation_id(method, path)
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
    return _Skeleton(document, method, path, operation_id, tag, nearest).written()


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
    def __init__(
        self, document: Document, method: str, path: str, operation_id: str, tag: str, nearest: Operation
    ) -> None:
        self._document = document
        self._method, self._path, self._id, self._tag = method, path, operation_id, tag
        self._nearest = nearest
        self._components: dict[str, str] = {}
        self._text = Text(document.source.decode())

    def written(self) -> str:
        """Return the text of the document with the new operation and its components in it."""
        operation = self._operation()
        root = children(self._document.node)
        paths = children(root["paths"][1])
        lines = list(self._text.lines)
        schemas = children(root["components"][1])["schemas"]
        _, after_schemas = self._text.span(*schemas, 4)
        component_lines = "".join(self._components.values()).splitlines()
        lines[after_schemas:after_schemas] = component_lines
        if self._path in paths:
            _, end = self._text.span(*paths[self._path], 4)
            lines[end:end] = operation.splitlines()
        else:
            neighbour = max(paths, key=lambda other: (_shared_segments(other, self._path), list(paths).index(other)))
            _, end = self._text.span(*paths[neighbour], 4)
            lines[end:end] = ["", f"  {self._path}:", *operation.splitlines()]
        return "\n".join(lines) + "\n"

    def _operation(self) -> str:
        raw = self._nearest.raw
        effect = "read" if self._method == "get" else "write"
        policies = "".join(f"      {key}: {raw[key]}\n" for key in _COPIED if key in raw)
        return (
            f"    {self._method}:\n"
            f"      operationId: {self._id}\n"
            f"      tags: [{self._tag}]\n"
            f"      summary: {_summary(self._id)}\n"
            '      description: ""\n'
            f"      security: {_flow(raw['security'])}\n"
            f"      x-effect: {effect}\n"
            f"{policies}{self._request()}{self._response()}"
        )

    def _request(self) -> str:
        if self._method in {"get", "delete"}:
            return ""
        name = f"{_pascal(self._id)}Request"
        self._add_component(name, "      additionalProperties: false\n      properties: {}\n")
        return (
            "      requestBody:\n        required: true\n        content:\n          application/json:\n"
            f'            schema: {{$ref: "#/components/schemas/{name}"}}\n'
            "            examples:\n              request: {value: {}}\n"
        )

    def _response(self) -> str:
        if self._method == "delete":
            return '      responses:\n        "204":\n          description: Done.\n'
        created = self._id.startswith("create_")
        shown = self._shown(created=created)
        links = ""
        if created and shown is not None:
            name = template_names(shown.path)[-1]
            link = f'{{operationId: {shown.id}, parameters: {{{name}: "$response.body#/id"}}}}'
            links = f"          links:\n            self: {link}\n"
        return (
            f'      responses:\n        "{201 if created else 200}":\n          description: Done.\n'
            f"          content:\n            application/json:\n{self._content(shown)}{links}"
        )

    def _content(self, shown: Operation | None) -> str:
        """Return schema and example of the response: those of the object that the path names, or new ones."""
        if shown is not None:
            response = next(iter(shown.successes.values()))
            content = response["content"]["application/json"]
            examples = "".join(f"                {key}: {_flow(value)}\n" for key, value in content["examples"].items())
            return f"              schema: {_flow(content['schema'])}\n              examples:\n{examples}"
        verb, _, noun = self._id.partition("_")
        name = _pascal(noun) if verb in {"get", "create"} else f"{_pascal(self._id)}Response"
        members, example = "      properties: {}\n", "{}"
        if verb == "list":
            name = f"{_pascal(_singular(noun))}List"
            members = (
                "      required: [data, nextCursor]\n"
                "      properties:\n"
                "        data: {type: array, items: {type: object}}\n"
                "        nextCursor: {type: string, nullable: true}\n"
            )
            example = "{data: [], nextCursor: null}"
        if name not in self._document.components("schemas"):
            self._add_component(name, members)
        return (
            f'              schema: {{$ref: "#/components/schemas/{name}"}}\n'
            f"              examples:\n                response: {{value: {example}}}\n"
        )

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

    def _add_component(self, name: str, members: str) -> None:
        if name in self._document.components("schemas"):
            raise ScaffoldError(f"components.schemas has {name} already; choose another name with --id")
        self._components[name] = f'    {name}:\n      type: object\n      description: ""\n{members}'


def _has_examples(operation: Operation) -> bool:
    contents = [
        content for response in operation.successes.values() for content in response.get("content", {}).values()
    ]
    return bool(contents) and bool(contents[0].get("examples"))


def _flow(value: Any) -> str:
    """Return a value as it is written inside a line of the contract."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(child) for child in value) + "]"
    return f'"{value}"'


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
