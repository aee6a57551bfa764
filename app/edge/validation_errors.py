"""Faults of a request's values: all of them in one answer, each in our own words and under its own code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from rules.errors import Detail, ServiceError
from schemas import walk
from schemas.contract import Node
from schemas.formats import explain
from schemas.patterns import explain as explain_pattern

MISSING = "missing_parameter"
INVALID_PARAMETER = "invalid_parameter"
INVALID_BODY = "validation_failed"

_ARTICLES = {"array": "an array", "integer": "an integer", "object": "an object", "null": "null"}
_FORMATS = {
    "date-time": "a date and time with zone, such as 2026-11-21T09:30:00Z",
    "date": "a date, such as 2026-11-21",
    "email": "an e-mail address",
    "uri": "an absolute URI",
}
_MOST_ROWS = 100
_FAR = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault: where, what, under which code, and the place that decides which of several comes first."""

    path: str
    message: str
    code: str
    order: tuple[Any, ...] = ()


def refuse(faults: Sequence[Violation]) -> None:
    """Raise one ServiceError with a row for every fault, under the first one's code."""
    first = faults[0]
    more = len(faults) - 1
    message = first.message if not more else f"{first.message} ({more} more fault{'s'[: more > 1]} in details)"
    details = tuple(Detail(fault.path, fault.message, fault.code) for fault in faults[:_MOST_ROWS])
    raise ServiceError(first.code, message, details=details)


def parameter_faults(name: str, errors: Iterator[jsonschema_rs.ValidationError]) -> Iterator[Violation]:
    """Yield what is wrong with one query or path value, each thing once."""
    told = (
        name + "".join(f"[{key}]" for key in path) + f" {words}" for error in errors for path, words in _problems(error)
    )
    yield from (Violation(name, message, INVALID_PARAMETER) for message in dict.fromkeys(told))


class BodyFaults:
    """Turns the validator's errors of one operation's body into faults in the contract's order."""

    def __init__(self, document: Mapping[str, Any], schema: Node) -> None:
        self._document = document
        self._schema = schema

    def of(self, body: Any, errors: Iterator[jsonschema_rs.ValidationError]) -> list[Violation]:
        """Return every fault of `body` once, the first of the schema's property order first."""
        found: dict[tuple[str, str], Violation] = {}
        for error in errors:
            for path, words in _problems(error):
                fault = self._fault(body, path, words, missing=words == _REQUIRED)
                found.setdefault((fault.path, fault.message), fault)
        return sorted(found.values(), key=lambda fault: fault.order)

    def _fault(self, body: Any, path: tuple[str | int, ...], words: str, *, missing: bool) -> Violation:
        code = walk.own_code(self._document, self._schema, body, path)
        unknown = words == _UNKNOWN
        order = (unknown, walk.order(self._document, self._schema, body, path))
        default = MISSING if missing else INVALID_BODY
        return Violation(walk.pointer(path), f"{_name(path)} {words}", (not unknown and code) or default, order)


_REQUIRED = "is required"
_UNKNOWN = "is not a known field"


def _name(path: Sequence[str | int]) -> str:
    """Name a place of the body for people: `scope.patterns[0]`."""
    if not path:
        return "the body"
    return re.sub(r"\.\[", "[", ".".join(f"[{key}]" if isinstance(key, int) else _printable(key) for key in path))


def _printable(key: str) -> str:
    return key if key.isprintable() and len(key) <= 100 else ascii(key[:100])


def _problems(error: jsonschema_rs.ValidationError) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield path and words of an error; the errors of the likeliest branch stand for "matches none"."""
    path = tuple(error.instance_path)
    kind: Any = error.kind
    if kind.name == "required":
        yield (*path, kind.property), _REQUIRED
    elif kind.name in {"additionalProperties", "unevaluatedProperties"}:
        for name in kind.unexpected:
            yield (*path, name), _UNKNOWN
    elif kind.name in {"anyOf", "oneOf"} and kind.context:
        for cause in min(kind.context, key=lambda errors: _distance(errors, len(path))):
            yield from _problems(cause)
    else:
        yield path, _words(kind, error.instance)


def _distance(errors: Sequence[jsonschema_rs.ValidationError], depth: int) -> int:
    """Tell how far a value at `depth` is from a branch: another type is far, missing and unknown names are nearer."""
    weights = {"required": 2, "additionalProperties": 2}
    return sum(
        _FAR if error.kind.name == "type" and len(error.instance_path) == depth else weights.get(error.kind.name, 1)
        for error in errors
    )


def _words(kind: Any, value: Any) -> str:
    facts = kind.as_dict()
    if kind.name == "format" and (known := explain(facts["format"], value)):
        return known
    if kind.name == "pattern" and (known := explain_pattern(facts["pattern"], value)):
        return known
    words = _PHRASES.get(kind.name)
    return words(facts) if words else "does not match the contract"


def _a(types: Sequence[str]) -> str:
    return " or ".join(_ARTICLES.get(name, f"a {name}") for name in types)


def _counted(limit: int, noun: str) -> str:
    return f"{limit} {noun}" if limit == 1 else f"{limit} {noun}s"


_PHRASES: Mapping[str, Any] = {
    "type": lambda facts: f"must be {_a(facts['types'])}",
    "enum": lambda facts: (
        "must be one of " + ", ".join("null" if one is None else str(one) for one in facts["options"])
    ),
    "const": lambda facts: f"must be {facts['expected_value']}",
    "minLength": lambda facts: f"must have at least {_counted(facts['limit'], 'character')}",
    "maxLength": lambda facts: f"must have at most {_counted(facts['limit'], 'character')}",
    "minItems": lambda facts: f"must have at least {_counted(facts['limit'], 'item')}",
    "maxItems": lambda facts: f"must have at most {_counted(facts['limit'], 'item')}",
    "minProperties": lambda facts: f"must have at least {_counted(facts['limit'], 'field')}",
    "maxProperties": lambda facts: f"must have at most {_counted(facts['limit'], 'field')}",
    "minimum": lambda facts: f"must be at least {facts['limit']}",
    "maximum": lambda facts: f"must be at most {facts['limit']}",
    "exclusiveMinimum": lambda facts: f"must be more than {facts['limit']}",
    "exclusiveMaximum": lambda facts: f"must be less than {facts['limit']}",
    "multipleOf": lambda facts: f"must be a multiple of {facts['multiple_of']}",
    "uniqueItems": lambda _: "must not hold the same item twice",
    "format": lambda facts: f"must be {_FORMATS.get(facts['format'], facts['format'])}",
    "pattern": lambda facts: f"must match {facts['pattern']}",
    "not": lambda _: "is not allowed",
}
