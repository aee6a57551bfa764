"""Stripe's form encoding: `a[b][0][c]=d`, `a[]=d`."""

import re
from typing import Any
from urllib.parse import parse_qsl

from tools.fake_stripe.refusals import invalid

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_INDEX = re.compile(r"\[([^\[\]]*)\]")


def decode(text: str) -> dict[str, Any]:
    """Return the parameters of a form: strings and objects; a list is an object whose keys are numbers.

    Raise Refusal if a name is malformed.
    """
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found = _NAME.fullmatch(name)
        if found is None:
            raise invalid(f"Invalid parameter name: {name}", name)
        _put(tree, [found[1], *_INDEX.findall(found[2])], value)
    return tree


def _put(tree: dict[str, Any], path: list[str], value: str) -> None:
    """Put a value into a tree of objects."""
    for position, name in enumerate(path[:-1]):
        key = name or _open_element(tree, path[position + 1 :])
        inner = tree.setdefault(key, {})
        if not isinstance(inner, dict):
            raise invalid(f"Invalid parameters: {path[0]} is both a value and an object", path[0])
        tree = inner
    tree[path[-1] or str(len(tree))] = value


def _open_element(tree: dict[str, Any], rest: list[str]) -> str:
    """Return the number of the element that `a[][b]` belongs to: the last one, until it has a `b`."""
    last = tree.get(str(len(tree) - 1))
    is_open = isinstance(last, dict) and rest[0] not in last
    return str(len(tree) - 1 if is_open else len(tree))
