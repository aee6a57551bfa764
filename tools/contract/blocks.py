"""The text of a YAML document, entry by entry, so that a part of it is rewritten and the rest stays as it is.

PyYAML reads values and drops comments, quotes and line breaks; here each entry keeps the lines that it was written in.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from schemas.contract import ContractError


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its value, or an item of a list: its lines, and the comments above it."""

    key: str
    above: tuple[str, ...]
    lines: tuple[str, ...]
    name: yaml.Node
    value: yaml.Node

    @property
    def all_lines(self) -> list[str]:
        """The comments above the entry and its lines."""
        return [*self.above, *self.lines]

    def with_lines(self, lines: list[str]) -> list[str]:
        """Return the comments above the entry and other lines in place of its own."""
        return [*self.above, *lines]


class Text:
    """The lines of a document, to be cut along its nodes."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()

    def span(self, name: yaml.Node, value: yaml.Node, indent: int) -> tuple[int, int]:
        """Return the first line of a block below its key, and the one after its last.

        Comments and blank lines that follow the block do not belong to it.
        """
        first, last = name.start_mark.line + 1, value.end_mark.line
        if value.end_mark.column > 0 and not _is_block(value):
            last += 1
        while last > first and self._separates(last - 1, indent):
            last -= 1
        return first, last

    def entries(self, name: yaml.Node, value: yaml.Node, indent: int) -> list[Entry]:
        """Return the entries of the mapping or list below a key, indented by `indent`.

        A flow collection (`{…}`, `[…]`) is returned as a block; whatever is neither has no entries.
        """
        pairs = list(_pairs(value))
        if not pairs:
            return []
        if not _is_block(value):
            return [self._from_flow(key, child, indent) for key, child in pairs]
        actual = value.start_mark.column
        first, end = self.span(name, value, actual)
        starts = [key.start_mark.line for key, _ in pairs]
        entries = []
        for (key, child), start, following in zip(pairs, starts, [*starts[1:], end], strict=True):
            last = following
            while last > start + 1 and self._separates(last - 1, actual):
                last -= 1
            above, lines = self.lines[first:start], self.lines[start:last]
            first = last
            entries.append(
                Entry(_text(key, child), _shifted(above, indent - actual), _shifted(lines, indent - actual), key, child)
            )
        return entries

    def _from_flow(self, key: yaml.Node, child: yaml.Node, indent: int) -> Entry:
        start = f"{self._slice(key)}: " if key is not child else "- "
        return Entry(_text(key, child), (), (" " * indent + start + self._slice(child),), key, child)

    def _slice(self, node: yaml.Node) -> str:
        """Return the text of a node inside a flow collection, on one line."""
        start, end = node.start_mark, node.end_mark
        lines = self.lines[start.line : end.line + 1]
        lines[-1] = lines[-1][: end.column]
        lines[0] = lines[0][start.column :]
        if len(lines) > 1 and any(" #" in line for line in lines):
            raise ContractError(f"line {start.line + 1}: write the entry as a block, or without the comment")
        return " ".join(line.strip() for line in lines)

    def _separates(self, number: int, indent: int) -> bool:
        """Return True if a line is blank, or a comment that does not belong to a deeper entry."""
        line = self.lines[number]
        content = line.lstrip()
        return not content or (content.startswith("#") and len(line) - len(content) <= indent)


def head(entry: Entry) -> str:
    """Return the line with the key of an entry whose value is to be written as a block below it."""
    if _is_block(entry.value) and next(_pairs(entry.value), None):
        return entry.lines[0]
    return entry.lines[0].partition(":")[0] + ":"


def children(node: yaml.Node) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Return the keys of a mapping, each with its own node and that of its value; none for another node."""
    return {str(key.value): (key, value) for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from ((item, item) for item in node.value)


def _text(key: yaml.Node, child: yaml.Node) -> str:
    node = key if key is not child else child
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _shifted(lines: list[str], by: int) -> tuple[str, ...]:
    """Return lines indented deeper by a number of spaces, or less deep by a negative one."""
    if by == 0:
        return tuple(lines)
    return tuple(" " * by + line if by > 0 and line else line[-by:] if by < 0 else line for line in lines)
