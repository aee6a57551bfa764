"""Validation errors of a request: all of them in one response, each with a clear message and its own code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from rules.errors import Detail, ServiceError
from schemas import walk
from schemas.bounds import MAX_NAME_LENGTH
from schemas.contract import Node
from schemas.formats import MAX_DATE_LENGTH, explain
from schemas.instants import is_date
from schemas.patterns import explain as explain_pattern

MISSING = "missing_parameter"
INVALID_PARAMETER = "invalid_parameter"
INVALID_BODY = "validation_failed"

_ARTICLES = {"array": "an array", "integer": "an integer", "object": "an object", "null": "null"}
_FORMATS = {
    "date-time": "a valid date-time with a time zone, such as 2026-11-21T09:30:00Z",
    "date": "a valid date, such as 2026-11-21",
    "email": "an e-mail address",
    "uri": "an absolute URI",
}
MAX_VIOLATIONS = 100
"""Of one request. The outermost are kept."""
_UNKNOWN_FIELD = frozenset({"additionalProperties", "unevaluatedProperties"})
"""The keywords that a field violates which the contract does not have."""
_OTHER_TYPE_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """One validation error: path, message, code, and its place in the order of the errors."""

    path: str
    message: str
    code: str
    order: tuple[Any, ...] = ()


def raise_violations(violations: Sequence[Violation]) -> None:
    """Raise one ServiceError with a row for every violation and the code of the first."""
    first = violations[0]
    more = len(violations) - 1
    message = first.message if not more else f"{first.message} ({more} more error{'s'[: more > 1]} in details)"
    details = tuple(
        Detail(violation.path, violation.message, violation.code) for violation in violations[:MAX_VIOLATIONS]
    )
    raise ServiceError(first.code, message, details=details)


def parameter_violations(name: str, errors: Iterator[jsonschema_rs.ValidationError]) -> Iterator[Violation]:
    """Yield the violations of one query or path value, each once."""
    messages = (
        name + "".join(f"[{key}]" for key in path) + f" {text}"
        for error in errors
        for path, _keyword, text in _problems(error)
    )
    yield from (Violation(name, message, INVALID_PARAMETER) for message in dict.fromkeys(messages))


class BodyViolations:
    """Turns the validator's errors for the body of one operation into violations."""

    def __init__(self, document: Mapping[str, Any], schema: Node) -> None:
        self._document = document
        self._schema = schema

    def of(self, body: Any, errors: Iterator[jsonschema_rs.ValidationError]) -> list[Violation]:
        """Return the violations of `body`, each once, in the order of the schema's properties."""
        found: dict[tuple[str, str], Violation] = {}
        outermost_first = sorted(errors, key=lambda error: len(error.instance_path))
        problems = (problem for error in outermost_first for problem in _problems(error))
        for path, keyword, text in islice(problems, MAX_VIOLATIONS):
            violation = self._violation(body, path, keyword, text)
            found.setdefault((violation.path, violation.message), violation)
        return sorted(found.values(), key=lambda violation: violation.order)

    def _violation(self, body: Any, path: tuple[str | int, ...], keyword: str, text: str) -> Violation:
        code = walk.own_code(self._document, self._schema, body, path, keyword)
        is_unknown = keyword in _UNKNOWN_FIELD
        if code is None or is_unknown:
            code = MISSING if keyword == "required" else INVALID_BODY
        order = (is_unknown, walk.order(self._document, self._schema, body, path))
        shown = walk.pointer([key[:MAX_NAME_LENGTH] if isinstance(key, str) else key for key in path])
        return Violation(shown, f"{_name(path)} {text}", code, order)


def _name(path: Sequence[str | int]) -> str:
    """Return a path of the body as text: `scope.patterns[0]`."""
    if not path:
        return "the body"
    return re.sub(r"\.\[", "[", ".".join(f"[{key}]" if isinstance(key, int) else _printable(key) for key in path))


def _printable(key: str) -> str:
    return key if key.isprintable() and len(key) <= 100 else ascii(key[:100])


def _problems(error: jsonschema_rs.ValidationError) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield path, keyword and message of an error; for anyOf and oneOf, those of the closest branch."""
    path = tuple(error.instance_path)
    kind: Any = error.kind
    if kind.name == "required":
        yield (*path, kind.property), "required", "is required"
    elif kind.name in _UNKNOWN_FIELD:
        for name in kind.unexpected:
            yield (*path, name), kind.name, "is not a known field"
    elif kind.name in {"anyOf", "oneOf"} and kind.context:
        for cause in min(kind.context, key=lambda errors: _distance(errors, len(path))):
            yield from _problems(cause)
    else:
        yield path, kind.name, _message(kind, error.instance)


def _distance(errors: Sequence[jsonschema_rs.ValidationError], depth: int) -> int:
    """Return how far a value at `depth` is from a branch: another type is far, a missing or unknown name is near."""
    weights = {"required": 2, "additionalProperties": 2}
    return sum(
        _OTHER_TYPE_WEIGHT
        if error.kind.name == "type" and len(error.instance_path) == depth
        else weights.get(error.kind.name, 1)
        for error in errors
    )


def _message(kind: Any, value: Any) -> str:
    facts = kind.as_dict()
    if kind.name == "format" and (known := explain(facts["format"], value)):
        return known
    if kind.name == "pattern" and (known := explain_pattern(facts["pattern"], value)):
        return known
    if kind.name == "maxLength" and facts["limit"] == MAX_DATE_LENGTH and is_date(value[:MAX_DATE_LENGTH]):
        return f"must be {_FORMATS['date']}, without a time"
    message = _MESSAGES.get(kind.name)
    return message(facts) if message else "does not match the contract"


def _types(types: Sequence[str]) -> str:
    return " or ".join(_ARTICLES.get(name, f"a {name}") for name in types)


def _counted(limit: int, noun: str) -> str:
    return f"{limit} {noun}" if limit == 1 else f"{limit} {noun}s"


_MESSAGES: Mapping[str, Any] = {
    "type": lambda facts: f"must be {_types(facts['types'])}",
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
    "uniqueItems": lambda _: "must not contain duplicate items",
    "format": lambda facts: f"must be {_FORMATS.get(facts['format'], facts['format'])}",
    "pattern": lambda facts: f"must match {facts['pattern']}",
    "not": lambda _: "is not allowed",
}
