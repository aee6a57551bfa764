"""Writes a contract as YAML: what is short stands on one line, long texts are folded, everything else is a block."""

import json
from typing import Any

import yaml

_WIDTH = 120
_TAG = "tag:yaml.org,2002:"


def write(document: Any, comment: str = "") -> bytes:
    """Return a document as YAML below a comment, with a blank line above each path and each key of the document."""
    text: str = yaml.serialize(_node(document, 0, 0), Dumper=yaml.CSafeDumper, width=_WIDTH, allow_unicode=True)
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for line in text.splitlines():
        if line[:1].isalpha() or line.startswith("  /"):
            lines.append("")
        lines.append(line)
    return ("\n".join(lines).lstrip("\n") + "\n").encode()


def _node(value: Any, indent: int, column: int) -> yaml.Node:
    """Return the node of a value that begins at `column` in the line of its key, or below it, indented by `indent`."""
    if isinstance(value, str):
        style = "|" if "\n" in value else ">" if column + len(value) > _WIDTH else None
        return yaml.ScalarNode(f"{_TAG}str", value, style=style)
    if not isinstance(value, dict | list):
        kind = "null" if value is None else "bool" if isinstance(value, bool) else type(value).__name__
        return yaml.ScalarNode(f"{_TAG}{kind}", json.dumps(value))
    inline = indent > 0 and column + len(json.dumps(value, ensure_ascii=False)) <= _WIDTH
    if isinstance(value, list):
        items = [_node(item, indent + 2, indent + 2) for item in value]
        return yaml.SequenceNode(f"{_TAG}seq", items, flow_style=inline)
    pairs = [(_node(key, 0, 0), _node(each, indent + 2, indent + len(key) + 2)) for key, each in value.items()]
    return yaml.MappingNode(f"{_TAG}map", pairs, flow_style=inline)
