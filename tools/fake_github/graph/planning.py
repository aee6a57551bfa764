"""Documents made ready to run: parsed, validated against the schema, and planned field by field.

graphql-core parses and validates. Its executor spends some 10 to 20 microseconds of bookkeeping on each field, too
much for queries over hundreds of pull requests, so execution is our own (`executor`): a selection is compiled once
per document and concrete type into a list of `FieldPlan`s, and documents are remembered by their text.

The schema is a cut of GitHub's public one, from npm `@octokit/graphql-schema` 15.26.1.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import graphql
from graphql.execution.values import get_argument_values

SCHEMA = graphql.build_schema(Path(__file__).with_name("schema.graphql").read_text(encoding="utf-8"))
REMEMBERED = 512


@dataclass(slots=True)
class FieldPlan:
    """One field of a selection, ready to be resolved on values of one type."""

    key: str
    name: str
    owner: str  # name of the type the field is on
    type: Any
    node: Any
    definition: Any
    selections: tuple[Any, ...]
    arguments: dict[str, Any] | None  # None when they depend on variables
    conditions: tuple[Any, ...]
    resolve: Callable[..., Any] | None = None
    complete: Callable[..., Any] | None = None

    def argument_values(self, variables: Any) -> dict[str, Any]:
        """Return the field's arguments, coerced."""
        if self.arguments is not None:
            return self.arguments
        values: dict[str, Any] = get_argument_values(self.definition, self.node, variables)
        return values


@dataclass(slots=True)
class Document:
    """A valid document: its operations and fragments, and the plans made of them so far."""

    operations: dict[str, Any]
    fragments: dict[str, Any]
    introspects: bool
    syntax: Any
    plans: dict[tuple[int, str], list[FieldPlan]] = field(default_factory=dict)
    roots: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def operation(self, name: str | None) -> Any:
        """Return the operation to run, or None when the name does not decide."""
        if name:
            return self.operations.get(name)
        return next(iter(self.operations.values())) if len(self.operations) == 1 else None


class InvalidDocument(Exception):  # noqa: N818 -- what is wrong is the caller's document
    """A document that does not parse or does not fit the schema; `errors` are GitHub's JSON."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__("invalid document")
        self.errors = errors


_documents: OrderedDict[str, Document] = OrderedDict()


def prepare(text: str) -> Document:
    """Parse and validate a document, or take it from those remembered."""
    found = _documents.get(text)
    if found is not None:
        return found
    try:
        syntax = graphql.parse(text)
    except graphql.GraphQLError as error:
        raise InvalidDocument([_error(error)]) from error
    errors = graphql.validate(SCHEMA, syntax)
    if errors:
        raise InvalidDocument([_error(error) for error in errors])
    operations, fragments = {}, {}
    for definition in syntax.definitions:
        if isinstance(definition, graphql.OperationDefinitionNode):
            operations[definition.name.value if definition.name else ""] = definition
        elif isinstance(definition, graphql.FragmentDefinitionNode):
            fragments[definition.name.value] = definition
    document = Document(operations, fragments, "__schema" in text or "__type(" in text, syntax)
    _documents[text] = document
    if len(_documents) > REMEMBERED:
        _documents.popitem(last=False)
    return document


def _error(error: graphql.GraphQLError) -> dict[str, Any]:
    locations = [{"line": place.line, "column": place.column} for place in error.locations or ()]
    return {"message": error.message, "locations": locations}


def _conditions(node: Any) -> tuple[Any, ...]:
    return tuple(directive for directive in node.directives or () if directive.name.value in {"skip", "include"})


def is_included(conditions: Iterable[Any], variables: Any) -> bool:
    """Apply `@skip` and `@include`."""
    for directive in conditions:
        value = directive.arguments[0].value
        flag = variables.coerced.get(value.name.value) if isinstance(value, graphql.VariableNode) else value.value
        if bool(flag) == (directive.name.value == "skip"):
            return False
    return True


def _uses_variables(node: Any) -> bool:
    if isinstance(node, graphql.VariableNode):
        return True
    if isinstance(node, graphql.ListValueNode):
        return any(map(_uses_variables, node.values))
    if isinstance(node, graphql.ObjectValueNode):
        return any(_uses_variables(entry.value) for entry in node.fields)
    return False


def _applies(condition: Any, type_name: str) -> bool:
    if condition is None or condition.name.value == type_name:
        return True
    wanted, concrete = SCHEMA.type_map[condition.name.value], SCHEMA.type_map[type_name]
    return graphql.is_abstract_type(wanted) and SCHEMA.is_sub_type(wanted, concrete)


def _collect(
    document: Document,
    selection: Any,
    type_name: str,
    conditions: tuple[Any, ...],
    into: dict[str, list[tuple[Any, tuple[Any, ...]]]],
) -> None:
    for node in selection.selections:
        found = (*conditions, *_conditions(node))
        if isinstance(node, graphql.FieldNode):
            into.setdefault(node.alias.value if node.alias else node.name.value, []).append((node, found))
        else:
            spread = isinstance(node, graphql.FragmentSpreadNode)
            fragment = document.fragments[node.name.value] if spread else node
            if _applies(fragment.type_condition, type_name):
                _collect(document, fragment.selection_set, type_name, found, into)


def plan(document: Document, selections: tuple[Any, ...], type_name: str) -> list[FieldPlan]:
    """Return the fields that the selections ask of a type; made once.

    Selections are known by their identity: those of fields live in plans, those of operations in `roots`, as long as
    the
    document.
    """
    key = (id(selections), type_name)
    found = document.plans.get(key)
    if found is None:
        collected: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {}
        for selection in selections:
            _collect(document, selection, type_name, (), collected)
        found = document.plans[key] = [_field_plan(name, nodes, type_name) for name, nodes in collected.items()]
    return found


def _field_plan(key: str, nodes: list[tuple[Any, tuple[Any, ...]]], type_name: str) -> FieldPlan:
    node, conditions = nodes[0]
    if any(not other for _, other in nodes):
        conditions = ()
    name = node.name.value
    if name == "__typename":
        return FieldPlan(
            key, name, type_name, graphql.GraphQLNonNull(graphql.GraphQLString), node, None, (), {}, conditions
        )
    owner = SCHEMA.type_map[type_name]
    assert isinstance(owner, graphql.GraphQLObjectType)
    definition = owner.fields[name]
    constant = not any(_uses_variables(argument.value) for argument in node.arguments or ())
    arguments = get_argument_values(definition, node) if constant else None
    selections = tuple(each.selection_set for each, _ in nodes if each.selection_set)
    return FieldPlan(key, name, type_name, definition.type, node, definition, selections, arguments, conditions)
