"""`POST /graphql`: from the request's body to GitHub's answer."""

from dataclasses import dataclass
from typing import Any

import graphql

from tools.fake_github.core import Core
from tools.fake_github.graph import (
    check_fields,
    mutations,
    pull_fields,
    queries,
    review_fields,
    rule_fields,
    ruleset_mutations,
    timeline_fields,
    values,
)
from tools.fake_github.graph.costs import MAX_NODES, measure
from tools.fake_github.graph.documents import SCHEMA, InvalidDocumentError, prepare
from tools.fake_github.graph.resolvers import Context, GraphError, resolve_attribute, resolve_type
from tools.fake_github.identity import Caller
from tools.fake_github.model.refusals import Refusal
from tools.simulation.answers import Answer

RESOLVER_MODULES = (
    check_fields,
    mutations,
    pull_fields,
    queries,
    review_fields,
    rule_fields,
    ruleset_mutations,
    timeline_fields,
    values,
)  # imported because they register resolvers
TYPE_OF_STATUS = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND"}


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
    except InvalidDocumentError:
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


def answer(github: Core, caller: Caller, body: Any) -> Answer:
    """Execute one GraphQL request."""
    text = body.get("query") if isinstance(body, dict) else None
    if not isinstance(text, str):
        return _errors({"message": "A query attribute must be specified and must be a string."})
    try:
        document = prepare(text)
    except InvalidDocumentError as invalid:
        return _errors(*invalid.errors)
    operation = document.operation(body.get("operationName"))
    if operation is None:
        return _errors({"message": "An operation name is required"})
    variables = body.get("variables") or {}
    nodes, cost = measure(document, operation, variables)
    if nodes > MAX_NODES:
        message = (
            f"This query requests up to {nodes:,} possible nodes which exceeds the maximum limit of {MAX_NODES:,}."
        )
        return _errors({"type": "MAX_NODE_LIMIT_EXCEEDED", "message": message})
    result = graphql.execute_sync(
        SCHEMA,
        document.syntax,
        root_value={},
        context_value=Context(github, caller, nodes, cost),
        variable_values=variables,
        operation_name=body.get("operationName"),
        field_resolver=resolve_attribute,
        type_resolver=resolve_type,
    )
    if any(error.path is None for error in result.errors or ()):  # the variables do not match: nothing was executed
        return _errors(*({"message": error.message} for error in result.errors or ()))
    errors = [_formatted(error) for error in result.errors or ()]
    return Answer(200, {"data": result.data} | ({"errors": errors} if errors else {}))


def _formatted(error: graphql.GraphQLError) -> dict[str, Any]:
    """Return an error as GitHub shows it, with its type. Raise any other exception: it is a bug of the simulation."""
    cause = error.original_error
    if isinstance(cause, GraphError):
        kind = cause.kind
    elif isinstance(cause, Refusal):
        kind = TYPE_OF_STATUS.get(cause.status, "UNPROCESSABLE")
    else:
        raise cause or error
    return {"type": kind, **error.formatted}
