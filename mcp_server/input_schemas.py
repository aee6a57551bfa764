"""JSON Schemas of the arguments of tools, made from the schemas of OpenAPI 3.0 in the contract.

A tool takes the path and query parameters of its operation and the properties of its body as arguments side by side.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_server.conversion import Conversion
from schemas import walk
from schemas.contract import Contract, ContractError, Node, Operation

CONFIRM = "confirm"
IDEMPOTENCY_KEY = "idempotencyKey"
_CONFIRM_SCHEMA = {
    "type": "boolean",
    "description": "Must be true. Ask the person first: this cannot be undone.",
}
_IDEMPOTENCY_KEY_SCHEMA = {"type": "string", "description": "Repeat it in a retry, which then takes effect once."}


def input_schema(contract: Contract, operation: Operation, *, confirms: bool) -> dict[str, Any]:
    """Return the schema of a tool's arguments, with all definitions that it needs and no other.

    Raise ContractError if two arguments have the same name.
    """
    conversion = Conversion(contract)
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
    return conversion.complete(made)


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
            if description and not _is_plain_filter(parameter.name, schema, description):
                schema = {**schema, "description": description}
            yield parameter.name, schema, parameter.required
    properties = body_properties(contract, operation)
    body = contract.resolve(operation.body["application/json"]) if properties else {}
    for name, schema in properties.items():
        yield name, schema, operation.body_required and name in body.get("required", ())


def _is_plain_filter(name: str, schema: Node, description: str) -> bool:
    """True if a filter's name and values say what it selects."""
    return description.startswith("Only ") and (
        "enum" in schema or schema.get("type") == "boolean" or name.endswith("Id")
    )
