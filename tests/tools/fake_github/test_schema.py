"""The graph's schema is a cut of GitHub's own, as npm `@octokit/graphql-schema` has it."""

from pathlib import Path
from typing import Any

import graphql
import pytest

from tools.fake_github.graph.documents import SCHEMA

pytestmark = [pytest.mark.check, pytest.mark.slow(10)]
MODULES = Path(__file__).parent.parent.parent.parent / "node_modules"
PUBLISHED = MODULES / "@octokit" / "graphql-schema" / "schema.graphql"


def inputs(given: dict[str, Any]) -> dict[str, tuple[str, object]]:
    """Return type and default of arguments, or of the fields of an input."""
    return {name: (str(each.type), each.default_value) for name, each in given.items()}


def differences(ours: graphql.GraphQLNamedType, theirs: graphql.GraphQLNamedType) -> list[str]:
    """Return what of a type of ours is not as GitHub has it."""
    if isinstance(ours, graphql.GraphQLEnumType) and isinstance(theirs, graphql.GraphQLEnumType):
        return sorted(set(ours.values) ^ set(theirs.values))
    if isinstance(ours, graphql.GraphQLUnionType) and isinstance(theirs, graphql.GraphQLUnionType):
        return sorted({each.name for each in ours.types} - {each.name for each in theirs.types})
    if isinstance(ours, graphql.GraphQLInputObjectType) and isinstance(theirs, graphql.GraphQLInputObjectType):
        return [] if inputs(ours.fields) == inputs(theirs.fields) else [ours.name]
    kinds = (graphql.GraphQLObjectType, graphql.GraphQLInterfaceType)
    if not isinstance(ours, kinds) or not isinstance(theirs, kinds):
        return [] if type(ours) is type(theirs) else [f"{ours.name} is another kind of type"]
    found = sorted({each.name for each in ours.interfaces} - {each.name for each in theirs.interfaces})
    for name, field in ours.fields.items():
        there = theirs.fields.get(name)
        same = there and str(there.type) == str(field.type) and inputs(there.args) == inputs(field.args)
        found += [] if same else [f"{ours.name}.{name}"]
    return found


def test_every_type_and_field_of_the_schema_is_githubs() -> None:
    text = PUBLISHED.read_text(encoding="utf-8")
    published = graphql.build_schema(text, assume_valid_sdl=True)  # it has two fields twice
    own = [ours for name, ours in SCHEMA.type_map.items() if not name.startswith("__")]
    missing = [ours.name for ours in own if ours.name not in published.type_map]
    assert missing == []
    assert [each for ours in own for each in differences(ours, published.type_map[ours.name])] == []
