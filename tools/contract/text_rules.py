"""Rules on the text, before it is read as an object."""

from collections.abc import Iterator

import yaml

from tools.contract.document import Problem

_TEMPLATES = (b"{{", b"{%")


def check(source: bytes) -> Iterator[Problem]:
    """Yield the problems that change how the text is read."""
    yield from templates(source)
    try:
        root = yaml.compose(source, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        yield Problem(line, "document", f"is not YAML: {error.problem}")
        return
    if not isinstance(root, yaml.MappingNode):
        yield Problem(1, "document", "is not an object")
        return
    for node in _nodes(root):
        yield from duplicate_keys(node)
        yield from surprising_scalars(node)


def templates(source: bytes) -> Iterator[Problem]:
    """Refuse Jinja2 templates: Connexion renders the file before it reads it."""
    for number, line in enumerate(source.splitlines(), 1):
        for template in _TEMPLATES:
            if template in line:
                yield Problem(number, "document", f"{template.decode()} is taken for a template")


def duplicate_keys(node: yaml.Node) -> Iterator[Problem]:
    """Refuse duplicate keys, of which YAML parsers silently keep one."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                yield Problem(key.start_mark.line + 1, "document", f"the key {key.value} is given twice")
            seen.add(key.value)


def surprising_scalars(node: yaml.Node) -> Iterator[Problem]:
    """Refuse bare dates, on and no, which some parsers read as dates and booleans."""
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return
    dated = node.tag == "tag:yaml.org,2002:timestamp"
    boolean = node.tag == "tag:yaml.org,2002:bool" and node.value not in {"true", "false"}
    if dated or boolean:
        yield Problem(node.start_mark.line + 1, "document", f"quote {node.value}, which YAML does not read as text")


def _nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            for child in pair:
                yield from _nodes(child)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from _nodes(child)
