"""Path and query parameters: decoded strictly, typed by the contract; all errors are reported together."""

import re
from collections.abc import Callable, Container, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from app.edge.request_context import RequestContext
from app.edge.validation_errors import INVALID_PARAMETER, MISSING, Violation, parameter_violations
from rules.contract_names import snake_case
from schemas.bounds import MAX_ITEMS
from schemas.contract import Contract, Operation, Parameter
from schemas.dialect import Validators
from schemas.instants import parse_instant

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,18})?")
_PERCENT_GARBAGE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_PAIRS = 2000
_LISTS = {b"if-match"}
"""Headers whose lines are parts of one list (RFC 9110, 5.3)."""


def _integer(text: str) -> int | str:
    """Parse plain ASCII digits. Other text is returned unchanged, and the schema rejects it."""
    return int(text) if _INTEGER.fullmatch(text) else text


def _number(text: str) -> float | str:
    return float(text) if _NUMBER.fullmatch(text) else text


def _boolean(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text, text)


_READERS: dict[str | None, Callable[[str], Any]] = {"integer": _integer, "number": _number, "boolean": _boolean}


class _Reader:
    """Reads the values of one parameter."""

    def __init__(self, contract: Contract, validators: Validators, parameter: Parameter) -> None:
        schema = contract.resolve(parameter.schema)
        self.name = parameter.name
        self.argument = snake_case(parameter.name)
        self.required = parameter.required
        self.default = schema.get("default")
        self._many = schema.get("type") == "array"
        self._explode = parameter.explode
        self._allow_empty = parameter.allow_empty
        self._max_texts = schema.get("maxItems", MAX_ITEMS) + 1
        items = contract.resolve(schema.get("items", {})) if self._many else schema
        self._read = _READERS.get(items.get("type"))
        self._instant = items.get("format") == "date-time"
        self._validator = validators.compile(parameter.schema)

    def value(self, texts: Sequence[str], violations: list[Violation]) -> Any:
        """Return the typed value, or None with its errors appended to `violations`."""
        if self._many:
            texts = (texts if self._explode else texts[-1].split(","))[: self._max_texts]
        elif len(texts) > 1:
            violations.append(Violation(self.name, f"{self.name} must be given only once", INVALID_PARAMETER))
            return None
        if self._allow_empty and list(texts) == [""]:
            return self.default
        values = [self._read(text) for text in texts] if self._read else list(texts)
        value = values if self._many else values[0]
        if not self._validator.is_valid(value):
            violations.extend(parameter_violations(self.name, self._validator.iter_errors(value)))
            return None
        if self._instant:
            instants = [parse_instant(text) for text in texts]
            return instants if self._many else instants[0]
        return value


class ParameterReader:
    """Reads the path and query parameters of one operation, and the headers that its handler takes as arguments."""

    def __init__(
        self, contract: Contract, validators: Validators, operation: Operation, wanted: Container[str]
    ) -> None:
        readers = [(one.location, _Reader(contract, validators, one)) for one in operation.parameters]
        self._path = {reader.name: reader for location, reader in readers if location == "path"}
        self._query = {reader.name: reader for location, reader in readers if location == "query"}
        self._headers = [
            (reader.name.lower().encode(), reader)
            for location, reader in readers
            if location == "header" and reader.argument in wanted
        ]
        self._reads_query = not operation.classic
        """The compatibility API takes no parameters in the query but the token, and ignores unknown ones."""
        self._ignores_unknown = operation.ignores_unknown_query
        self._absent = {reader.argument: reader.default for reader in self._query.values()}
        self._required = [reader for reader in self._query.values() if reader.required]

    def read(self, request: RequestContext, violations: list[Violation]) -> dict[str, Any]:
        """Return the arguments by Python name, with defaults. Validation errors are appended to `violations`."""
        arguments = dict(self._absent)
        for name, value in zip(*request.scope["route"], strict=True):
            reader = self._path[name]
            arguments[reader.argument] = reader.value((value,), violations)
        query = request.scope["query_string"]
        given = _pairs(query, violations) if query and self._reads_query else {}
        for name, texts in given.items():
            found = self._query.get(name)
            if found is None:
                if not self._ignores_unknown:
                    violations.append(_unknown(name))
            else:
                arguments[found.argument] = found.value(texts, violations)
        violations.extend(_missing(one.name) for one in self._required if one.name not in given)
        for header, reader in self._headers:
            arguments[reader.argument] = _header(request, header, reader, violations)
        return arguments


def _header(request: RequestContext, name: bytes, reader: _Reader, violations: list[Violation]) -> Any:
    given = request.headers(name)
    if name in _LISTS and given:
        given = [b", ".join(given)]
    if given:
        return reader.value([value.decode("latin-1") for value in given], violations)
    if reader.required:
        violations.append(_missing(reader.name))
    return reader.default


def _missing(name: str) -> Violation:
    return Violation(name, f"{name} is required", MISSING)


def _unknown(name: str) -> Violation:
    if not name:
        return Violation("", "empty query parameter name", INVALID_PARAMETER)
    shown = name[:100] if name.isprintable() else ascii(name[:100])
    return Violation(shown, f"{shown} is not a known query parameter", INVALID_PARAMETER)


def _pairs(query: bytes, violations: list[Violation]) -> dict[str, list[str]]:
    """Split and decode a query string; what is not percent-encoded UTF-8 becomes a violation."""
    pairs: dict[str, list[str]] = {}
    for pair in query.split(b"&", _MAX_PAIRS):
        if not pair:
            continue
        name, _, value = pair.partition(b"=")
        try:
            text = _decoded(value)
            pairs.setdefault(_decoded(name), []).append(text)
        except ValueError:
            shown = name.decode("ascii", "replace")[:100]
            violations.append(Violation(shown, f"{shown!a} is not percent-encoded UTF-8 text", INVALID_PARAMETER))
    return pairs


def _decoded(part: bytes) -> str:
    part = part.replace(b"+", b" ")
    if b"%" in part:
        if _PERCENT_GARBAGE.search(part):
            raise ValueError("a percent sign without two hexadecimal digits")
        part = unquote_to_bytes(part)
    elif not part.isascii():
        raise ValueError("bytes that are not encoded")
    text = part.decode()
    if "\0" in text:
        raise ValueError("a NUL")
    return text
