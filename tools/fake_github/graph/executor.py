"""Runs planned documents: resolves fields one after another and collects errors by path, as the specification says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import graphql

from tools.fake_github.graph.planning import Document, FieldPlan, is_included, plan
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import World
from tools.fake_github.rest.identity import Caller

if TYPE_CHECKING:
    from tools.fake_github.host import FakeGitHub

Path = tuple["Path | None", str | int]
Resolver = Callable[[Any, dict[str, Any], "Context"], Any]
RESOLVERS: dict[tuple[str, str], Resolver] = {}
TYPE_OF: dict[type, Callable[[Any], str]] = {}
KINDS = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND"}


class GraphError(Exception):
    """An error of one field, with GitHub's type."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Propagation(Exception):  # noqa: N818 -- a signal, not an error
    """A null where none may be, on its way to the nearest nullable field; its error is already noted."""


@dataclass(slots=True)
class Context:
    """What resolvers know: host, caller, the variables and what has been counted."""

    host: "FakeGitHub"
    caller: Caller
    document: Document
    variables: Any = None  # graphql-core's VariableValues
    errors: list[dict[str, Any]] = field(default_factory=list)
    at: tuple[Path, FieldPlan] | None = None  # the field being resolved
    node_count: int = 0
    cost: int = 1

    @property
    def world(self) -> World:
        """Return the state."""
        return self.host.world


def resolver(type_name: str, field_name: str) -> Callable[[Resolver], Resolver]:
    """Register how a field is found."""

    def register(function: Resolver) -> Resolver:
        RESOLVERS[type_name, field_name] = function
        return function

    return register


def type_name_of(value: Any) -> str:
    """Return the name of the concrete type of a value behind an interface."""
    return TYPE_OF[type(value)](value)


def _path_list(path: Path | None) -> list[str | int]:
    found: list[str | int] = []
    while path is not None:
        found.append(path[1])
        path = path[0]
    return found[::-1]


def _note(context: Context, path: Path, node: Any, kind: str, message: str) -> None:
    place = graphql.get_location(node.loc.source, node.loc.start)
    location = {"line": place.line, "column": place.column}
    context.errors.append({"type": kind, "path": _path_list(path), "locations": [location], "message": message})


def note_item(context: Context, place: int, error: GraphError) -> None:
    """Note an error of one item of the list that is being resolved, which stays null."""
    assert context.at is not None
    path, found = context.at
    _note(context, (path, place), found.node, error.kind, error.message)


def _complete_leaf(value: Any, _context: Context, _plan: FieldPlan, _path: Path) -> Any:
    return value


def _completer(declared: Any) -> Callable[[Any, Context, FieldPlan, Path], Any]:
    """Make the function that turns a resolved value of a type into its JSON."""
    if isinstance(declared, graphql.GraphQLNonNull):
        inner = _completer(declared.of_type)

        def complete_required(value: Any, context: Context, found: FieldPlan, path: Path) -> Any:
            if value is None:
                message = f"Cannot return null for non-nullable field {found.owner}.{found.name}."
                _note(context, path, found.node, "INTERNAL", message)
                raise Propagation
            return inner(value, context, found, path)

        return complete_required
    if isinstance(declared, graphql.GraphQLList):
        return _list_completer(declared.of_type)
    if graphql.is_leaf_type(declared):
        return _complete_leaf
    return _object_completer(declared)


def _list_completer(item_type: Any) -> Callable[[Any, Context, FieldPlan, Path], Any]:
    inner, nullable = _completer(item_type), not isinstance(item_type, graphql.GraphQLNonNull)

    def complete_list(value: Any, context: Context, found: FieldPlan, path: Path) -> Any:
        if value is None:
            return None
        shown = []
        for place, item in enumerate(value):
            try:
                shown.append(None if item is None else inner(item, context, found, (path, place)))
            except Propagation:
                if not nullable:
                    raise
                shown.append(None)
        return shown

    return complete_list


def _object_completer(declared: Any) -> Callable[[Any, Context, FieldPlan, Path], Any]:
    concrete = None if graphql.is_abstract_type(declared) else declared.name

    def complete_object(value: Any, context: Context, found: FieldPlan, path: Path) -> Any:
        if value is None:
            return None
        return run_selections(value, concrete or type_name_of(value), found.selections, context, path)

    return complete_object


def run_selections(
    value: Any, type_name: str, selections: tuple[Any, ...], context: Context, path: Path | None
) -> dict[str, Any]:
    """Resolve the selected fields of a value."""
    shown: dict[str, Any] = {}
    for found in plan(context.document, selections, type_name):
        if found.conditions and not is_included(found.conditions, context.variables):
            continue
        shown[found.key] = _run_field(value, found, context, (path, found.key))
    return shown


def _run_field(value: Any, found: FieldPlan, context: Context, path: Path) -> Any:
    if found.complete is None:
        found.complete = _completer(found.type)
        found.resolve = RESOLVERS.get((found.owner, found.name))
    try:
        if found.name == "__typename":
            return found.owner
        if found.resolve is None:
            resolved = value[found.name] if isinstance(value, dict) else getattr(value, found.name)
        else:
            context.at = path, found
            resolved = found.resolve(value, found.argument_values(context.variables), context)
        return found.complete(resolved, context, found, path)
    except GraphError as error:
        _note(context, path, found.node, error.kind, error.message)
    except Refusal as refusal:
        _note(context, path, found.node, KINDS.get(refusal.status, "UNPROCESSABLE"), refusal.message)
    except Propagation:
        pass
    if isinstance(found.type, graphql.GraphQLNonNull):
        raise Propagation
    return None


def run(context: Context, operation: Any) -> dict[str, Any] | None:
    """Run an operation; None when a null reached the top."""
    root = "Mutation" if operation.operation is graphql.OperationType.MUTATION else "Query"
    selections = context.document.roots.setdefault(id(operation), (operation.selection_set,))
    try:
        return run_selections({}, root, selections, context, None)
    except Propagation:
        return None
