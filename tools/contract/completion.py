"""Writes into a contract what follows from the rest of it, and nothing else: comments and wording stay as they are.

Of the schemas of answers: what keeps them open (see `openness`). Of each operation: `x-errors`, the derived parameters,
headers and error responses (see `derivation` and `refusals`), and the order of keys, codes, headers and responses.
Running it again changes nothing.
"""

import yaml

from schemas.contract import METHODS
from tools.contract import derivation, openness, refusals
from tools.contract.blocks import Entry, Text, children, head
from tools.contract.document import Document, Operation

_ORDER = (
    "operationId",
    "tags",
    "summary",
    "description",
    "security",
    "x-effect",
    "x-audit",
    "x-database-role",
    "x-organization",
    "x-least-role",
    "x-entitlement",
    "x-installation",
    "x-body-limit",
    "x-rate-limit",
    "x-unknown-query",
    "x-mcp-tool",
    "x-mcp-confirm",
    "x-errors",
    "parameters",
    "requestBody",
    "responses",
)
"""The order of an operation's keys; a key that is not here stands below the description."""
_UNKNOWN = _ORDER.index("description") + 0.5
_STEP = 2


def complete(document: Document) -> bytes:
    """Return the contract's text completed, sorted and formatted; its references must all exist."""
    return _Completion(Document.parse(openness.completed(document))).run().encode()


