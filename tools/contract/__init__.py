"""The contract's own tools: one completes `openapi.yaml`, one checks what people write in it.

`python -m tools.contract complete` fills in what follows from the rest (see `derivation`), in place.
`python -m tools.contract lint` prints `openapi.yaml:line: operation: message` for each problem, and exits with 1 if
there is one: what a general OpenAPI linter cannot know of our conventions, and a file that `complete` would change.
"""

from collections.abc import Iterator
from itertools import zip_longest

from tools.contract import error_rules, example_rules, growth_rules, operation_rules, schema_rules, text_rules
from tools.contract.completion import complete
from tools.contract.document import Document, Problem

__all__ = ["Document", "Problem", "complete", "find_blocking_problems", "lint"]


def lint(source: bytes) -> list[Problem]:
    """Return every problem of a contract's text, in the order of its lines."""
    problems = find_blocking_problems(source) or list(_check(Document.parse(source)))
    return sorted(set(problems), key=lambda problem: (problem.line, problem.where, problem.message))


def find_blocking_problems(source: bytes) -> list[Problem]:
    """Return the problems that keep the contract from being read and completed: of its text, and of its references."""
    return list(text_rules.check(source)) or list(schema_rules.broken_references(Document.parse(source)))


def _check(document: Document) -> Iterator[Problem]:
    yield from _incomplete(document)
    for rule in (*schema_rules.RULES, *growth_rules.RULES, *error_rules.RULES, *example_rules.RULES):
        yield from rule(document)
    for operation in document.operations():
        for operation_rule in (*operation_rules.RULES, *error_rules.OPERATION_RULES, *example_rules.OPERATION_RULES):
            yield from operation_rule(operation)


def _incomplete(document: Document) -> Iterator[Problem]:
    """Yield the first line that `make contract` would change."""
    completed = complete(document)
    if document.source == completed:
        return
    pairs = zip_longest(document.source.decode().splitlines(), completed.decode().splitlines())
    changes = ((line, new or "") for line, (old, new) in enumerate(pairs, 1) if old != new)
    line, new = next(changes, (1, "the line ends differently"))
    yield Problem(line, "document", f"run make contract, which writes here: {new.strip()}")
