"""`POST /graphql`: from the request's body to GitHub's answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import graphql
from graphql.execution.values import get_variable_values

from tools.fake_github.graph import check_fields, mutations, pull_fields, queries, rule_fields, values
from tools.fake_github.graph.costs import MOST_NODES, measure
from tools.fake_github.graph.executor import Context, run
from tools.fake_github.graph.planning import SCHEMA, Document, InvalidDocument, prepare
from tools.fake_github.rest.answers import Answer
from tools.fake_github.rest.identity import Caller

if TYPE_CHECKING:
    from tools.fake_github.host import FakeGitHub

RESOLVER_MODULES = (
    check_fields,
    mutations,
    pull_fields,
    queries,
    rule_fields,
    values,
)  # imported for what they register


def _errors(*errors: dict[str, Any]) -> Answer:
    return Answer(200, {"errors": list(errors)})


@dataclass(frozen=True, slots=True)
class Description:
    """What a request is, for counters, faults and limits."""

    label: str = "graphql"
    mutation: bool = False
    fields: tuple[str, ...] = ()  # the root fields, one for each alias


def describe(body: Any) -> Description:
    """Describe a request; one that cannot be run is only "graphql"."""
    text = body.get("query") if isinstance(body, dict) else None
    try:
        document = prepare(text if isinstance(text, str) else "")
    except InvalidDocument:
        return Description()
    operation = document.operation(body.get("operationName"))
    if operation is None:
        return Description()
    selected = operation.selection_set.selections
    fields = tuple(node.name.value for node in selected if isinstance(node, graphql.FieldNode))
    kind = operation.operation.value
    name = operation.name.value if operation.name else ""
    label = " ".join(["graphql", kind, *([name] if name else []), *dict.fromkeys(fields)])
    return Description(label, kind == "mutation", fields)


def answer(host: "FakeGitHub", caller: Caller, body: Any) -> Answer:
    """Run one GraphQL request."""
    text = body.get("query") if isinstance(body, dict) else None
    if not isinstance(text, str):
        return _errors({"message": "A query attribute must be specified and must be a string."})
    try:
        document = prepare(text)
    except InvalidDocument as invalid:
        return Answer(200, {"errors": invalid.errors})
    operation = document.operation(body.get("operationName"))
    if operation is None:
        return _errors({"message": "An operation name is required"})
    if document.introspects:
        return _introspected(document, body)
    return _run(Context(host, caller, document), operation, body.get("variables") or {})


def _run(context: Context, operation: Any, variables: dict[str, Any]) -> Answer:
    coerced = get_variable_values(SCHEMA, operation.variable_definitions or (), variables)
    if isinstance(coerced, list):
        return Answer(200, {"errors": [{"message": error.message} for error in coerced]})
    context.variables = coerced
    context.node_count, context.cost = nodes, _ = measure(context.document, operation, coerced.coerced)
    if nodes > MOST_NODES:
        message = (
            f"This query requests up to {nodes:,} possible nodes which exceeds the maximum limit of {MOST_NODES:,}."
        )
        return _errors({"type": "MAX_NODE_LIMIT_EXCEEDED", "message": message})
    data = run(context, operation)
    shown: dict[str, Any] = {"data": data}
    if context.errors:
        shown["errors"] = context.errors
    return Answer(200, shown)


def _introspected(document: Document, body: dict[str, Any]) -> Answer:
    found = graphql.execute_sync(SCHEMA, document.syntax, variable_values=body.get("variables"))
    return Answer(200, found.formatted)
