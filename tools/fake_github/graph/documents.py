"""The schema, and documents ready to execute: parsed, validated, and cached by their text.

The schema is a cut of GitHub's public one, from npm `@octokit/graphql-schema` 15.26.1.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import graphql

SCHEMA = graphql.build_schema(Path(__file__).with_name("schema.graphql").read_text(encoding="utf-8"))
MAX_CACHED_DOCUMENTS = 512


@dataclass(slots=True)
class Document:
    """A valid document with its operations and fragments by name."""

    syntax: graphql.DocumentNode
    operations: dict[str, Any]
    fragments: dict[str, Any]

    def operation(self, name: str | None) -> Any:
        """Return the operation to run, or None if the name does not identify one."""
        if name:
            return self.operations.get(name)
        return next(iter(self.operations.values())) if len(self.operations) == 1 else None


class InvalidDocumentError(Exception):
    """A document that does not parse or does not match the schema; `errors` are GitHub's JSON."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__("invalid document")
        self.errors = errors


@lru_cache(maxsize=MAX_CACHED_DOCUMENTS)
def prepare(text: str) -> Document:
    """Return the parsed and validated document. Raise InvalidDocumentError if it is not valid."""
    try:
        syntax = graphql.parse(text)
    except graphql.GraphQLError as error:
        raise InvalidDocumentError([dict(error.formatted)]) from error
    errors = graphql.validate(SCHEMA, syntax)
    if errors:
        raise InvalidDocumentError([dict(error.formatted) for error in errors])
    operations, fragments = {}, {}
    for definition in syntax.definitions:
        if isinstance(definition, graphql.OperationDefinitionNode):
            operations[definition.name.value if definition.name else ""] = definition
        elif isinstance(definition, graphql.FragmentDefinitionNode):
            fragments[definition.name.value] = definition
    return Document(syntax, operations, fragments)
