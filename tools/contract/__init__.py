"""The contract's own tools: they make `openapi.yaml` of its sources, the files of `contract/`, and check these.

`python -m tools.contract complete` merges the sources, adds what follows from them (see `derivation`), and writes
`openapi.yaml`. `python -m tools.contract lint` prints `file:line: operation: message` for each problem, and exits with
1 if there is one: what a general OpenAPI linter cannot know of our conventions, and an `openapi.yaml` that is not
current.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.contract import operation_rules, schema_rules, vocabulary
from tools.contract.completion import complete
from tools.contract.document import Document, Problem
from tools.contract.sources import merge, read_sources
from tools.contract.writing import write

__all__ = ["OUTPUT", "Built", "Document", "Problem", "build", "lint", "read_sources", "write"]

OUTPUT = "openapi.yaml"
COMMENT = "Written by `make contract` from the files in contract/. Edit those: changes here are lost.\n"


@dataclass(frozen=True, eq=False)
class Built:
    """The contract that sources give."""

    document: Document
    blocking: list[Problem]
    """What keeps the contract from being made; then the document is empty."""
    misplaced: list[Problem]
    """What stands in the wrong file, follows from the rest, or cannot hold."""

    @cached_property
    def text(self) -> bytes:
        """The text of `openapi.yaml`."""
        return write(self.document.root, COMMENT)

    @property
    def problems(self) -> list[Problem]:
        """Every problem of the sources, in the order of files and lines."""
        found = self.blocking or [*self.misplaced, *_check(self.document)]
        return sorted(set(found))


def build(texts: Mapping[str, bytes]) -> Built:
    """Return the contract of sources, given as name → text."""
    merged, blocking, foreign = merge(texts)
    if blocking:
        return Built(Document({}), blocking, [])
    completed, surplus = complete(merged)
    return Built(completed, [], [*foreign, *surplus])


def lint(root: Path) -> list[Problem]:
    """Return every problem of the sources below `root`, and whether its `openapi.yaml` is what they give."""
    built = build(read_sources(root))
    output = root / OUTPUT
    if not built.blocking and (not output.exists() or output.read_bytes() != built.text):
        return [Problem(OUTPUT, 1, "document", "is not what contract/ gives: run make contract"), *built.problems]
    return built.problems


def _check(document: Document) -> Iterator[Problem]:
    """Apply the rules: the public functions of these modules, each of the document or of one operation."""
    operations = list(document.operations())
    for module in (schema_rules, operation_rules, vocabulary):
        for name, rule in inspect.getmembers(module, inspect.isgeneratorfunction):
            if rule.__module__ == module.__name__ and not name.startswith("_"):
                subjects = operations if "operation" in inspect.signature(rule).parameters else [document]
                for subject in subjects:
                    yield from rule(subject)