class _Completion:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._text = Text(document.source.decode())

    def run(self) -> str:
        """Return the text of the document with shared responses and paths completed."""
        root = children(self._document.node)
        components = children(root["components"][1]) if "components" in root else {}
        blocks = [
            (block, build)
            for block, build in (
                (root.get("paths"), self._paths),
                (components.get("responses"), self._shared_responses),
                (components.get("examples"), self._shared_examples),
            )
            if block
        ]
        lines = list(self._text.lines)
        for block, build in sorted(blocks, key=lambda each: each[0][0].start_mark.line, reverse=True):
            # from the end of the document to its beginning, so that the lines of the next one stay valid
            first, last = self._text.span(*block, _indent(block[0]) + _STEP)
            lines[first:last] = build(*block)
        return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"

    def _paths(self, name: yaml.Node, paths: yaml.Node) -> list[str]:
        lines: list[str] = []
        for entry in self._text.entries(name, paths, _indent(name) + _STEP):
            if lines and not (entry.above and not entry.above[0]):
                lines.append("")
            lines += entry.with_lines([head(entry), *self._path_item(entry.key, entry)])
        return lines

    def _shared_responses(self, name: yaml.Node, responses: yaml.Node) -> list[str]:
        """Return the derived responses, and below them those that are written by hand, with their derived headers."""
        indent = _indent(name) + _STEP
        derived = refusals.responses(self._document)
        lines = [line for key, content in derived.items() for line in refusals.block(key, content, indent)]
        for entry in self._text.entries(name, responses, indent):
            if refusals.is_error(self._document.components("responses")[entry.key]):
                continue
            inner = self._text.entries(entry.name, entry.value, indent + _STEP)
            response = self._response(inner, ["X-Request-Id"], set(), indent + _STEP)
            lines += entry.with_lines([head(entry), *response])
        return lines

    def _shared_examples(self, name: yaml.Node, examples: yaml.Node) -> list[str]:
        """Return the examples that are written by hand, and below them those of error codes."""
        indent = _indent(name) + _STEP
        names = refusals.example_names(self._document)
        lines = [
            line
            for entry in self._text.entries(name, examples, indent)
            if entry.key not in names
            for line in entry.all_lines
        ]
        derived = refusals.examples(self._document)
        return lines + [line for key, content in derived.items() for line in refusals.block(key, content, indent)]

    def _path_item(self, path: str, parent: Entry) -> list[str]:
        indent = 2 * _STEP
        entries = {entry.key: entry for entry in self._text.entries(parent.name, parent.value, indent)}
        methods = {method: Operation(self._document, path, method) for method in METHODS if method in entries}
        declared = {parameter["name"] for operation in methods.values() for _, parameter in operation.parameters}
        missing = [
            component
            for parameter, component in derivation.path_parameters(self._document, path).items()
            if parameter not in declared
        ]
        blocks = {key: entry.all_lines for key, entry in entries.items()}
        if missing:
            written = entries.get("parameters")
            items = self._items(written, indent) if written else []
            blocks["parameters"] = _listed(written, "parameters", indent, [*_references(missing, indent), *items])
        for method, operation in methods.items():
            entry = entries[method]
            blocks[method] = entry.with_lines([head(entry), *self._operation(operation, entry, indent + _STEP)])
        order = sorted(blocks, key=lambda key: (key in methods, key != "parameters"))
        return [line for key in order for line in blocks[key]]

    def _operation(self, operation: Operation, parent: Entry, indent: int) -> list[str]:
        entries = {entry.key: entry for entry in self._text.entries(parent.name, parent.value, indent)}
        blocks = {key: entry.all_lines for key, entry in entries.items()}
        codes = derivation.error_codes(operation)
        parts = {
            "x-errors": self._codes(entries.get("x-errors"), codes, indent),
            "parameters": self._parameters(entries.get("parameters"), operation, indent),
            "responses": self._responses(entries.get("responses"), operation, indent),
        }
        for key, lines in parts.items():
            blocks.pop(key, None)
            if lines:
                blocks[key] = _listed(entries.get(key), key, indent, lines)
        order = sorted(blocks, key=lambda key: _ORDER.index(key) if key in _ORDER else _UNKNOWN)
        return [line for key in order for line in blocks[key]]

    def _codes(self, written: Entry | None, codes: list[str], indent: int) -> list[str]:
        below = indent + _STEP
        found = {entry.key: entry for entry in self._entries(written, below)}
        return [
            line
            for code in codes
            for line in (
                found[code].with_lines(list(found[code].lines)) if code in found else [f"{' ' * below}- {code}"]
            )
        ]

    def _parameters(self, written: Entry | None, operation: Operation, indent: int) -> list[str]:
        """Return the derived parameters, and below them those of the operation's own."""
        document, shared = operation.document, operation.document.components("parameters")
        own = [document.resolved(parameter)["name"] for parameter in operation.raw.get("parameters") or ()]
        blocks = dict(zip(own, self._entries(written, indent + _STEP), strict=True))
        lines: list[str] = []
        for component, applies in derivation.PARAMETERS.items():
            name, location = (shared[component][key] for key in ("name", "in")) if component in shared else ("", "")
            if not applies(operation):
                if component == "IdempotencyKey":
                    blocks.pop(name, None)
            elif name in blocks:
                lines += blocks.pop(name).all_lines
            elif name and not operation.has_parameter(name, location):
                lines += _references([component], indent)
        return lines + [line for entry in blocks.values() for line in entry.all_lines]

    def _responses(self, written: Entry | None, operation: Operation, indent: int) -> list[str]:
        """Return the responses that are written by hand, with their derived headers, and the derived ones of errors."""
        below = indent + _STEP
        found = {entry.key: entry for entry in self._entries(written, below)}
        raw = operation.raw.get("responses") or {}
        derived = {
            status: f'{" " * below}"{status}": {{$ref: "#/components/responses/{refusal.name}"}}'
            for status, refusal in refusals.refusals(operation).items()
        }
        blocks: dict[str, list[str]] = {}
        for status, entry in found.items():
            if "$ref" not in raw[status]:
                names, excluded = derivation.headers(operation, status), derivation.excluded_headers(operation, status)
                inner = self._text.entries(entry.name, entry.value, below + _STEP)
                blocks[status] = entry.with_lines([head(entry), *self._response(inner, names, excluded, below + _STEP)])
            elif not refusals.is_derived(operation, status):
                blocks[status] = entry.all_lines
            elif status in derived:
                blocks[status] = entry.with_lines([derived[status]])
        for status in derived.keys() - blocks.keys():
            blocks[status] = [derived[status]]
        return [line for status in sorted(blocks) for line in blocks[status]]

    def _response(self, entries: list[Entry], names: list[str], excluded: set[str], indent: int) -> list[str]:
        """Return a response with its derived headers, which stand below those of its own."""
        blocks = {entry.key: entry.all_lines for entry in entries}
        if "$ref" in blocks:
            return blocks["$ref"]
        written = next((entry for entry in entries if entry.key == "headers"), None)
        headers = {entry.key: entry for entry in self._entries(written, indent + _STEP)}
        lines = [
            line
            for name, entry in headers.items()
            if name not in names and name not in excluded
            for line in entry.all_lines
        ]
        for name in names:
            reference = f'{" " * (indent + _STEP)}{name}: {{$ref: "#/components/headers/{name}"}}'
            lines += headers[name].all_lines if name in headers else [reference]
        blocks.pop("headers", None)
        if lines:
            blocks["headers"] = _listed(written, "headers", indent, lines)
        rank = {"description": 0, "headers": 1, "content": 2, "links": 3}
        return [line for key in sorted(blocks, key=lambda key: rank.get(key, 4)) for line in blocks[key]]

    def _entries(self, written: Entry | None, indent: int) -> list[Entry]:
        return self._text.entries(written.name, written.value, indent) if written else []

    def _items(self, written: Entry, indent: int) -> list[str]:
        return [line for entry in self._entries(written, indent + _STEP) for line in entry.all_lines]


def _listed(written: Entry | None, key: str, indent: int, lines: list[str]) -> list[str]:
    """Return a key with its entries below it."""
    return [*written.above, head(written), *lines] if written else [f"{' ' * indent}{key}:", *lines]


def _references(components: list[str], indent: int) -> list[str]:
    return [f'{" " * (indent + _STEP)}- $ref: "#/components/parameters/{name}"' for name in components]


def _indent(name: yaml.Node) -> int:
    return int(name.start_mark.column)
