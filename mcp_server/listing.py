"""The list of tools: what one tool has said is not said again.

A list has some sixty tools, and agents read it whole. An argument that several tools have is described by the
first of them; the others have its names, types and values, and say where it is described. A result is described by the
first tool that has it; the protocol permits the others to say nothing of theirs. What needs confirmation says so with
every tool.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_server.input_schemas import CONFIRM

_KEPT = ("type", "enum", "items", "required")


def listed(declarations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the declarations of a list of tools, in which nothing is described twice."""
    seen: dict[tuple[str, str], str] = {}
    result = []
    for declaration in declarations:
        tool: str = declaration["name"]
        schema = declaration["inputSchema"]
        properties = dict(schema["properties"])
        for name, argument in properties.items():
            first = seen.setdefault((name, repr(argument)), tool)
            if first != tool and name != CONFIRM:
                properties[name] = _undescribed(argument, first)
        one = {**declaration, "inputSchema": {**schema, "properties": properties}}
        if seen.setdefault(("", repr(one["outputSchema"])), tool) != tool:
            del one["outputSchema"]
        result.append(one)
    return result


def _undescribed(schema: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return a schema that another tool describes; an object says which tool that is."""
    if "properties" not in schema:
        return {key: value for key, value in schema.items() if key != "description"}
    return {**_names(schema), "description": f"As in {tool}."}


def _names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names, types and values of a schema."""
    made = {key: schema[key] for key in _KEPT if key in schema}
    if "items" in made:
        made["items"] = _names(made["items"])
    if "properties" in schema:
        made["properties"] = {name: _names(each) for name, each in schema["properties"].items()}
    return made
