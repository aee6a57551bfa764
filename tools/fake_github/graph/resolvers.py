"""How resolvers are attached to the schema, what they get, and the errors they raise."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import graphql

from tools.fake_github.core import Core
from tools.fake_github.graph.documents import SCHEMA
from tools.fake_github.identity import Caller
from tools.fake_github.model.world import World

Resolver = Callable[[Any, dict[str, Any], "Context"], Any]
ITEMS = ("nodes", "pageInfo")
TYPE_OF: dict[type, Callable[[Any], str]] = {}


class GraphError(Exception):
    """An error of one field, with GitHub's type."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


@dataclass(slots=True)
class Context:
    """What resolvers get: the simulated GitHub, the caller, and the cost of the operation."""

    github: Core
    caller: Caller
    node_count: int
    cost: int

    @property
    def world(self) -> World:
        """Return the state."""
        return self.github.world


def resolver(type_name: str, field_name: str) -> Callable[[Resolver], Resolver]:
    """Register how a field is resolved: from the parent value, the arguments and the context."""

    def register(function: Resolver) -> Resolver:
        def resolve(value: Any, info: graphql.GraphQLResolveInfo[Any], **arguments: Any) -> Any:
            if paged and _only_counts(info):
                arguments = {"first": 0, **arguments}
            return function(value, arguments, info.context)

        owner = SCHEMA.type_map[type_name]
        assert isinstance(owner, graphql.GraphQLObjectType)
        paged = "first" in owner.fields[field_name].args
        owner.fields[field_name].resolve = resolve
        return function

    return register


def _only_counts(info: graphql.GraphQLResolveInfo[Any]) -> bool:
    """True if a query asks for counts of a connection alone, for which GitHub requires no page size."""
    selected = [each for node in info.field_nodes if node.selection_set for each in node.selection_set.selections]
    return all(isinstance(each, graphql.FieldNode) and each.name.value not in ITEMS for each in selected)


def attributes(type_name: str, **fields: str) -> None:
    """Register that fields are attributes of the parent value: name of the field → name of the attribute."""
    for field_name, attribute in fields.items():
        resolver(type_name, field_name)(partial(_attribute, attribute))


def _attribute(name: str, value: Any, _args: dict[str, Any], _context: Context) -> Any:
    return getattr(value, name)


def resolve_attribute(value: Any, info: graphql.GraphQLResolveInfo[Any], **_arguments: Any) -> Any:
    """Resolve a field that has no resolver: the key or attribute of its name."""
    return value[info.field_name] if isinstance(value, dict) else getattr(value, info.field_name)


def resolve_type(value: Any, _info: graphql.GraphQLResolveInfo[Any], _declared: Any) -> str:
    """Return the name of the concrete type of a value behind an interface or union."""
    return TYPE_OF[type(value)](value)
