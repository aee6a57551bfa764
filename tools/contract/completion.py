"""Completes a contract, as data, with what follows from the rest of it; of what the sources say it changes nothing.

Of the schemas of answers: what keeps them open (see `openness`). Of each operation: `x-errors`, parameters, headers and
error responses (see `derivation` and `refusals`). The sources have none of that: what they say although it follows, or
cannot hold, is a problem.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from schemas.contract import METHODS
from tools.contract import derivation, openness, refusals
from tools.contract.derivation import FOLLOWS
from tools.contract.document import Document, Operation, Problem

_ORDER = (
    *("operationId", "tags", "summary", "description", "security", "x-effect", "x-audit", "x-database-role"),
    *("x-organization", "x-least-role", "x-entitlement", "x-installation", "x-body-limit", "x-rate-limit"),
    *("x-unknown-query", "x-mcp-tool", "x-mcp-confirm", "x-errors", "parameters", "requestBody", "responses"),
)
"""The order of an operation's keys."""
_RESPONSE_ORDER = ("description", "headers", "content", "links")


def complete(merged: Document) -> tuple[Document, list[Problem]]:
    """Return a contract completed, and what its sources must not say."""
    root = deepcopy(dict(merged.root))
    completed = Document(root, merged.sources)
    problems: list[Problem] = []
    for path, item in root["paths"].items():
        operations = [Operation(merged, path, method) for method in METHODS if method in item]
        problems += _complete_path(merged, path, item, operations)
        for operation in operations:
            problems += _complete_operation(operation, item[operation.method])
    components = root["components"]
    written = components.get("responses", {})
    for name, response in written.items():
        for text in _complete_response(response, {"X-Request-Id": True}):
            problems.append(merged.problem(("components", "responses", name), text))
    responses, examples = refusals.components(merged)
    components["responses"] = {**responses, **written}
    components["examples"] = {**components.get("examples", {}), **examples}
    problems += [merged.problem(place, f"{what} {FOLLOWS}") for place, what in openness.complete(completed)]
    return completed, problems


def _complete_path(
    merged: Document, path: str, item: dict[str, Any], operations: Iterable[Operation]
) -> Iterator[Problem]:
    """Add to a path the shared parameters of its template."""
    written = item.get("parameters", [])
    derived = derivation.path_parameters(merged, path)
    declared = {parameter["name"] for operation in operations for _, parameter in operation.parameters}
    missing = [_reference("parameters", component) for name, component in derived.items() if name not in declared]
    for index, parameter in enumerate(written):
        if parameter in [_reference("parameters", component) for component in derived.values()]:
            yield merged.problem(("paths", path, "parameters", index), f"it {FOLLOWS}")
    if missing or written:
        item["parameters"] = [*missing, *written]
    _sort(item, ["parameters"])


def _complete_operation(operation: Operation, raw: dict[str, Any]) -> Iterator[Problem]:
    """Add to an operation, in `raw`, its codes, parameters, headers and error responses."""
    yield from derivation.misplaced(operation)
    missing = [_reference("parameters", component) for component in derivation.missing_parameters(operation)]
    raw["x-errors"], raw["parameters"] = derivation.error_codes(operation), [*missing, *raw.get("parameters", ())]
    responses = raw.setdefault("responses", {})
    for status, response in responses.items():
        if "$ref" not in response:
            for text in _complete_response(response, derivation.headers(operation, status)):
                yield operation.problem(text, "responses", status)
    for status, refusal in refusals.refusals(operation).items():
        responses.setdefault(status, _reference("responses", refusal.name))
    _sort(responses, sorted(responses))
    for key in [key for key in ("x-errors", "parameters") if not raw[key]]:
        del raw[key]
    _sort(raw, _ORDER)


def _complete_response(response: dict[str, Any], derived: Mapping[str, bool]) -> Iterator[str]:
    """Add the derived headers to a response, below its own; a `Location` may be its own."""
    headers = response.setdefault("headers", {})
    for name, comes in derived.items():
        if name in headers and (comes or name != "Location"):
            yield f"its header {name} {FOLLOWS if comes else 'does not come with it'}"
        elif comes:
            headers[name] = _reference("headers", name)
    _sort(response, _RESPONSE_ORDER)


def _sort(values: dict[str, Any], order: Iterable[str]) -> None:
    """Put keys into an order; those that are not in it stay behind them."""
    entries = [(key, values[key]) for key in dict.fromkeys([*order, *values]) if key in values]
    values.clear()
    values.update(entries)


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
