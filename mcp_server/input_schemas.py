"""JSON Schemas of the arguments of tools, made from the schemas of OpenAPI 3.0 in the contract.

A tool takes the path and query parameters of its operation and the properties of its body as arguments side by side.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from schemas import walk
from schemas.contract import Contract, ContractError, Node, Operation

CONFIRM = "confirm"
IDEMPOTENCY_KEY = "idempotencyKey"
_CONFIRM_SCHEMA = {
    "type": "boolean",
    "description": "Must be true. Ask the person first: this cannot be undone.",
}
_IDEMPOTENCY_KEY_SCHEMA = {
    "type": "string",
    "maxLength": 255,
    "description": "Repeat it when you retry the same call: it then takes effect once.",
}
_NOT_JSON_SCHEMA = frozenset(
    {"nullable", "example", "examples", "discriminator", "readOnly", "writeOnly", "deprecated"}
)
_DEFINITIONS = "#/$defs/"


def input_schema(contract: Contract, operation: Operation, *, confirms: bool) -> dict[str, Any]:
    """Return the schema of a tool's arguments, with all definitions that it needs and no other.

    Raise ContractError if two arguments have the same name.
    """
    conversion = _Conversion(contract)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, schema, is_required in _arguments(contract, operation):
        if name in properties or name in {CONFIRM, IDEMPOTENCY_KEY}:
            raise ContractError(f"{operation.id}: its tool would have two arguments {name}")
        properties[name] = conversion.convert(schema)
        if is_required:
            required.append(name)
    if confirms:
        properties[CONFIRM] = _CONFIRM_SCHEMA
    if operation.effect == "write":
        properties[IDEMPOTENCY_KEY] = _IDEMPOTENCY_KEY_SCHEMA
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        made["required"] = required
    if definitions := conversion.definitions():
        made["$defs"] = definitions
    return made


def body_properties(contract: Contract, operation: Operation) -> Mapping[str, Node]:
    """Return the properties of the JSON body by name; none if the operation takes no body."""
    if "application/json" not in operation.body:
        return {}
    return walk.properties(contract.document, operation.body["application/json"], None)


def _arguments(contract: Contract, operation: Operation) -> Iterator[tuple[str, Node, bool]]:
    """Yield each argument: its name, its schema, and whether it is required."""
    path = contract.document["paths"][operation.path]
    declared = [*path.get("parameters", ()), *path[operation.method.lower()].get("parameters", ())]
    described = {(found["in"], found["name"]): found for found in map(contract.resolve, declared)}
    for parameter in operation.parameters:
        if parameter.location in {"path", "query"}:
            description = described[parameter.location, parameter.name].get("description")
            schema = contract.resolve(parameter.schema)
            yield parameter.name, {**schema, "description": description} if description else schema, parameter.required
    properties = body_properties(contract, operation)
    body = contract.resolve(operation.body["application/json"]) if properties else {}
    for name, schema in properties.items():
        yield name, schema, operation.body_required and name in body.get("required", ())


class _Conversion:
    """Converts schemas of OpenAPI 3.0 to JSON Schema 2020-12, whose references point into `$defs`."""

    def __init__(self, contract: Contract) -> None:
        self._schemas: Mapping[str, Node] = contract.document.get("components", {}).get("schemas", {})
        self._wanted: list[str] = []

    def definitions(self) -> dict[str, Any]:
        """Return all definitions that converted schemas need, also by way of one another."""
        found: dict[str, Any] = {}
        while missing := [name for name in self._wanted if name not in found]:
            for name in missing:
                found[name] = self.convert(self._schemas[name])
        return dict(sorted(found.items()))

    def convert(self, node: Any) -> Any:
        """Return a schema, or a part of one."""
        if isinstance(node, list):
            return [self.convert(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name not in self._wanted:
                self._wanted.append(name)
            return {"$ref": _DEFINITIONS + name}
        made = {
            key: self._convert_value(key, value)
            for key, value in node.items()
            if key not in _NOT_JSON_SCHEMA and not key.startswith("x-")
        }
        for bound in ("Minimum", "Maximum"):
            if (exclusive := made.pop(f"exclusive{bound}", None)) is True:
                made[f"exclusive{bound}"] = made.pop(bound.lower())
            elif exclusive not in {None, False}:
                made[f"exclusive{bound}"] = exclusive
        return _nullable(made) if node.get("nullable") else made

    def _convert_value(self, key: str, value: Any) -> Any:
        if key == "properties":  # its keys are names of properties, not keywords of a schema
            return {name: self.convert(schema) for name, schema in value.items()}
        return value if key in {"enum", "default", "required"} else self.convert(value)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that also takes null, without the keyword `nullable`."""
    if not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]}
    made = {**schema, "type": [schema["type"], "null"]}
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made
