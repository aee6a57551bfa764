"""The contract's own linter: what a general OpenAPI linter cannot know about our conventions and policies.

`python -m tools.contract_lint [file]` prints `openapi.yaml:line: operation: message` for each fault and exits with 1
when there is one. A rule is a small function that yields faults; `RULES` in each module lists them.
"""

from collections.abc import Iterator

from tools.contract_lint import error_rules, example_rules, operation_rules, schema_rules, text_rules
from tools.contract_lint.document import Document, Fault

__all__ = ["Document", "Fault", "lint"]


def lint(source: bytes) -> list[Fault]:
    """Return every fault of a contract's text, in the order of its lines."""
    faults = list(text_rules.check(source))
    if not faults:
        faults = list(_check(Document.parse(source)))
    return sorted(set(faults), key=lambda fault: (fault.line, fault.where, fault.message))


def _check(document: Document) -> Iterator[Fault]:
    broken = list(schema_rules.broken_references(document))
    yield from broken
    if broken:
        return  # every other rule follows references
    for rule in (*schema_rules.RULES, *error_rules.RULES, *example_rules.RULES):
        yield from rule(document)
    for operation in document.operations():
        for operation_rule in (*operation_rules.RULES, *error_rules.OPERATION_RULES, *example_rules.OPERATION_RULES):
            yield from operation_rule(operation)
