"""The parameters of requests: what a call accepts, and how it is read from a form with names such as `items[0][price]`.

What a call accepts is written as `str`, `int`, `bool`, a set of words, a list of one of these, or a table: names that
end in `!` are required, and `*` stands for every name. A parameter that is not declared is refused, as Stripe refuses
what it does not know. The tests hold every declaration against the `stripe` package.
"""

import re
from typing import Any
from urllib.parse import parse_qsl

from tools.fake_stripe.refusals import invalid, missing_parameter

METADATA: dict[str, Any] = {"*": str}


def decode(text: str) -> dict[str, Any]:
    """Return the parameters of a form: strings and tables; a list is a table whose keys are numbers."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        *path, last = name.replace("]", "").split("[")
        inner = tree
        for step in path:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return tree


def read(accepted: Any, value: Any, name: str = "") -> Any:
    """Return a value as what is accepted. Raise Refusal if it is not that; `name` is how the value was named."""
    if isinstance(accepted, dict):
        return _read_table(accepted, value, name)
    if isinstance(accepted, list):
        if not isinstance(value, dict) or not all(key.isdecimal() for key in value):
            raise invalid("Invalid array", name)
        return [read(accepted[0], value[key], f"{name}[{key}]") for key in sorted(value, key=int)]
    if not isinstance(value, str):
        raise invalid(f"Invalid string: {str(value)[:40]}", name)
    return _read_text(accepted, value, name)


def _read_text(accepted: Any, value: str, name: str) -> Any:
    if accepted is bool:
        if value not in {"true", "false"}:
            raise invalid(f"Invalid boolean: {value}", name)
        return value == "true"
    if accepted is int:
        if not re.fullmatch(r"-?[0-9]+", value):
            raise invalid(f"Invalid integer: {value}", name, "parameter_invalid_integer")
        return int(value)
    if accepted is str:
        if not value:
            raise invalid(f"You passed an empty string for '{name}'.", name, "parameter_invalid_empty")
        return value
    if value not in accepted:
        raise invalid(f"Invalid {name}: must be one of {', '.join(sorted(accepted))}", name)
    return value


def _read_table(accepted: dict[str, Any], value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid("Invalid object", name)
    known = {key.rstrip("!"): each for key, each in accepted.items()}
    for key in value:
        if key not in known and "*" not in known:
            raise invalid(f"Received unknown parameter: {_nested(name, key)}", _nested(name, key), "parameter_unknown")
    for key in accepted:
        if key.endswith("!") and key[:-1] not in value:
            raise missing_parameter(_nested(name, key[:-1]))
    return {key: read(known.get(key, known.get("*")), each, _nested(name, key)) for key, each in value.items()}


def _nested(name: str, key: str) -> str:
    return f"{name}[{key}]" if name else key
