"""What a query costs before it runs: nodes it may return, and points."""

from typing import Any

import graphql

from tools.fake_github.graph.documents import SCHEMA, Document

MAX_NODES = 500_000
REQUESTS_PER_POINT = 100


def _bound(node: Any, variables: dict[str, Any]) -> int:
    """Return the page size that a connection requests, or the number of ids of `nodes`."""
    for argument in node.arguments or ():
        if argument.name.value not in {"first", "last", "ids"}:
            continue
        value = argument.value
        given = variables.get(value.name.value) if isinstance(value, graphql.VariableNode) else value
        if isinstance(given, graphql.IntValueNode):
            return int(given.value)
        if isinstance(given, graphql.ListValueNode):
            return len(given.values)
        if isinstance(given, int):
            return given
        if isinstance(given, list):
            return len(given)
    return 0


def _walk(
    document: Document, selection: Any, owner: Any, parents: int, variables: dict[str, Any], totals: list[int]
) -> None:
    for node in selection.selections:
        if isinstance(node, graphql.FragmentSpreadNode):
            fragment = document.fragments[node.name.value]
            _walk(
                document,
                fragment.selection_set,
                SCHEMA.type_map[fragment.type_condition.name.value],
                parents,
                variables,
                totals,
            )
        elif isinstance(node, graphql.InlineFragmentNode):
            condition = SCHEMA.type_map[node.type_condition.name.value] if node.type_condition else owner
            _walk(document, node.selection_set, condition, parents, variables, totals)
        elif node.selection_set and node.name.value in getattr(owner, "fields", {}):
            declared = graphql.get_named_type(owner.fields[node.name.value].type)
            count = parents
            if declared.name.endswith("Connection") or (node.name.value == "nodes" and owner.name == "Query"):
                totals[1] += parents
                count = parents * max(1, _bound(node, variables))
                totals[0] += count
            _walk(document, node.selection_set, declared, count, variables, totals)


def measure(document: Document, operation: Any, variables: dict[str, Any]) -> tuple[int, int]:
    """Return (nodes, points) of an operation, by GitHub's published formula."""
    totals = [0, 0]
    defaults = {each.variable.name.value: each.default_value for each in operation.variable_definitions or ()}
    root = SCHEMA.mutation_type if operation.operation is graphql.OperationType.MUTATION else SCHEMA.query_type
    _walk(document, operation.selection_set, root, 1, {**defaults, **variables}, totals)
    return totals[0], max(1, round(totals[1] / REQUESTS_PER_POINT))
