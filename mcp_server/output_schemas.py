"""JSON Schemas of the results of tools: the type of each property that is never null.

They are open, as responses are. What is nested is left out, and so is what may be null: with all of it, the list of
tools would be four times as long, and agents read the results themselves.
"""

from typing import Any

from schemas import walk
from schemas.contract import Contract, Node, Operation

DONE = "done"
"""The property of the result of a tool whose operation has no content."""


def output_schema(contract: Contract, operation: Operation) -> dict[str, Any]:
    """Return the schema of the result of a tool."""
    content = _content(contract, operation)
    properties = {DONE: {"type": "boolean"}} if content is None else walk.properties(contract.document, content, None)
    types = {name: _type(contract, schema) for name, schema in properties.items()}
    return {"type": "object", "properties": {name: {"type": found} for name, found in types.items() if found}}


def _content(contract: Contract, operation: Operation) -> Node | None:
    """Return the schema of the operation's successful responses; None if they have no content."""
    raw = contract.document["paths"][operation.path][operation.method.lower()]
    for status, response in raw["responses"].items():
        content = contract.resolve(response).get("content", {})
        if status.startswith("2") and "application/json" in content:
            return content["application/json"]["schema"]  # type: ignore[no-any-return]
    return None


def _type(contract: Contract, schema: Node) -> str | None:
    """Return the type of the values of a schema; None if they may be null, or have several types."""
    parts = list(walk.parts(contract.document, schema, None))
    types: set[str] = {part["type"] for part in parts if "type" in part}
    if len(types) != 1 or any(part.get("nullable") for part in (schema, *parts)):
        return None
    return types.pop()
